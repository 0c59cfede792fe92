#include "openai_interface.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include <bub/channel/delivery_log.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>

namespace cubepi::app {

namespace {

using ReplyPtr = std::shared_ptr<bub::HttpReply>;

/// The key of `metadata` that names the session of a request.
constexpr std::string_view session_key = "session";

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

constexpr std::string_view response_request = "response";
constexpr std::string_view readers_request = "readers";

}  // namespace

std::int64_t seconds_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               Runtime::standard()->clock->wall().time_since_epoch())
        .count();
}

OpenAIInterface::OpenAIInterface(bub::HttpChannel& channel, OpenAIKey key)
    : channel_(&channel),
      names_(std::move(key.token)),
      user_(std::move(key.name)),
      most_turns_(key.most_turns),
      created_(seconds_now()) {}

/// An id of its own, because the client chooses that of its request, not that of a message of another interface.
std::string OpenAIInterface::message_id(const HttpServerRequest& request, std::string_view protocol,
                                        const std::string& user) const {
    const std::string_view key = request.headers.get("idempotency-key");
    // A user that the request names is distinguished by its length: the name of a key has no ':'.
    std::string name = user_;
    if (user_.empty() && !user.empty()) name = std::to_string(user.size()) + ":" + user;
    return "openai-" + (key.empty() ? Runtime::standard()->ids->next()
                                    : detail::sha256_hex(std::string(protocol) + " " + name + " " +
                                                         std::string(key)));
}

std::string OpenAIInterface::session_of(const detail::OpenAIClientRequest& request) const {
    std::string session = detail::text_member(request.metadata, session_key);
    return session.empty() || user_.empty() ? session : user_ + ":" + session;
}

Reader::Reader(OpenAIInterface& interface, std::string message)
    : interface_(&interface), message_(std::move(message)) {
    ++interface_->readers_[message_];
}

void Reader::leave() {
    OpenAIInterface* const interface = std::exchange(interface_, nullptr);
    if (!interface) return;
    const auto found = interface->readers_.find(message_);
    if (--found->second > 0) return;
    interface->readers_.erase(found);
    interface->abandon(message_);
}

void OpenAIInterface::abandon(const std::string& message) {
    const RunPtr run = runs_.find(message);
    // A client that has its answer, or knows that it follows later, leaves nothing.
    if (!run || run->ended()) return;
    channel_->abandon_message(message, run->reply()->session(),
                              [this, message] { return is_read(message); });
}

Task<bool> OpenAIInterface::is_read(std::string message) {
    // Another client may ask for the same answer meanwhile.
    if (is_read_here(message)) co_return true;
    JsonObject request;
    request["about"] = readers_request;
    request["message"] = message;
    Task<std::optional<JsonObject>> asking =
        channel_->ask_elsewhere(std::move(request), std::string());
    const std::optional<JsonObject> answer = co_await std::move(asking);
    co_return answer.has_value() || is_read_here(message);
}

bool OpenAIInterface::is_read_here(const std::string& message) const {
    return readers_.contains(message) || channel_->is_in_background(message);
}

Task<JsonArray> OpenAIInterface::open_questions(std::string session) {
    HttpServerRequest reading_request;
    reading_request.parameters["session"] = std::move(session);
    reading_request.query = "limit=1";
    Task<HttpServerResponse> reading = channel_->read_session(std::move(reading_request));
    const HttpServerResponse found = co_await std::move(reading);
    JsonArray open;
    boost::system::error_code failed;
    const Json body = boost::json::parse(found.body, failed);
    const JsonArray* const questions = failed || !body.is_object()
                                           ? nullptr
                                           : detail::array_member(body.get_object(), "questions");
    if (found.status == 200 && questions) open = *questions;
    co_return open;
}

Task<std::optional<JsonObject>> OpenAIInterface::known_message(std::string id,
                                                               std::string session) {
    HttpServerRequest reading_request;
    reading_request.parameters["id"] = std::move(id);
    Task<HttpServerResponse> reading = channel_->read_message(std::move(reading_request));
    Outcome<HttpServerResponse> read = co_await outcome_of(std::move(reading));
    std::optional<JsonObject> known;
    if (!session.empty() && bub::excludes_message(read.failure(), "http:" + session))
        co_return known;
    read.rethrow();
    const HttpServerResponse& found = read.value();
    boost::system::error_code failed;
    const Json body = boost::json::parse(found.body, failed);
    if (found.status < 400 && !failed && body.is_object()) known = body.get_object();
    co_return known;
}

Task<std::optional<HttpServerResponse>> OpenAIInterface::check_outputs(
    OpenAIDestination* destination, bool is_known, bool has_approval) {
    std::optional<HttpServerResponse> refusal;
    if (destination->session.empty()) co_return refusal;
    std::vector<OpenAIOutput>& outputs = destination->outputs;
    // A client that repeats a request receives the answer of its turn.
    if (is_known) {
        if (!outputs.empty()) outputs.erase(outputs.begin(), outputs.end() - 1);
        co_return refusal;
    }
    const JsonArray questions = co_await open_questions(destination->session);
    const std::vector<OpenAIOpenCall> open = open_calls_of(questions);
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
        refusal = openai_failure(
            400, "The outputs of these calls were received before, or their time is over.");
    co_return refusal;
}

Task<bub::HttpSubmission> OpenAIInterface::submit_all(std::vector<HttpServerRequest> messages,
                                                      bub::HttpReplyDetail detail,
                                                      JsonObject members, std::stop_token closed) {
    bub::HttpSubmission submitted;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const bool is_last = i + 1 == messages.size();
        Task<bub::HttpSubmission> submitting = channel_->submit_message(
            std::move(messages[i]), is_last ? detail : bub::HttpReplyDetail::outputs, members);
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

Task<OpenAISubmitted> OpenAIInterface::submit(HttpServerRequest from, OpenAISubmission submission) {
    OpenAISubmitted submitted;
    std::string id = message_id(from, submission.protocol, submission.request.user);
    submitted.reader = std::make_shared<Reader>(*this, id);
    Task<bub::HttpSubmission> submitting =
        submit_as(std::move(id), std::move(from), std::move(submission));
    submitted.message = co_await std::move(submitting);
    co_return submitted;
}

Task<bub::HttpSubmission> OpenAIInterface::submit_as(std::string id, HttpServerRequest from,
                                                     OpenAISubmission submission) {
    bub::HttpSubmission submitted;
    detail::OpenAIClientRequest& request = submission.request;
    if (!user_.empty()) request.user = user_;
    OpenAIDestination destination = destination_of(request, submission.session, names_);
    std::optional<HttpServerResponse> refusal = destination.refusal;
    if (!refusal && most_turns_ > 0 && runs_.in_progress() + submitting_ >= most_turns_ &&
        !runs_.find(id)) {
        refusal = openai_failure(
            429, "this key has " + std::to_string(most_turns_) + " turns in progress, its limit");
        refusal->headers.set("retry-after", "5");
    }
    // The caller adds the run before it awaits anything.
    const Counted submitting_one(submitting_);
    std::optional<bool> is_known = submission.is_known;
    if (!is_known && !refusal && !from.headers.get("idempotency-key").empty()) {
        Task<std::optional<JsonObject>> finding = known_message(id, destination.session);
        const std::optional<JsonObject> known = co_await std::move(finding);
        is_known = known.has_value();
    }
    if (!refusal) {
        refusal = co_await check_outputs(&destination, is_known.value_or(false),
                                         !submission.answers.empty());
    }
    if (refusal) {
        submitted.refusal = std::move(*refusal);
        co_return submitted;
    }
    std::vector<HttpServerRequest> messages = message_requests(submission, destination, id, from);
    if (messages.empty()) {
        submitted.refusal = openai_failure(400, "the request has no message");
        co_return submitted;
    }
    JsonObject members = envelope_members(request);
    if (submission.digest.empty() && !from.headers.get("idempotency-key").empty()) {
        const JsonArray answers(submission.answers.begin(), submission.answers.end());
        submission.digest = digest_of(request, answers);
    }
    if (!submission.digest.empty()) members[bub::request_digest_key] = submission.digest;
    Task<bub::HttpSubmission> submitting =
        submit_all(std::move(messages), submission.detail, std::move(members), from.closed);
    submitted = co_await std::move(submitting);
    if (!submitted.reply) submitted.refusal = refusal_of(submitted.refusal);
    co_return submitted;
}

Task<> OpenAIInterface::write_events(std::shared_ptr<Reader> reader, RunPtr run, std::size_t from,
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
            std::string last;
            if (run->is_postponed()) last = run->last_event(static_cast<std::int64_t>(from));
            if (!last.empty()) co_await out->write(std::move(last));
            break;
        } else if (closed.stop_requested()) {
            break;
        } else {
            co_await run->reply()->wait(closed);
        }
    }
    // The next request of the connection begins without it.
    reader->leave();
}

HttpServerResponse OpenAIInterface::events_of(RunPtr run, std::shared_ptr<Reader> reader,
                                              std::size_t from, std::stop_token closed) {
    auto write = [this, reader = std::move(reader), run = std::move(run), from, closed](
                     ResponseStream& out) { return write_events(reader, run, from, closed, &out); };
    return HttpServerResponse::events(std::move(write));
}

Task<HttpServerResponse> OpenAIInterface::await_response(RunPtr run, std::shared_ptr<Reader> reader,
                                                         std::stop_token closed) {
    for (;;) {
        run->advance();
        if (run->ended()) co_return run->response();
        if (closed.stop_requested()) break;
        co_await run->reply()->wait(closed);
    }
    reader->leave();
    co_return openai_failure(503, "the client has closed the connection");
}

Task<std::optional<JsonObject>> OpenAIInterface::answer_elsewhere(JsonObject request) {
    const std::string about = detail::text_member(request, "about");
    std::optional<JsonObject> answer;
    if (about == readers_request && is_read_here(detail::text_member(request, "message")))
        answer.emplace();
    if (about != response_request) co_return answer;
    Task<std::optional<JsonObject>> reading = events_for(std::move(request));
    answer = co_await std::move(reading);
    co_return answer;
}

// Streams of responses that another gateway holds, whose events have the numbers that their readers continue from (D254).

Task<std::optional<JsonObject>> OpenAIInterface::events_for(JsonObject request) {
    constexpr std::chrono::seconds longest_wait{1};
    constexpr std::size_t longest_piece = std::size_t{64} << 10U;
    std::optional<JsonObject> answer;
    const auto name = names_.read(detail::text_member(request, "response"));
    const RunPtr run = name ? runs_.find(name->message) : nullptr;
    if (!run) co_return answer;
    run->advance();
    const auto from = static_cast<std::size_t>(
        std::max<std::int64_t>(0, detail::integer_member(request, "from").value_or(0)));
    const std::shared_ptr<bub::HttpReply> reply = run->reply();
    if (from >= run->events().size() && reply && detail::flag_member(request, "waits")) {
        Clock& clock = *Runtime::standard()->clock;
        const auto end = deadline_after(clock.now(), longest_wait);
        (void)co_await detail::run_until(clock, end, reply->wait(std::stop_token()));
        run->advance();
    }
    // The records have what follows.
    if (run->is_postponed()) co_return answer;
    const std::vector<std::string>& all = run->events();
    JsonArray events;
    std::size_t bytes = 0;
    for (std::size_t at = from; at < all.size() && bytes < longest_piece; ++at) {
        bytes += all[at].size();
        events.emplace_back(all[at]);
    }
    answer.emplace();
    (*answer)["ended"] = run->ended() && from + events.size() >= all.size();
    (*answer)["events"] = std::move(events);
    co_return answer;
}

/// Reads the next events. `waits`: for a second at most, until there are some. Returns false if no gateway holds them.
Task<bool> OpenAIInterface::read_events(std::shared_ptr<RemoteEvents> events, bool waits) {
    JsonObject request;
    request["about"] = response_request;
    request["response"] = events->id;
    request["from"] = events->next;
    request["waits"] = waits;
    Task<std::optional<JsonObject>> asking =
        channel_->ask_elsewhere(std::move(request), events->gateway);
    Outcome<std::optional<JsonObject>> asked = co_await outcome_of(std::move(asking));
    if (asked.cancelled()) asked.rethrow();
    // The records have the answer as well, later.
    if (!asked || !asked.value()) co_return false;
    const std::optional<JsonObject> answer = std::move(asked).value();
    events->gateway = detail::text_member(*answer, "gateway");
    events->ended = detail::flag_member(*answer, "ended");
    if (const JsonArray* const list = detail::array_member(*answer, "events")) {
        events->next += list->size();
        for (const Json& event : *list)
            if (event.is_string()) events->events.emplace_back(event.get_string());
    }
    co_return true;
}

Task<> OpenAIInterface::write_events_elsewhere(std::shared_ptr<RemoteEvents> events,
                                               std::stop_token closed, ResponseStream* out) {
    constexpr std::chrono::milliseconds interval{200};
    for (bool is_held = true; is_held;) {
        bool is_written = true;
        const std::vector<std::string> next = std::exchange(events->events, {});
        for (std::size_t at = 0; at < next.size() && is_written; ++at) {
            Task<> writing = out->write(next[at]);
            const Outcome<> written = co_await outcome_of(std::move(writing));
            if (written.cancelled()) written.rethrow();
            is_written = written.ok();
        }
        const bool has_left = !is_written || closed.stop_requested();
        if (events->ended || has_left) {
            events->reader->leave();
            // The gateway that has its turn may have been left by its own clients before.
            const std::string message = events->name.message;
            if (!events->ended && !is_read_here(message))
                channel_->abandon_message(message, events->name.session,
                                          [this, message] { return is_read(message); });
            co_return;
        }
        co_await Runtime::standard()->clock->sleep_for(interval);
        is_held = co_await read_events(events, true);
    }
    // Its gateway has ended: the last event has the response as the records have it.
    Task<HttpServerResponse> reading =
        read_record(events->name, events->id, static_cast<std::int64_t>(events->next) - 1);
    HttpServerResponse last = co_await std::move(reading);
    if (last.status == 200) co_await out->write(std::move(last.body));
}

Task<std::optional<HttpServerResponse>> OpenAIInterface::events_elsewhere(
    std::shared_ptr<RemoteEvents> events, std::stop_token closed) {
    std::optional<HttpServerResponse> response;
    const bool is_held = co_await read_events(events, false);
    if (!is_held) co_return response;
    auto write = [this, events, closed](ResponseStream& out) {
        return write_events_elsewhere(events, closed, &out);
    };
    response = HttpServerResponse::events(std::move(write));
    co_return response;
}

}  // namespace cubepi::app
