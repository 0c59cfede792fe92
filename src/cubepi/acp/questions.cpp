#include <cubepi/acp/questions.hpp>

#include <algorithm>
#include <exception>
#include <variant>

#include <cubepi/acp/wire/messages.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi {

namespace {

JsonObject choice_of(std::string id, std::string name, std::string_view kind) {
    JsonObject choice;
    choice["optionId"] = std::move(id);
    choice["name"] = std::move(name);
    choice["kind"] = kind;
    return choice;
}

const std::string& name_of(const HitlRequest& request) {
    return request.request_id.empty() ? request.question_id : request.request_id;
}

std::string reason_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "the editor cannot answer";
    }
}

AnswerOrigin origin_of(const AcpEditorInfo& editor) {
    AnswerOrigin origin;
    origin.channel = editor.name.empty() ? "acp" : "acp:" + editor.name;
    return origin;
}

}  // namespace

struct AcpQuestions::Open {
    std::shared_ptr<HitlChannel> channel;
    std::string id;
    std::stop_source withdrawal;
};

AcpQuestions::AcpQuestions(std::shared_ptr<AcpEditor> editor, std::string session,
                           std::shared_ptr<AcpUpdates> updates, Options options)
    : editor_(std::move(editor)),
      session_(std::move(session)),
      updates_(std::move(updates)),
      options_(std::move(options)) {}

Task<> AcpQuestions::serve(std::shared_ptr<HitlChannel> channel) {
    const auto body = [this, &channel](TaskScope& scope) { return take_all(channel, scope); };
    Task<> serving = with_task_scope(body);
    co_await std::move(serving);
}

Task<> AcpQuestions::take_all(std::shared_ptr<HitlChannel> channel, TaskScope& scope) {
    HitlRequestStream requests = channel->subscribe();
    std::vector<HitlRequest> waiting = channel->pending();
    for (HitlRequest& request : waiting) scope.spawn(ask(channel, std::move(request)));
    while (true) {
        std::optional<HitlRequest> request = co_await requests.next();
        if (!request) co_return;
        scope.spawn(ask(channel, std::move(*request)));
    }
}

void AcpQuestions::refresh() {
    for (Open* open : open_) {
        const std::vector<HitlRequest> waiting = open->channel->pending();
        const bool waits = std::ranges::any_of(
            waiting, [&](const HitlRequest& request) { return name_of(request) == open->id; });
        if (!waits) open->withdrawal.request_stop();
    }
}

Task<> AcpQuestions::ask(std::shared_ptr<HitlChannel> channel, HitlRequest request) {
    Open open;
    open.channel = channel;
    open.id = name_of(request);
    struct Listed {
        std::vector<Open*>& all;
        Open* one;
        Listed(std::vector<Open*>& its_all, Open* its_one) : all(its_all), one(its_one) {
            all.push_back(one);
        }
        ~Listed() { std::erase(all, one); }
    };
    const Listed listed(open_, &open);
    Task<Json> withdrawable = cancel_on(open.withdrawal.get_token(), answer_to(request));
    Outcome<Json> answer = co_await outcome_of(std::move(withdrawable));
    if (open.withdrawal.stop_requested()) co_return;
    // The end of the run, or of another host's answer, may have come first: then the answer is stale.
    if (answer.ok()) {
        AnswerOrigin origin = origin_of(editor_->info());
        Task<> answering = channel->answer(open.id, std::move(answer).value(), std::move(origin));
        Outcome<> answered = co_await outcome_of(std::move(answering));
        if (answered.ok()) co_return;
        (void)co_await outcome_of(channel->cancel(open.id, reason_of(answered.failure())));
        co_return;
    }
    if (answer.cancelled()) answer.rethrow();
    (void)co_await outcome_of(channel->cancel(open.id, reason_of(answer.failure())));
}

Task<Json> AcpQuestions::answer_to(const HitlRequest& request) {
    return std::holds_alternative<ApproveRequest>(request.payload) ? approve(request)
                                                                   : choose(request);
}

/// `call`: empty for a question that is not about a call, which only version 1 shows as one.
JsonObject AcpQuestions::permission(std::string title, JsonObject call, const JsonArray& choices) {
    JsonObject params;
    params["sessionId"] = session_;
    params["options"] = choices;
    if (editor_->info().protocol < 2) {
        if (call.empty()) call = updates_->describe("question", JsonObject());
        call["title"] = std::move(title);
        params["toolCall"] = std::move(call);
        return params;
    }
    params["title"] = std::move(title);
    if (!call.empty()) {
        JsonObject subject;
        subject["type"] = "tool_call";
        subject["toolCall"] = detail::tool_call_two(std::move(call));
        params["subject"] = std::move(subject);
    }
    return params;
}

/// Returns the id of the chosen option. Throws Error(hitl) if the user has chosen none.
Task<std::string> AcpQuestions::choice(std::string title, JsonObject call, JsonArray choices) {
    JsonObject params = permission(std::move(title), std::move(call), choices);
    JsonObject result = co_await editor_->request("session/request_permission", std::move(params));
    const JsonObject* outcome = detail::object_member(result, "outcome");
    const std::string id = outcome && detail::string_member(*outcome, "outcome") == "selected"
                               ? detail::text_member(*outcome, "optionId")
                               : std::string();
    // An id that was not offered is consent to nothing.
    const bool offered = std::ranges::any_of(choices, [&](const Json& one) {
        return detail::string_member(one.get_object(), "optionId") == id;
    });
    if (!offered) throw Error(ErrorCode::hitl, "the user has dismissed the question");
    co_return id;
}

Task<Json> AcpQuestions::approve(const HitlRequest& request) {
    const auto& asked = std::get<ApproveRequest>(request.payload);
    JsonObject call = updates_->describe(asked.tool_name, asked.args);
    if (const auto id = updates_->id_of(asked.tool_call_id)) call["toolCallId"] = *id;
    std::string title = options_.title ? options_.title(request) : std::string();
    if (title.empty()) title = detail::text_member(call, "title");
    if (options_.content) {
        JsonArray content = options_.content(request);
        if (!content.empty()) call["content"] = std::move(content);
    }
    call["status"] = "pending";
    JsonArray choices;
    choices.emplace_back(choice_of("allow", "Allow", "allow_once"));
    const std::optional<std::string> always =
        options_.always ? options_.always(request) : std::nullopt;
    if (always)
        choices.emplace_back(choice_of("always", "Always allow " + *always, "allow_always"));
    choices.emplace_back(choice_of("reject", "Reject", "reject_once"));
    const std::string chosen =
        co_await choice(std::move(title), std::move(call), std::move(choices));
    const bool allows = chosen == "allow" || chosen == "always";
    if (!allows) co_return Json(to_json(ApproveAnswer::deny("The user refused this call.")));
    if (options_.still_allowed && !options_.still_allowed(request))
        co_return Json(to_json(ApproveAnswer::deny("The mode does not allow this call any more.")));
    if (chosen == "always" && options_.on_always) options_.on_always(request);
    co_return Json(to_json(ApproveAnswer()));
}

Task<Json> AcpQuestions::choose(const HitlRequest& request) {
    if (const auto* confirm = std::get_if<ConfirmRequest>(&request.payload)) {
        JsonArray choices;
        choices.emplace_back(choice_of("yes", "Yes", "allow_once"));
        choices.emplace_back(choice_of("no", "No", "reject_once"));
        const std::string chosen =
            co_await choice(confirm->prompt, JsonObject(), std::move(choices));
        co_return Json(chosen == "yes");
    }
    const auto& asked = std::get<AskRequest>(request.payload);
    JsonObject answers;
    for (const HitlQuestion& question : asked.questions) {
        if (!question.options || question.options->empty() || question.multi_select) {
            throw Error(ErrorCode::hitl,
                        "the editor shows only questions with a choice of one option; ask in your "
                        "answer instead");
        }
        JsonArray choices;
        for (std::size_t i = 0; i < question.options->size(); ++i) {
            choices.emplace_back(
                choice_of(std::to_string(i), (*question.options)[i].label, "allow_once"));
        }
        const std::string chosen =
            co_await choice(question.prompt, JsonObject(), std::move(choices));
        answers[question.key] = (*question.options)[std::stoul(chosen)].value;
    }
    co_return Json(std::move(answers));
}

}  // namespace cubepi
