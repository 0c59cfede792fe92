#include <algorithm>
#include <utility>
#include <variant>

#include <bub/questions.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "agui.hpp"
#include "openai_interface.hpp"

namespace cubepi::app {

namespace {

/// Returns the questions that are interrupts: not those for outputs of calls of the client's tools.
std::vector<HitlRequest> interrupts_among(const JsonArray& questions) {
    std::vector<HitlRequest> open;
    for (const Json& question : questions) {
        HitlRequest request = hitl_request_from_json(question);
        if (!bub::client_call_of(question.get_object())) open.push_back(std::move(request));
    }
    return open;
}

HttpServerResponse refusal_of(const detail::OpenAIRequestError& error) {
    const std::string place = error.member().empty() ? "" : "'" + error.member() + "' ";
    return openai_failure(400, place + error.what(), {}, error.member());
}

HttpServerResponse refused_run(const AguiRunHead& head, const std::vector<HitlRequest>& open,
                               const std::string& text) {
    AguiRun run(nullptr, {}, head);
    run.refuse(open, text);
    return run.response();
}

HttpServerResponse other_run() {
    return openai_failure(422, "this runId belongs to another request", {}, "runId");
}

bool is_in_progress(const JsonObject& message) {
    const std::string state = detail::text_member(message, "state");
    return state == "pending" || state == "running" || state == "held";
}

/// Returns the run of a message that the records know.
HttpServerResponse known_run(const JsonObject& message, AguiRunHead head,
                             OpenAIRun::CallId call_id) {
    if (is_in_progress(message)) {
        HttpServerResponse later =
            openai_failure(503, "the run is in progress; send the request again later");
        later.headers.set("retry-after", "5");
        return later;
    }
    AguiRun run(nullptr, std::move(call_id), std::move(head));
    run.complete(message);
    return run.response();
}

/// Notes the call that an answered question is about.
void add_open_call(const HitlRequest& answered, AguiRunHead& head) {
    const auto* const approve = std::get_if<ApproveRequest>(&answered.payload);
    if (!approve || !bub::asking_agents(answered).empty()) return;
    AguiOpenCall call;
    call.id = agui_call_of(answered);
    call.name = approve->tool_name;
    call.arguments = approve->args;
    call.is_asked = true;
    std::erase_if(head.open_calls,
                  [&call](const AguiOpenCall& known) { return known.id == call.id; });
    head.open_calls.push_back(std::move(call));
}

}  // namespace

Task<std::optional<HttpServerResponse>> OpenAIInterface::check_answers(
    AguiRequest* asked, AguiRunHead* head, OpenAISubmission* submission) {
    std::optional<HttpServerResponse> refusal;
    const JsonArray questions = co_await open_questions(submission->session);
    const std::vector<HitlRequest> open = interrupts_among(questions);
    const auto name_of = [](const HitlRequest& one) { return bub::question_name(one); };
    std::string unanswered;
    for (const HitlRequest& one : open) {
        const bool is_answered =
            std::any_of(asked->answers.begin(), asked->answers.end(),
                        [&](const AguiAnswer& answer) { return answer.question == name_of(one); });
        if (!is_answered) unanswered += (unanswered.empty() ? "" : ", ") + name_of(one);
    }
    if (!unanswered.empty()) {
        refusal = refused_run(*head, open,
                              "the thread waits for answers to these interrupts: " + unanswered +
                                  "; send them all in 'resume'");
        co_return refusal;
    }
    for (const AguiAnswer& answer : asked->answers) {
        const auto found = std::find_if(open.begin(), open.end(), [&](const HitlRequest& one) {
            return name_of(one) == answer.question;
        });
        if (found == open.end()) {
            refusal = refused_run(*head, open,
                                  "no interrupt '" + answer.question +
                                      "' of this thread waits for an answer: it was answered, or "
                                      "its time is over");
            co_return refusal;
        }
        try {
            submission->answers.push_back(agui_answer(answer, *found));
        } catch (const detail::OpenAIRequestError& error) {
            refusal = refused_run(*head, open, error.what());
        }
        if (refusal) co_return refusal;
        add_open_call(*found, *head);
    }
    const std::vector<OpenAIOpenCall> calls = open_calls_of(questions);
    for (const OpenAIOpenCall& call : calls) head->client_tools.insert(call.name);
    // Outputs of calls that are over may precede a message of the user, open ones not: they continue the run.
    std::vector<detail::OpenAIClientMessage>& messages = asked->client.messages;
    const bool ends_with_text = !messages.empty() && messages.back().output_of.empty();
    if (!ends_with_text) co_return refusal;
    for (const detail::OpenAIClientMessage& message : messages) {
        const std::optional<OpenAICallName> call = names_.read_call(message.output_of);
        const bool is_open =
            call && std::any_of(calls.begin(), calls.end(), [&](const OpenAIOpenCall& one) {
                return one.question == call->question;
            });
        if (!is_open) continue;
        refusal = openai_failure(
            400, "send the results of tool calls in a run of their own, before the next message",
            {}, "messages");
        co_return refusal;
    }
    std::erase_if(messages,
                  [](const detail::OpenAIClientMessage& one) { return !one.output_of.empty(); });
    co_return refusal;
}

/// A thread is a session, and the id of a run names its message: a client that repeats the request joins the run (D239).
Task<HttpServerResponse> OpenAIInterface::run_agent(HttpServerRequest request) {
    AguiRequest asked;
    std::optional<HttpServerResponse> refusal;
    try {
        asked = read_agui_request(request.body);
    } catch (const detail::OpenAIRequestError& error) {
        refusal = refusal_of(error);
    }
    if (refusal) co_return *refusal;
    request.headers.set("idempotency-key",
                        std::to_string(asked.thread.size()) + " " + asked.thread + " " + asked.run);
    OpenAISubmission submission;
    submission.session = user_.empty() ? asked.thread : user_ + ":" + asked.thread;
    submission.protocol = "ag-ui";
    submission.with_earlier = true;
    submission.detail = bub::HttpReplyDetail::events;
    submission.context = std::move(asked.context);
    const std::string id = message_id(request, submission.protocol, asked.client.user);
    AguiRunHead head;
    head.thread = asked.thread;
    head.run = asked.run;
    constexpr std::size_t mark_size = 24;
    head.mark = id.substr(id.size() - mark_size);
    head.state = std::move(asked.state);
    for (const detail::OpenAIClientTool& tool : asked.client.tools)
        head.client_tools.insert(tool.name);
    head.open_calls = std::move(asked.open_calls);
    const std::string digest = detail::sha256_bytes(request.body);
    JsonArray answers;
    for (const AguiAnswer& answer : asked.answers)
        answers.push_back(JsonArray{answer.question, answer.is_cancelled, answer.payload});
    submission.digest = digest_of(asked.client, answers);
    const auto reader = std::make_shared<Reader>(*this, id);
    RunPtr run = runs_.find(id);
    if (run) run->advance();
    // A postponed one may have ended in another process.
    if (run && run->is_postponed()) run = nullptr;
    if (run && run->request == digest)
        co_return events_of(std::move(run), reader, 0, request.closed);
    if (run && !asked.answers.empty()) co_return other_run();
    Task<std::optional<JsonObject>> finding = known_message(id, submission.session);
    const std::optional<JsonObject> known = co_await std::move(finding);
    const std::string recorded =
        known ? detail::text_member(*known, bub::request_digest_key) : std::string();
    if (!recorded.empty() && recorded != submission.digest) co_return other_run();
    // The submission of a message that is still open waits for its end.
    if (known && !run && (!asked.answers.empty() || !is_in_progress(*known)))
        co_return known_run(*known, std::move(head), call_ids(submission.session));
    submission.is_known = known.has_value();
    if (!known) {
        Task<std::optional<HttpServerResponse>> checking =
            check_answers(&asked, &head, &submission);
        refusal = co_await std::move(checking);
    }
    if (refusal) co_return *refusal;
    submission.request = std::move(asked.client);
    Task<bub::HttpSubmission> submitting = submit_as(id, request, std::move(submission));
    const bub::HttpSubmission submitted = co_await std::move(submitting);
    if (!submitted.reply) co_return submitted.refusal;
    run = runs_.find(id);
    if (!run || run->is_postponed()) {
        run = std::make_shared<AguiRun>(submitted.reply, call_ids(submitted.reply->session()),
                                        std::move(head));
        run->request = digest;
        // A client that repeats it finds the run as it was, also when its questions were answered.
        runs_.add(id, run, true);
    }
    co_return events_of(std::move(run), reader, 0, request.closed);
}

}  // namespace cubepi::app
