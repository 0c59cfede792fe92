#include <cubepi/testing/hitl_channels.hpp>

#include <utility>

namespace cubepi::testing {

namespace {

[[noreturn]] void throw_stale(const std::string& question_id) {
    throw Error(ErrorCode::stale_answer, "there is no pending request '" + question_id +
                                             "': this channel answers by itself");
}

}  // namespace

Task<Json> ImmediateChannel::request(HitlPayload payload, HitlOptions options) {
    HitlRequest request;
    if (const auto* call = std::get_if<ApproveRequest>(&payload)) {
        request.question_id = call->tool_call_id;
    } else {
        request.question_id =
            options.tool_call_id.value_or("q" + std::to_string(history_.size() + 1));
    }
    request.payload = std::move(payload);
    request.extra = std::move(options.extra);
    history_.push_back(request);
    feed_.publish(request);
    co_return check_answer(request, answer_to(request));
}

Task<> ImmediateChannel::answer(std::string question_id, Json, AnswerOrigin) {
    throw_stale(question_id);
    co_return;
}

Task<> ImmediateChannel::cancel(std::string question_id, std::string) {
    throw_stale(question_id);
    co_return;
}

Json ScriptedChannel::answer_to(const HitlRequest& request) {
    if (used_ == answers_.size())
        throw HitlError(ErrorCode::hitl, "the script has no answer for request '" +
                                             request.question_id + "', the number " +
                                             std::to_string(used_ + 1));
    const Answer& next = answers_[used_++];
    const auto* function = std::get_if<1>(&next);
    return function ? (*function)(request) : std::get<0>(next);
}

Json NoopChannel::answer_to(const HitlRequest& request) {
    if (std::holds_alternative<ConfirmRequest>(request.payload)) return Json(true);
    const auto* ask = std::get_if<AskRequest>(&request.payload);
    if (!ask) return Json(to_json(ApproveAnswer()));
    JsonObject answers;
    for (const HitlQuestion& question : ask->questions) {
        const bool has_options = question.options && !question.options->empty();
        answers[question.key] = has_options ? question.options->front().value : std::string();
    }
    return answers;
}

}  // namespace cubepi::testing
