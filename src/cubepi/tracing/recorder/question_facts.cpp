#include <cubepi/tracing/recorder/question_facts.hpp>

namespace cubepi::detail {

namespace {

std::string_view text_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

}  // namespace

std::string_view question_kind(const HitlRequest& request) {
    if (std::holds_alternative<ApproveRequest>(request.payload)) return "approve";
    return std::holds_alternative<ConfirmRequest>(request.payload) ? "confirm" : "ask";
}

std::string_view answer_outcome(std::string_view kind, const HitlAnswerEvent& event) {
    if (event.cancelled) return "cancelled";
    if (kind == "confirm") {
        const bool* yes = event.answer.if_bool();
        if (!yes) return "answered";
        return *yes ? "approved" : "denied";
    }
    const JsonObject* answer = event.answer.if_object();
    if (kind != "approve" || !answer) return "answered";
    const std::string_view decision = text_of(*answer, "decision");
    if (decision == "approve") return "approved";
    if (decision == "deny") return "denied";
    return decision == "edit" ? "edited" : "answered";
}

std::optional<QuestionEnd> question_end(const Notice& notice) {
    if (notice.code != "hitl_request_ended") return std::nullopt;
    return QuestionEnd{text_of(notice.details, "question_id"), text_of(notice.details, "outcome")};
}

}  // namespace cubepi::detail
