#include "http_openai.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/openai/server_api.hpp>
#include <cubepi/schema/json_text.hpp>

#include "openai_answer.hpp"
#include "openai_runs.hpp"

namespace cubepi::app {

namespace {

using detail::OpenAIAnswerHead;
using detail::OpenAIClientMessage;
using detail::OpenAIClientRequest;
using detail::OpenAIResponseStatus;
using ReplyPtr = std::shared_ptr<bub::HttpReply>;
using RunPtr = std::shared_ptr<OpenAIRun>;

/// The key of `metadata` that names the session of a request.
constexpr std::string_view session_key = "session";

HttpServerResponse failure(unsigned status, std::string_view message, std::string_view code = {},
                           std::string_view member = {}) {
    HttpServerResponse response =
        HttpServerResponse::json(status, detail::openai_error(status, message, code, member));
    // The SDKs repeat requests with a status from 500 on, as new messages: a turn that has failed is not repeated so.
    if (status >= 500) response.headers.set("x-should-retry", "false");
    return response;
}

/// A response of the channel http in the form of this interface.
HttpServerResponse refusal_of(const HttpServerResponse& refused) {
    boost::system::error_code failed;
    const Json body = boost::json::parse(refused.body, failed);
    std::string text = "the message was not accepted";
    if (!failed && body.is_object()) {
        const JsonObject* const error = detail::object_member(body.get_object(), "error");
        if (error) text = detail::text_member(*error, "message");
    }
    HttpServerResponse response = failure(refused.status, text);
    const std::string_view wait = refused.headers.get("retry-after");
    if (!wait.empty()) {
        response.headers.set("retry-after", std::string(wait));
        response.headers.set("x-should-retry", "true");
    }
    return response;
}

HttpServerResponse unknown_response(std::string_view id) {
    return failure(404, "Response with id '" + std::string(id.substr(0, 100)) + "' not found.");
}

std::int64_t seconds_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               Runtime::standard()->clock->wall().time_since_epoch())
        .count();
}

/// Returns the value of a parameter of the query; empty if it is absent.
std::string_view query_value(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view one = query.substr(0, end);
        query.remove_prefix(std::min(end + 1, query.size()));
        if (one.starts_with(name) && one.substr(name.size()).starts_with('='))
            return one.substr(name.size() + 1);
    }
    return {};
}

/// A conversation as facts for the model: the instructions of the caller, and what precedes the last message.
JsonObject facts_of(const OpenAIClientRequest& request, bool with_earlier) {
    JsonObject facts;
    if (!request.instructions.empty()) facts["instructions"] = request.instructions;
    const std::size_t last = request.messages.empty() ? 0 : request.messages.size() - 1;
    JsonArray earlier;
    for (std::size_t i = 0; with_earlier && i < last; ++i) {
        JsonObject message;
        message["role"] = request.messages[i].is_answer ? "assistant" : "user";
        message["text"] = request.messages[i].text;
        earlier.push_back(std::move(message));
    }
    if (!earlier.empty()) facts["earlier_messages"] = std::move(earlier);
    return facts;
}

void add_message(const OpenAIClientRequest& request, bool with_earlier, JsonObject& body) {
    const OpenAIClientMessage& last = request.messages.back();
    body["text"] = last.text;
    JsonObject facts = facts_of(request, with_earlier);
    if (!facts.empty()) body["context"] = std::move(facts);
    JsonArray files;
    const std::size_t first = with_earlier ? 0 : request.messages.size() - 1;
    for (std::size_t i = first; i < request.messages.size(); ++i) {
        for (const detail::OpenAIClientFile& file : request.messages[i].files) {
            files.push_back(
                JsonObject{{"name", file.name}, {"type", file.type}, {"content", file.content}});
        }
    }
    if (!files.empty()) body["files"] = std::move(files);
}

void add_approval(const detail::OpenAIClientApproval& approval, JsonObject& body) {
    JsonObject answer;
    answer["decision"] = approval.approves ? "approve" : "deny";
    if (!approval.reason.empty()) answer["reason"] = approval.reason;
    body["answer_to"] = approval.request;
    body["answer"] = std::move(answer);
}

/// A request as one to `POST /v1/messages`, whose checks and limits hold for it. `is_continued`: the session exists, and has what
/// precedes the message.
HttpServerRequest message_request(const OpenAIClientRequest& request, const std::string& session,
                                  bool with_earlier, const HttpServerRequest& from) {
    JsonObject body;
    if (!session.empty()) body["session"] = session;
    if (!request.user.empty()) body["user"] = request.user;
    if (request.approval) {
        add_approval(*request.approval, body);
    } else {
        add_message(request, with_earlier, body);
    }
    HttpServerRequest made;
    made.method = "POST";
    made.body = json_text(body);
    made.closed = from.closed;
    const std::string_view key = from.headers.get("idempotency-key");
    // A name of its own: the client chooses that of its request, not that of a message of another interface.
    made.headers.set("idempotency-key",
                     key.empty()
                         ? "openai-" + Runtime::standard()->ids->next()
                         : "openai-" + detail::hex_of(detail::digest_bytes(EVP_sha256(), key)));
    const std::string_view caller = from.headers.get("traceparent");
    if (!caller.empty()) made.headers.set("traceparent", std::string(caller));
    return made;
}

/// Collects an answer for Chat Completions, whole and as chunks.
class ChatSink final : public OpenAIAnswerSink {
public:
    explicit ChatSink(OpenAIAnswerHead head) : writer_(std::move(head)) {}

    void text(std::string_view text) override {
        std::string piece = std::exchange(is_after_message_, false) ? "\n\n" : "";
        piece += text;
        whole_ += piece;
        writer_.add_text(piece, chunks_);
    }
    void end_message() override { is_after_message_ = !whole_.empty(); }
    bool approval(std::string_view, std::string_view, const JsonObject&) override { return false; }
    void end(const OpenAIAnswerEnd& end) override {
        end_ = end;
        if (is_failure()) {
            writer_.fail(end.reason, chunks_);
        } else {
            writer_.finish(end.finish, chunks_);
        }
    }
    void postponed() override {
        end_.status = OpenAIResponseStatus::queued;
        writer_.fail("the gateway ends before the answer is complete", chunks_);
    }

    std::string take_chunks() { return std::exchange(chunks_, {}); }
    HttpServerResponse response() const {
        if (end_.status == OpenAIResponseStatus::queued)
            return failure(503, "the gateway ends before the answer is complete");
        if (is_failure()) return failure(500, end_.reason);
        return HttpServerResponse::json(200, writer_.completion(whole_, end_.finish));
    }

private:
    bool is_failure() const {
        return end_.status == OpenAIResponseStatus::failed ||
               end_.status == OpenAIResponseStatus::cancelled;
    }

    detail::OpenAIChatWriter writer_;
    OpenAIAnswerEnd end_;
    std::string whole_;
    std::string chunks_;
    bool is_after_message_ = false;
};

/// A reply that is read by one client of Chat Completions.
struct ChatRun {
    ChatRun(ReplyPtr from, OpenAIAnswerHead head) : reply(std::move(from)), sink(std::move(head)) {}

    void advance() {
        while (!answer.ended()) {
            const std::optional<bub::HttpReplyPart> part = reply->poll();
            if (!part) break;
            answer.take(*part, sink);
        }
    }

    ReplyPtr reply;
    OpenAIAnswer answer;
    ChatSink sink;
};

/// The routes of the interface, and what they share.
class OpenAIInterface {
public:
    OpenAIInterface(bub::HttpChannel& channel, std::string token)
        : channel_(&channel), names_(std::move(token)), created_(seconds_now()) {}

    Task<HttpServerResponse> list_models(HttpServerRequest request);
    Task<HttpServerResponse> read_model(HttpServerRequest request);
    Task<HttpServerResponse> complete_chat(HttpServerRequest request);
    Task<HttpServerResponse> create_response(HttpServerRequest request);
    Task<HttpServerResponse> read_response(HttpServerRequest request);
    Task<HttpServerResponse> cancel_response(HttpServerRequest request);

private:
    JsonObject model() const;
    /// Ends the turn of a message that no client waits for any longer; waits until it begins.
    Task<> abandon(ReplyPtr reply);
    Task<> write_chat(std::shared_ptr<ChatRun> run, std::stop_token closed, ResponseStream* out);
    /// `keeps_running`: a client that disconnects does not end the turn.
    Task<> write_events(RunPtr run, std::size_t from, bool keeps_running, std::stop_token closed,
                        ResponseStream* out);
    HttpServerResponse events_of(RunPtr run, std::size_t from, bool keeps_running,
                                 std::stop_token closed);
    Task<HttpServerResponse> await_response(RunPtr run, std::stop_token closed);
    Task<HttpServerResponse> read_record(OpenAIResponseName name, std::string id,
                                         std::optional<std::int64_t> stream_after);

    bub::HttpChannel* channel_;
    OpenAIResponseNames names_;
    OpenAIRuns runs_;
    std::int64_t created_;
};

JsonObject OpenAIInterface::model() const {
    return JsonObject{{"id", gateway_agent_name},
                      {"object", "model"},
                      {"created", created_},
                      {"owned_by", "cubepi"}};
}

Task<HttpServerResponse> OpenAIInterface::list_models(HttpServerRequest request) {
    (void)request;
    JsonObject body;
    body["object"] = "list";
    body["data"] = JsonArray{model()};
    co_return HttpServerResponse::json(200, std::move(body));
}

HttpServerResponse unknown_model() {
    return failure(404, std::string("the only model is '") + gateway_agent_name + "'",
                   "model_not_found", "model");
}

Task<HttpServerResponse> OpenAIInterface::read_model(HttpServerRequest request) {
    if (request.parameter("model") != gateway_agent_name) co_return unknown_model();
    co_return HttpServerResponse::json(200, model());
}

Task<> OpenAIInterface::abandon(ReplyPtr reply) {
    while (!reply->done() && !reply->running()) {
        if (reply->lost()) co_return;
        co_await reply->wait(std::stop_token());
    }
    Task<> stopping = channel_->stop_message(reply->id());
    co_await std::move(stopping);
}

/// A request as read, or the response that refuses it.
struct ReadRequest {
    OpenAIClientRequest request;
    std::optional<HttpServerResponse> refusal;
};

ReadRequest read_request(const HttpServerRequest& from,
                         OpenAIClientRequest (*read)(std::string_view body)) {
    ReadRequest made;
    try {
        made.request = read(from.body);
        if (made.request.model != gateway_agent_name) made.refusal = unknown_model();
    } catch (const detail::OpenAIRequestError& error) {
        const std::string place = error.member().empty() ? "" : "'" + error.member() + "' ";
        made.refusal = failure(400, place + error.what(), {}, error.member());
    }
    return made;
}

Task<> OpenAIInterface::write_chat(std::shared_ptr<ChatRun> run, std::stop_token closed,
                                   ResponseStream* out) {
    for (;;) {
        run->advance();
        std::string chunks = run->sink.take_chunks();
        if (!chunks.empty()) {
            Task<> writing = out->write(std::move(chunks));
            const Outcome<> written = co_await outcome_of(std::move(writing));
            if (written.cancelled()) written.rethrow();
            if (!written) break;
        } else if (run->answer.ended()) {
            co_return;
        } else if (closed.stop_requested()) {
            break;
        } else {
            co_await run->reply->wait(closed);
        }
    }
    Task<> ending = abandon(run->reply);
    co_await std::move(ending);
}

Task<HttpServerResponse> OpenAIInterface::complete_chat(HttpServerRequest request) {
    const ReadRequest read = read_request(request, detail::read_openai_chat_request);
    if (read.refusal) co_return *read.refusal;
    const std::string session = detail::text_member(read.request.metadata, session_key);
    HttpServerRequest message = message_request(read.request, session, session.empty(), request);
    Task<bub::HttpSubmission> submitting =
        channel_->submit_message(std::move(message), read.request.streams);
    const bub::HttpSubmission submitted = co_await std::move(submitting);
    if (!submitted.reply) co_return refusal_of(submitted.refusal);
    OpenAIAnswerHead head;
    head.id = "chatcmpl-" + submitted.reply->id();
    head.model = gateway_agent_name;
    head.created = seconds_now();
    auto run = std::make_shared<ChatRun>(submitted.reply, std::move(head));
    const std::stop_token closed = request.closed;
    if (read.request.streams) {
        auto write = [this, run, closed](ResponseStream& out) {
            return write_chat(run, closed, &out);
        };
        co_return HttpServerResponse::events(std::move(write));
    }
    for (;;) {
        run->advance();
        if (run->answer.ended()) co_return run->sink.response();
        if (closed.stop_requested()) break;
        co_await run->reply->wait(closed);
    }
    Task<> ending = abandon(run->reply);
    co_await std::move(ending);
    co_return failure(503, "the client has closed the connection");
}

Task<> OpenAIInterface::write_events(RunPtr run, std::size_t from, bool keeps_running,
                                     std::stop_token closed, ResponseStream* out) {
    for (;;) {
        run->advance();
        if (from < run->events().size()) {
            std::string event = run->events()[from++];
            Task<> writing = out->write(std::move(event));
            const Outcome<> written = co_await outcome_of(std::move(writing));
            if (written.cancelled()) written.rethrow();
            if (!written) break;
        } else if (run->ended()) {
            if (!run->is_postponed()) co_return;
            std::string state = run->state_event(static_cast<std::int64_t>(from));
            co_await out->write(std::move(state));
            co_return;
        } else if (closed.stop_requested()) {
            break;
        } else {
            co_await run->reply()->wait(closed);
        }
    }
    if (keeps_running) co_return;
    Task<> ending = abandon(run->reply());
    co_await std::move(ending);
}

HttpServerResponse OpenAIInterface::events_of(RunPtr run, std::size_t from, bool keeps_running,
                                              std::stop_token closed) {
    auto write = [this, run = std::move(run), from, keeps_running, closed](ResponseStream& out) {
        return write_events(run, from, keeps_running, closed, &out);
    };
    return HttpServerResponse::events(std::move(write));
}

Task<HttpServerResponse> OpenAIInterface::await_response(RunPtr run, std::stop_token closed) {
    for (;;) {
        run->advance();
        if (run->ended()) co_return HttpServerResponse::json(200, run->response());
        if (closed.stop_requested()) break;
        co_await run->reply()->wait(closed);
    }
    Task<> ending = abandon(run->reply());
    co_await std::move(ending);
    co_return failure(503, "the client has closed the connection");
}

/// The members of a response that repeat its request.
JsonObject repeated(const OpenAIClientRequest& request) {
    JsonObject members;
    members["background"] = request.in_background;
    members["store"] = request.stores;
    members["metadata"] = request.metadata;
    if (!request.instructions.empty()) members["instructions"] = request.instructions;
    if (!request.previous_response.empty())
        members["previous_response_id"] = request.previous_response;
    return members;
}

Task<HttpServerResponse> OpenAIInterface::create_response(HttpServerRequest request) {
    const ReadRequest read = read_request(request, detail::read_openai_responses_request);
    if (read.refusal) co_return *read.refusal;
    const OpenAIClientRequest& asked = read.request;
    std::string session = detail::text_member(asked.metadata, session_key);
    if (!asked.previous_response.empty()) {
        const std::optional<OpenAIResponseName> previous = names_.read(asked.previous_response);
        if (!previous) {
            co_return failure(400, "Previous response not found.", "previous_response_not_found",
                              "previous_response_id");
        }
        session = previous->session;
    } else if (asked.approval) {
        co_return failure(400, "an approval needs the 'previous_response_id' of its request", {},
                          "previous_response_id");
    }
    HttpServerRequest message = message_request(asked, session, true, request);
    Task<bub::HttpSubmission> submitting =
        channel_->submit_message(std::move(message), asked.streams || asked.in_background);
    const bub::HttpSubmission submitted = co_await std::move(submitting);
    if (!submitted.reply) co_return refusal_of(submitted.refusal);
    const std::string key = submitted.reply->id();
    OpenAIAnswerHead head;
    head.model = gateway_agent_name;
    head.created = seconds_now();
    // An id that names nothing: the response cannot be read or continued.
    head.id = "resp_" + detail::hex_of(key);
    if (asked.stores) {
        OpenAIResponseName name;
        name.message = key;
        name.session = submitted.reply->session();
        name.created = head.created;
        head.id = names_.id_of(name);
    }
    RunPtr run = asked.in_background ? runs_.find(key) : nullptr;
    if (!run) run = std::make_shared<OpenAIRun>(submitted.reply, std::move(head), repeated(asked));
    if (asked.in_background) runs_.add(key, run);
    if (asked.streams) co_return events_of(std::move(run), 0, asked.in_background, request.closed);
    if (asked.in_background) {
        run->advance();
        co_return HttpServerResponse::json(200, run->response());
    }
    Task<HttpServerResponse> awaiting = await_response(std::move(run), request.closed);
    HttpServerResponse response = co_await std::move(awaiting);
    co_return response;
}

/// Returns a response from the records of its message.
Task<HttpServerResponse> OpenAIInterface::read_record(OpenAIResponseName name, std::string id,
                                                      std::optional<std::int64_t> stream_after) {
    HttpServerRequest reading_request;
    reading_request.parameters["id"] = name.message;
    Task<HttpServerResponse> reading = channel_->read_message(std::move(reading_request));
    const HttpServerResponse found = co_await std::move(reading);
    boost::system::error_code failed;
    const Json body = boost::json::parse(found.body, failed);
    if (found.status >= 400 || failed || !body.is_object()) co_return unknown_response(id);
    OpenAIAnswerHead head;
    head.id = std::move(id);
    head.model = gateway_agent_name;
    head.created = name.created;
    OpenAIRun run(nullptr, std::move(head), JsonObject());
    const std::string state = detail::text_member(body.get_object(), "state");
    if (state == "pending" || state == "held") {
        run.set_status(OpenAIResponseStatus::queued);
    } else if (state != "running") {
        run.complete(body.get_object());
    }
    if (!stream_after) co_return HttpServerResponse::json(200, run.response());
    // The events of the stream are not held any more: the last one has the whole response.
    std::string event = run.state_event(*stream_after + 1);
    HttpServerResponse response(200, std::move(event), "text/event-stream");
    co_return response;
}

Task<HttpServerResponse> OpenAIInterface::read_response(HttpServerRequest request) {
    std::string id(request.parameter("id"));
    const std::optional<OpenAIResponseName> name = names_.read(id);
    if (!name) co_return unknown_response(id);
    const bool streams = query_value(request.query, "stream") == "true";
    std::int64_t after = -1;
    if (const std::string_view text = query_value(request.query, "starting_after"); !text.empty()) {
        const char* const last = text.data() + text.size();
        const auto [end, failed] = std::from_chars(text.data(), last, after);
        constexpr std::int64_t most = std::int64_t{1} << 40U;
        if (failed != std::errc() || end != last || after < 0 || after > most)
            co_return failure(400, "'starting_after' must be a number", {}, "starting_after");
    }
    RunPtr run = runs_.find(name->message);
    if (run) run->advance();
    if (run && !run->is_postponed()) {
        if (!streams) co_return HttpServerResponse::json(200, run->response());
        const auto from = static_cast<std::size_t>(after + 1);
        co_return events_of(std::move(run), from, true, request.closed);
    }
    Task<HttpServerResponse> reading =
        read_record(*name, std::move(id), streams ? std::optional(after) : std::nullopt);
    HttpServerResponse response = co_await std::move(reading);
    co_return response;
}

Task<HttpServerResponse> OpenAIInterface::cancel_response(HttpServerRequest request) {
    std::string id(request.parameter("id"));
    const std::optional<OpenAIResponseName> name = names_.read(id);
    if (!name) co_return unknown_response(id);
    const RunPtr run = runs_.find(name->message);
    if (run) {
        Task<> ending = abandon(run->reply());
        co_await std::move(ending);
        // The turn ends soon after.
        Task<HttpServerResponse> awaiting = await_response(run, request.closed);
        HttpServerResponse response = co_await std::move(awaiting);
        co_return response;
    }
    Task<> stopping = channel_->stop_message(name->message);
    co_await std::move(stopping);
    Task<HttpServerResponse> reading = read_record(*name, std::move(id), std::nullopt);
    HttpServerResponse response = co_await std::move(reading);
    co_return response;
}

}  // namespace

void add_openai_interface(HttpRoutes& routes, bub::HttpChannel& channel, std::string token) {
    auto interface = std::make_shared<OpenAIInterface>(channel, std::move(token));
    using Member = Task<HttpServerResponse> (OpenAIInterface::*)(HttpServerRequest);
    const auto add = [&](const char* method, const char* pattern, Member member) {
        routes.add(method, pattern, [interface, member](HttpServerRequest request) {
            return ((*interface).*member)(std::move(request));
        });
    };
    add("GET", "/v1/models", &OpenAIInterface::list_models);
    add("GET", "/v1/models/{model}", &OpenAIInterface::read_model);
    add("POST", "/v1/chat/completions", &OpenAIInterface::complete_chat);
    add("POST", "/v1/responses", &OpenAIInterface::create_response);
    add("GET", "/v1/responses/{id}", &OpenAIInterface::read_response);
    add("POST", "/v1/responses/{id}/cancel", &OpenAIInterface::cancel_response);
}

}  // namespace cubepi::app
