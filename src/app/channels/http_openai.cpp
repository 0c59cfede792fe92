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

#include "openai_messages.hpp"
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

/// The message of a session that is a compaction.
constexpr std::string_view summary_request =
    "Summarize the conversation above in a few paragraphs, so that it can be continued with the "
    "summary: what was asked, decided and found, and what is open.";

/// A response of the channel http in the form of this interface.
HttpServerResponse refusal_of(const HttpServerResponse& refused) {
    boost::system::error_code failed;
    const Json body = boost::json::parse(refused.body, failed);
    std::string text = "the message was not accepted";
    if (!failed && body.is_object()) {
        const JsonObject* const error = detail::object_member(body.get_object(), "error");
        if (error) text = detail::text_member(*error, "message");
    }
    HttpServerResponse response = openai_failure(refused.status, text);
    const std::string_view wait = refused.headers.get("retry-after");
    if (!wait.empty()) {
        response.headers.set("retry-after", std::string(wait));
        response.headers.set("x-should-retry", "true");
    }
    return response;
}

HttpServerResponse unknown_response(std::string_view id) {
    return openai_failure(404,
                          "Response with id '" + std::string(id.substr(0, 100)) + "' not found.");
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

/// Returns the Idempotency-Key of the messages of a request: a name of its own, because the client chooses that of its request, not that of
/// a message of another interface.
std::string message_key(const HttpServerRequest& request, std::string_view protocol) {
    const std::string_view key = request.headers.get("idempotency-key");
    const std::string name =
        key.empty() ? Runtime::standard()->ids->next()
                    : detail::hex_of(detail::digest_bytes(
                          EVP_sha256(), std::string(protocol) + " " + std::string(key)));
    return "openai-" + name;
}

/// A client that waits for an answer.
class Reader {
public:
    explicit Reader(RunPtr run) : run_(std::move(run)) { ++run_->readers; }
    Reader(Reader&& other) noexcept : run_(std::exchange(other.run_, nullptr)) {}
    Reader& operator=(Reader&&) = delete;
    ~Reader() { leave(); }
    void leave() noexcept {
        if (const RunPtr run = std::exchange(run_, nullptr)) --run->readers;
    }

private:
    RunPtr run_;
};

/// One more, until its end.
class Counted {
public:
    explicit Counted(std::size_t& count) : count_(count) { ++count_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { --count_; }

private:
    std::size_t& count_;
};

/// The routes of the interface, and what they share.
class OpenAIInterface {
public:
    OpenAIInterface(bub::HttpChannel& channel, OpenAIKey key)
        : channel_(&channel),
          names_(std::move(key.token)),
          user_(std::move(key.name)),
          most_turns_(key.most_turns),
          created_(seconds_now()) {}

    Task<HttpServerResponse> list_models(HttpServerRequest request);
    Task<HttpServerResponse> read_model(HttpServerRequest request);
    Task<HttpServerResponse> complete_chat(HttpServerRequest request);
    Task<HttpServerResponse> create_response(HttpServerRequest request);
    Task<HttpServerResponse> compact(HttpServerRequest request);
    Task<HttpServerResponse> read_response(HttpServerRequest request);
    Task<HttpServerResponse> cancel_response(HttpServerRequest request);

private:
    JsonObject model() const;
    /// Returns the session that a request names; empty: none.
    std::string session_of(const OpenAIClientRequest& request) const;
    /// Submits the messages of a request. `session`: named by the request, or of its previous response.
    Task<bub::HttpSubmission> submit(HttpServerRequest from, OpenAIClientRequest request,
                                     std::string session, std::string_view protocol,
                                     bool with_earlier);
    Task<bub::HttpSubmission> submit_all(std::vector<HttpServerRequest> messages,
                                         JsonObject members, std::stop_token closed);
    Task<std::vector<OpenAIOpenCall>> open_calls(std::string session);
    /// Checks that a request has the outputs of all calls that its session waits for, and removes those that it does not wait for.
    Task<std::optional<HttpServerResponse>> check_outputs(OpenAIDestination* destination,
                                                          std::string key, bool is_repeated,
                                                          bool has_approval);
    OpenAIRun::CallId call_ids(std::string session) const {
        return [this, session = std::move(session)](std::string_view question) {
            return names_.call_id_of({session, std::string(question)});
        };
    }
    /// Ends the turn of a message that no client waits for any longer.
    Task<> abandon(RunPtr run);
    /// `keeps_running`: a client that disconnects does not end the turn.
    Task<> write_events(std::shared_ptr<Reader> reader, RunPtr run, std::size_t from,
                        bool keeps_running, std::stop_token closed, ResponseStream* out);
    HttpServerResponse events_of(RunPtr run, std::size_t from, bool keeps_running,
                                 std::stop_token closed);
    Task<HttpServerResponse> await_response(RunPtr run, bool keeps_running, std::stop_token closed);
    Task<HttpServerResponse> read_record(OpenAIResponseName name, std::string id,
                                         std::optional<std::int64_t> stream_after);

    bub::HttpChannel* channel_;
    OpenAIResponseNames names_;
    const std::string user_;  // of all messages; empty: the requests name users
    const std::size_t most_turns_;
    OpenAIRuns runs_;
    std::size_t submitting_ = 0;  // requests whose run is not in runs_ yet
    std::int64_t created_;
};

std::string OpenAIInterface::session_of(const OpenAIClientRequest& request) const {
    std::string session = detail::text_member(request.metadata, session_key);
    return session.empty() || user_.empty() ? session : user_ + ":" + session;
}

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
    return openai_failure(404, std::string("the only model is '") + gateway_agent_name + "'",
                          "model_not_found", "model");
}

Task<HttpServerResponse> OpenAIInterface::read_model(HttpServerRequest request) {
    if (request.parameter("model") != gateway_agent_name) co_return unknown_model();
    co_return HttpServerResponse::json(200, model());
}

Task<> OpenAIInterface::abandon(RunPtr run) {
    const ReplyPtr reply = run->reply();
    // Another client may ask for the same answer meanwhile.
    while (!reply->done() && !reply->lost() && run->readers == 0) {
        std::string id = reply->id();
        const bool has_ended = co_await channel_->stop_message(std::move(id));
        if (has_ended) co_return;
        // The message is on its way to its turn.
        co_await reply->wait(std::stop_token());
    }
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
        made.refusal = openai_failure(400, place + error.what(), {}, error.member());
    }
    return made;
}

Task<std::vector<OpenAIOpenCall>> OpenAIInterface::open_calls(std::string session) {
    HttpServerRequest reading_request;
    reading_request.parameters["session"] = std::move(session);
    reading_request.query = "limit=1";
    Task<HttpServerResponse> reading = channel_->read_session(std::move(reading_request));
    const HttpServerResponse found = co_await std::move(reading);
    std::vector<OpenAIOpenCall> open;
    if (found.status == 200) open = open_calls_of(found.body);
    co_return open;
}

Task<std::optional<HttpServerResponse>> OpenAIInterface::check_outputs(
    OpenAIDestination* destination, std::string key, bool is_repeated, bool has_approval) {
    std::optional<HttpServerResponse> refusal;
    if (destination->session.empty()) co_return refusal;
    std::vector<OpenAIOutput>& outputs = destination->outputs;
    // A client that repeats a request receives the answer of its turn.
    if (destination->answers && is_repeated) {
        HttpServerRequest reading_request;
        reading_request.parameters["id"] = key + "-" + outputs.back().call.question;
        Task<HttpServerResponse> reading = channel_->read_message(std::move(reading_request));
        const HttpServerResponse known = co_await std::move(reading);
        if (known.status < 400) {
            outputs.erase(outputs.begin(), outputs.end() - 1);
            co_return refusal;
        }
    }
    const std::vector<OpenAIOpenCall> open = co_await open_calls(destination->session);
    const auto is_of = [](const OpenAIOutput& output, const OpenAIOpenCall& call) {
        return output.call.question == call.question;
    };
    for (const OpenAIOpenCall& call : open) {
        if (has_approval && !destination->answers) break;
        const bool is_answered =
            std::any_of(outputs.begin(), outputs.end(),
                        [&](const OpenAIOutput& output) { return is_of(output, call); });
        if (is_answered) continue;
        const std::string id = names_.call_id_of({destination->session, call.question});
        refusal = openai_failure(
            400, "No tool output found for function call " + id + " of '" + call.name + "'.");
        co_return refusal;
    }
    if (!destination->answers) co_return refusal;
    // The conversation also has those of earlier calls.
    std::erase_if(outputs, [&](const OpenAIOutput& output) {
        return std::none_of(open.begin(), open.end(),
                            [&](const OpenAIOpenCall& call) { return is_of(output, call); });
    });
    if (outputs.empty())
        refusal = openai_failure(400, "The outputs of these calls were received before.");
    co_return refusal;
}

Task<bub::HttpSubmission> OpenAIInterface::submit_all(std::vector<HttpServerRequest> messages,
                                                      JsonObject members, std::stop_token closed) {
    bub::HttpSubmission submitted;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const bool is_last = i + 1 == messages.size();
        Task<bub::HttpSubmission> submitting =
            channel_->submit_message(std::move(messages[i]), is_last, members);
        submitted = co_await std::move(submitting);
        if (!submitted.reply || is_last) break;
        // The run continues with the last one.
        const ReplyPtr reply = submitted.reply;
        while (!reply->done() && !reply->lost() && !closed.stop_requested())
            co_await reply->wait(closed);
        if (reply->done()) continue;
        submitted.reply = nullptr;
        submitted.refusal = HttpServerResponse::error(503, "the outputs were received in part");
        break;
    }
    co_return submitted;
}

Task<bub::HttpSubmission> OpenAIInterface::submit(HttpServerRequest from,
                                                  OpenAIClientRequest request, std::string session,
                                                  std::string_view protocol, bool with_earlier) {
    bub::HttpSubmission submitted;
    if (!user_.empty()) request.user = user_;
    OpenAIDestination destination = destination_of(request, std::move(session), names_);
    std::optional<HttpServerResponse> refusal = destination.refusal;
    const std::string key = message_key(from, std::string(protocol) + " " + user_);
    if (!refusal && most_turns_ > 0 && runs_.in_progress() + submitting_ >= most_turns_ &&
        !runs_.find(key)) {
        refusal = openai_failure(
            429, "this key has " + std::to_string(most_turns_) + " turns in progress, its limit");
        refusal->headers.set("retry-after", "5");
    }
    // The caller adds the run before it awaits anything.
    const Counted submitting_one(submitting_);
    if (!refusal) {
        const bool is_repeated = !from.headers.get("idempotency-key").empty();
        refusal =
            co_await check_outputs(&destination, key, is_repeated, request.approval.has_value());
    }
    if (refusal) {
        submitted.refusal = std::move(*refusal);
        co_return submitted;
    }
    std::vector<HttpServerRequest> messages =
        message_requests(request, destination, with_earlier, key, from);
    JsonObject members = envelope_members(request);
    Task<bub::HttpSubmission> submitting =
        submit_all(std::move(messages), std::move(members), from.closed);
    submitted = co_await std::move(submitting);
    if (!submitted.reply) submitted.refusal = refusal_of(submitted.refusal);
    co_return submitted;
}

Task<HttpServerResponse> OpenAIInterface::complete_chat(HttpServerRequest request) {
    const ReadRequest read = read_request(request, detail::read_openai_chat_request);
    if (read.refusal) co_return *read.refusal;
    const std::string session = session_of(read.request);
    Task<bub::HttpSubmission> submitting =
        submit(request, read.request, session, "chat", session.empty());
    const bub::HttpSubmission submitted = co_await std::move(submitting);
    if (!submitted.reply) co_return submitted.refusal;
    const std::string key = submitted.reply->id();
    RunPtr run = runs_.find(key);
    if (!run) {
        OpenAIAnswerHead head;
        head.id = "chatcmpl-" + key;
        head.model = gateway_agent_name;
        head.created = seconds_now();
        run = std::make_shared<OpenAIChatRun>(submitted.reply, call_ids(submitted.reply->session()),
                                              std::move(head), read.request.includes_usage);
        runs_.add(key, run, false);
    }
    if (read.request.streams) co_return events_of(std::move(run), 0, false, request.closed);
    Task<HttpServerResponse> awaiting = await_response(std::move(run), false, request.closed);
    HttpServerResponse response = co_await std::move(awaiting);
    co_return response;
}

Task<> OpenAIInterface::write_events(std::shared_ptr<Reader> reader, RunPtr run, std::size_t from,
                                     bool keeps_running, std::stop_token closed,
                                     ResponseStream* out) {
    for (;;) {
        run->advance();
        if (from < run->events().size()) {
            std::string event = run->events()[from++];
            Task<> writing = out->write(std::move(event));
            const Outcome<> written = co_await outcome_of(std::move(writing));
            if (written.cancelled()) written.rethrow();
            if (!written) break;
        } else if (run->ended()) {
            std::string last;
            if (run->is_postponed()) last = run->last_event(static_cast<std::int64_t>(from));
            reader->leave();
            if (!last.empty()) co_await out->write(std::move(last));
            co_return;
        } else if (closed.stop_requested()) {
            break;
        } else {
            co_await run->reply()->wait(closed);
        }
    }
    reader->leave();
    if (keeps_running) co_return;
    Task<> ending = abandon(run);
    co_await std::move(ending);
}

HttpServerResponse OpenAIInterface::events_of(RunPtr run, std::size_t from, bool keeps_running,
                                              std::stop_token closed) {
    // It waits from now on, and not from the first event: another client may leave meanwhile.
    auto reader = std::make_shared<Reader>(run);
    auto write = [this, reader = std::move(reader), run = std::move(run), from, keeps_running,
                  closed](ResponseStream& out) {
        return write_events(reader, run, from, keeps_running, closed, &out);
    };
    return HttpServerResponse::events(std::move(write));
}

Task<HttpServerResponse> OpenAIInterface::await_response(RunPtr run, bool keeps_running,
                                                         std::stop_token closed) {
    Reader reader(run);
    for (;;) {
        run->advance();
        if (run->ended()) co_return run->response();
        if (closed.stop_requested()) break;
        co_await run->reply()->wait(closed);
    }
    reader.leave();
    if (!keeps_running) {
        Task<> ending = abandon(run);
        co_await std::move(ending);
    }
    co_return openai_failure(503, "the client has closed the connection");
}

/// The members of a response that repeat its request.
JsonObject repeated(const OpenAIClientRequest& request) {
    JsonObject members;
    members["background"] = request.in_background;
    members["store"] = request.stores;
    members["metadata"] = request.metadata;
    members["parallel_tool_calls"] = request.parallel_calls;
    using Choice = detail::OpenAIToolChoice;
    if (request.tool_choice == Choice::named) {
        members["tool_choice"] = JsonObject{{"type", "function"}, {"name", request.chosen_tool}};
    } else if (request.tool_choice != Choice::automatic) {
        members["tool_choice"] = request.tool_choice == Choice::none ? "none" : "required";
    }
    JsonArray tools;
    for (const detail::OpenAIClientTool& tool : request.tools) {
        tools.push_back(JsonObject{{"type", "function"},
                                   {"name", tool.name},
                                   {"description", tool.description},
                                   {"parameters", tool.parameters},
                                   {"strict", false}});
    }
    members["tools"] = std::move(tools);
    if (!request.user.empty()) members["safety_identifier"] = request.user;
    if (!request.instructions.empty()) members["instructions"] = request.instructions;
    if (!request.previous_response.empty())
        members["previous_response_id"] = request.previous_response;
    return members;
}

/// Returns the id of the response or the compaction that a request continues; empty: none.
const std::string& earlier_of(const OpenAIClientRequest& request) {
    return request.previous_response.empty() ? request.compaction : request.previous_response;
}

HttpServerResponse unknown_previous(const OpenAIClientRequest& request) {
    if (request.previous_response.empty())
        return openai_failure(400, "The compaction is not one of this gateway.", {}, "input");
    return openai_failure(400, "Previous response not found.", "previous_response_not_found",
                          "previous_response_id");
}

Task<HttpServerResponse> OpenAIInterface::create_response(HttpServerRequest request) {
    const ReadRequest read = read_request(request, detail::read_openai_responses_request);
    if (read.refusal) co_return *read.refusal;
    const OpenAIClientRequest& asked = read.request;
    std::string session = session_of(asked);
    if (const std::string& earlier = earlier_of(asked); !earlier.empty()) {
        const std::optional<OpenAIResponseName> previous = names_.read(earlier);
        if (!previous) co_return unknown_previous(asked);
        session = previous->session;
    } else if (asked.approval) {
        co_return openai_failure(400, "an approval needs the 'previous_response_id' of its request",
                                 {}, "previous_response_id");
    }
    Task<bub::HttpSubmission> submitting =
        submit(request, asked, std::move(session), "responses", true);
    const bub::HttpSubmission submitted = co_await std::move(submitting);
    if (!submitted.reply) co_return submitted.refusal;
    const std::string key = submitted.reply->id();
    RunPtr run = runs_.find(key);
    if (!run) {
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
        run = std::make_shared<OpenAIResponseRun>(submitted.reply,
                                                  call_ids(submitted.reply->session()),
                                                  std::move(head), repeated(asked));
        runs_.add(key, run, asked.in_background);
    }
    if (asked.streams) co_return events_of(std::move(run), 0, asked.in_background, request.closed);
    if (asked.in_background) {
        run->advance();
        co_return run->response();
    }
    Task<HttpServerResponse> awaiting = await_response(std::move(run), false, request.closed);
    HttpServerResponse response = co_await std::move(awaiting);
    co_return response;
}

/// A compaction is a session that has the conversation (D216).
Task<HttpServerResponse> OpenAIInterface::compact(HttpServerRequest request) {
    ReadRequest read = read_request(request, detail::read_openai_compact_request);
    if (read.refusal) co_return *read.refusal;
    OpenAIClientRequest& asked = read.request;
    std::string session;
    OpenAIResponseName name;
    if (const std::string& earlier = earlier_of(asked); !earlier.empty()) {
        const std::optional<OpenAIResponseName> previous = names_.read(earlier);
        if (!previous) co_return unknown_previous(asked);
        session = previous->session;
        name = *previous;
    }
    JsonObject made;
    made["object"] = "response.compaction";
    made["created_at"] = seconds_now();
    if (asked.messages.empty()) {
        // The session shortens what the model receives of it when that is necessary.
        detail::OpenAIResponsesWriter writer({}, {});
        writer.set_usage(detail::OpenAIAnswerUsage());
        made["usage"] = writer.response().at("usage");
    } else {
        OpenAIClientMessage summarize;
        summarize.text = std::string(summary_request);
        asked.messages.push_back(std::move(summarize));
        asked.tools.clear();
        Task<bub::HttpSubmission> submitting =
            submit(request, asked, std::move(session), "compact", true);
        const bub::HttpSubmission submitted = co_await std::move(submitting);
        if (!submitted.reply) co_return submitted.refusal;
        name.message = submitted.reply->id();
        name.session = submitted.reply->session();
        name.created = seconds_now();
        RunPtr run = runs_.find(name.message);
        if (!run) {
            run = std::make_shared<OpenAIResponseRun>(submitted.reply, call_ids(name.session),
                                                      OpenAIAnswerHead(), JsonObject());
            runs_.add(name.message, run, false);
        }
        Task<HttpServerResponse> awaiting = await_response(run, false, request.closed);
        const HttpServerResponse response = co_await std::move(awaiting);
        const Json body = boost::json::parse(response.body);
        if (response.status >= 400) co_return response;
        if (body.at("status") != Json("completed"))
            co_return openai_failure(500, "the conversation was not compacted");
        made["usage"] = body.at("usage");
    }
    const std::string id = names_.id_of(name);
    JsonObject item;
    item["type"] = "compaction";
    item["id"] = "cmp_" + id;
    item["encrypted_content"] = id;
    made["id"] = id;
    made["output"] = JsonArray();
    made["output"].as_array().push_back(std::move(item));
    co_return HttpServerResponse::json(200, made);
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
    OpenAIResponseRun run(nullptr, call_ids(name.session), std::move(head), JsonObject());
    const std::string state = detail::text_member(body.get_object(), "state");
    if (state == "pending" || state == "held") {
        run.set_status(OpenAIResponseStatus::queued);
    } else if (state != "running") {
        run.complete(body.get_object());
    }
    if (!stream_after) co_return run.response();
    // The events of the stream are not held any more: the last one has the whole response.
    std::string event = run.last_event(*stream_after + 1);
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
            co_return openai_failure(400, "'starting_after' must be a number", {},
                                     "starting_after");
    }
    RunPtr run = runs_.find(name->message);
    if (run) run->advance();
    if (run && !run->is_postponed()) {
        if (!streams) co_return run->response();
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
    // The message may be on its way to its turn.
    const RunPtr run = runs_.find(name->message);
    for (bool stopped = false; !stopped;) {
        std::string message = name->message;
        stopped = co_await channel_->stop_message(std::move(message));
        if (stopped || !run || run->reply()->done() || run->reply()->lost()) break;
        if (request.closed.stop_requested()) break;
        co_await run->reply()->wait(request.closed);
    }
    if (run) {
        // The turn ends soon after.
        Task<HttpServerResponse> awaiting = await_response(run, true, request.closed);
        HttpServerResponse response = co_await std::move(awaiting);
        co_return response;
    }
    Task<HttpServerResponse> reading = read_record(*name, std::move(id), std::nullopt);
    HttpServerResponse response = co_await std::move(reading);
    co_return response;
}

}  // namespace

HttpAuthentication openai_authentication(const std::vector<OpenAIKey>& keys) {
    std::vector<HttpAuthentication> each;
    for (const OpenAIKey& key : keys) each.push_back(bearer_authentication(key.token));
    return [each = std::move(each)](const HttpServerRequest& request) {
        std::optional<HttpServerResponse> refusal;
        for (const HttpAuthentication& authentication : each) {
            refusal = authentication(request);
            if (!refusal) break;
        }
        return refusal;
    };
}

void add_openai_interface(HttpRoutes& routes, bub::HttpChannel& channel,
                          std::vector<OpenAIKey> keys) {
    struct Keyed {
        std::string token;
        std::shared_ptr<OpenAIInterface> interface;
    };
    auto all = std::make_shared<std::vector<Keyed>>();
    for (OpenAIKey& key : keys) {
        std::string token = key.token;
        all->push_back(
            {std::move(token), std::make_shared<OpenAIInterface>(channel, std::move(key))});
    }
    using Member = Task<HttpServerResponse> (OpenAIInterface::*)(HttpServerRequest);
    const auto add = [&](const char* method, const char* pattern, Member member) {
        routes.add(method, pattern, [all, member](HttpServerRequest request) {
            // The authentication has accepted one of them.
            OpenAIInterface* interface = all->front().interface.get();
            for (const Keyed& one : *all)
                if (equal_secrets(request.bearer_token(), one.token))
                    interface = one.interface.get();
            return (interface->*member)(std::move(request));
        });
    };
    add("GET", "/v1/models", &OpenAIInterface::list_models);
    add("GET", "/v1/models/{model}", &OpenAIInterface::read_model);
    add("POST", "/v1/chat/completions", &OpenAIInterface::complete_chat);
    add("POST", "/v1/responses", &OpenAIInterface::create_response);
    add("POST", "/v1/responses/compact", &OpenAIInterface::compact);
    add("GET", "/v1/responses/{id}", &OpenAIInterface::read_response);
    add("POST", "/v1/responses/{id}/cancel", &OpenAIInterface::cancel_response);
}

}  // namespace cubepi::app
