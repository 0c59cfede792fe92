#include <cubepi/mcp/client_channel.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {

namespace {

using detail::object_member;
using detail::string_member;

constexpr std::string_view allow_key = "allow";
constexpr std::size_t max_shown_arguments = 2000;

JsonObject form_of(JsonObject properties, JsonArray required) {
    JsonObject schema;
    schema["type"] = "object";
    schema["properties"] = std::move(properties);
    schema["required"] = std::move(required);
    return schema;
}

JsonObject yes_or_no(std::string_view title) {
    JsonObject allow;
    allow["type"] = "boolean";
    allow["title"] = title;
    JsonObject properties;
    properties[allow_key] = std::move(allow);
    return form_of(std::move(properties), JsonArray{allow_key});
}

JsonObject field_of(const HitlQuestion& question) {
    JsonArray choices;
    bool takes_text = !question.options;
    if (question.options) {
        for (const HitlOption& option : *question.options) {
            JsonObject choice;
            choice["const"] = option.value;
            choice["title"] = option.label;
            choices.emplace_back(std::move(choice));
            takes_text = takes_text || option.allow_input;
        }
    }
    JsonObject field;
    field["title"] = question.prompt;
    if (question.multi_select && question.options) {
        field["type"] = "array";
        field["items"] = JsonObject{{"anyOf", std::move(choices)}};
    } else {
        field["type"] = "string";
        if (!takes_text) field["oneOf"] = std::move(choices);
    }
    return field;
}

/// The question of a request, and what its form is about.
struct Form {
    std::string message;
    JsonObject schema;
};

Form form_of(const HitlPayload& payload) {
    Form form;
    if (const auto* confirm = std::get_if<ConfirmRequest>(&payload)) {
        form.message = confirm->prompt;
        form.schema = yes_or_no("Yes");
    } else if (const auto* approve = std::get_if<ApproveRequest>(&payload)) {
        const JsonObject* details = approve->details.if_object();
        if (details) form.message = string_member(*details, "question");
        if (form.message.empty()) form.message = "Call the tool " + approve->tool_name + "?";
        const std::string arguments = json_text(approve->args);
        const std::string shown =
            replace_broken_utf8(std::string_view(arguments).substr(0, max_shown_arguments));
        form.message += "\n" + shown;
        if (arguments.size() > max_shown_arguments) {
            form.message += "... (" + std::to_string(arguments.size() - max_shown_arguments) +
                            " more bytes, which are not shown)";
        }
        form.schema = yes_or_no("Allow this call");
    } else {
        JsonObject properties;
        JsonArray required;
        for (const HitlQuestion& question : std::get<AskRequest>(payload).questions) {
            properties[question.key] = field_of(question);
            if (question.required) required.emplace_back(question.key);
            form.message += (form.message.empty() ? "" : "\n") + question.prompt;
        }
        form.schema = form_of(std::move(properties), std::move(required));
    }
    return form;
}

class ClientChannel final : public HitlChannel {
public:
    explicit ClientChannel(McpRequest& request) : request_(request) {}

    Task<Json> request(HitlPayload payload, HitlOptions) override {
        Form form = form_of(payload);
        McpQuestion question = mcp_form("question_" + std::to_string(++asked_),
                                        std::move(form.message), std::move(form.schema));
        const JsonObject answer = co_await request_.ask(std::move(question));
        co_return answer_of(std::move(payload), answer);
    }
    std::vector<HitlRequest> pending() const override { return {}; }
    HitlRequestStream subscribe() override { return feed_.subscribe(); }
    Task<> answer(std::string, Json, AnswerOrigin) override {
        throw Error(ErrorCode::stale_answer, "the client answers these questions");
    }
    Task<> cancel(std::string, std::string) override {
        throw Error(ErrorCode::stale_answer, "the client answers these questions");
    }

private:
    static Json answer_of(HitlPayload payload, const JsonObject& answer) {
        const std::string_view action = string_member(answer, "action");
        if (action == "cancel") throw HitlCancelled("the user dismissed the form");
        const JsonObject* content = object_member(answer, "content");
        const bool allowed =
            action == "accept" && content && detail::flag_member(*content, allow_key);
        if (std::holds_alternative<ConfirmRequest>(payload)) return Json(allowed);
        if (std::holds_alternative<ApproveRequest>(payload)) {
            if (!allowed) return Json(to_json(ApproveAnswer::deny("The user refused this call.")));
            return Json(to_json(ApproveAnswer()));
        }
        if (action != "accept" || !content) throw HitlCancelled("the user declined to answer");
        HitlRequest asked;
        asked.payload = std::move(payload);
        return check_answer(asked, Json(*content));
    }

    McpRequest& request_;
    HitlRequestFeed feed_;
    int asked_ = 0;
};

}  // namespace

std::shared_ptr<HitlChannel> mcp_client_channel(McpRequest& request) {
    return std::make_shared<ClientChannel>(request);
}

}  // namespace cubepi
