#include "http_openai.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/provider/openai/server_api.hpp>
#include <cubepi/schema/json_text.hpp>

#include "openai_interface.hpp"

// Responses over a WebSocket: a message `response.create` has the members of a request, and its events are messages.

namespace cubepi::app {

namespace {

using detail::OpenAIClientMessage;
using detail::OpenAIClientRequest;
using detail::OpenAIReplyHead;
using detail::OpenAIResponseStatus;

/// WebSockets of all keys at a time: the requests of other clients need the rest of the channel's.
constexpr std::size_t most_sockets = 128;

/// The message of a session that is a compaction.
constexpr std::string_view summary_request =
    "Summarize the conversation above in a few paragraphs, so that it can be continued with the "
    "summary: what was asked, decided and found, and what is open.";

HttpServerResponse unknown_response(std::string_view id) {
    return openai_failure(404,
                          "Response with id '" + std::string(id.substr(0, 100)) + "' not found.");
}

/// WebSockets of a key at a time: the others need some, too.
constexpr std::size_t most_sockets_of_key = 16;
/// As long as OpenAI's.
constexpr std::chrono::minutes longest_connection{60};

/// Writes the data of server-sent events as messages.
class EventMessages final : public ResponseStream {
public:
    explicit EventMessages(WebSocket& socket) : socket_(&socket) {}
    Task<> write(std::string event) override {
        constexpr std::string_view mark = "data: ";
        const std::size_t begin = event.find(mark);
        if (begin == std::string::npos)
            throw Error(ErrorCode::invalid_argument, "this is not an event with data");
        const std::size_t end = event.find('\n', begin);
        return socket_->write(event.substr(begin + mark.size(), end - begin - mark.size()));
    }

private:
    WebSocket* socket_;
};

/// Returns the event of a request that was refused.
std::string error_event(const HttpServerResponse& refused) {
    boost::system::error_code failed;
    const Json body = boost::json::parse(refused.body, failed);
    JsonObject event;
    event["type"] = "error";
    event["status"] = static_cast<std::int64_t>(refused.status);
    const JsonObject* const object = failed ? nullptr : body.if_object();
    const Json* const error = object ? object->if_contains("error") : nullptr;
    event["error"] = error ? *error : Json(JsonObject());
    return json_text(event);
}

/// The member of a message that has the Idempotency-Key of its request: the headers are those of all messages of the connection.
constexpr std::string_view key_member = "idempotency_key";

/// Reads the body and the key of the request in a message; returns why it is none.
std::optional<HttpServerResponse> read_message(const std::string& text,
                                               HttpServerRequest& request) {
    boost::system::error_code failed;
    Json parsed = boost::json::parse(text, failed);
    JsonObject* const message = failed ? nullptr : parsed.if_object();
    if (!message) return openai_failure(400, "the message must be a JSON object");
    if (detail::text_member(*message, "type") != "response.create")
        return openai_failure(400, "the only type is 'response.create'", {}, "type");
    // `generate: false` asks for a response without a turn.
    for (const char* const name : {"stream", "stream_options", "background", "generate"}) {
        const Json* const value = message->if_contains(name);
        if (value && !value->is_null())
            return openai_failure(
                400, "'" + std::string(name) + "' is not supported on a WebSocket", {}, name);
    }
    const Json* const key = message->if_contains(key_member);
    if (key && !key->is_null() && !key->is_string())
        return openai_failure(400, "'idempotency_key' must be a string", {}, key_member);
    request.headers.set("idempotency-key", detail::text_member(*message, key_member));
    message->erase(key_member);
    message->erase("type");
    (*message)["stream"] = true;
    request.body = json_text(*message);
    return std::nullopt;
}

}  // namespace

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

namespace {

HttpServerResponse unknown_model() {
    return openai_failure(404, std::string("the only model is '") + gateway_agent_name + "'",
                          "model_not_found", "model");
}

}  // namespace

Task<HttpServerResponse> OpenAIInterface::read_model(HttpServerRequest request) {
    if (request.parameter("model") != gateway_agent_name) co_return unknown_model();
    co_return HttpServerResponse::json(200, model());
}

namespace {

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

}  // namespace

Task<HttpServerResponse> OpenAIInterface::complete_chat(HttpServerRequest request) {
    const ReadRequest read = read_request(request, detail::read_openai_chat_request);
    if (read.refusal) co_return *read.refusal;
    OpenAISubmission submission;
    submission.request = read.request;
    submission.session = session_of(read.request);
    submission.protocol = "chat";
    submission.with_earlier = submission.session.empty();
    Task<OpenAISubmitted> submitting = submit(request, std::move(submission));
    const OpenAISubmitted made = co_await std::move(submitting);
    const bub::HttpSubmission& submitted = made.message;
    if (!submitted.reply) co_return submitted.refusal;
    const std::string id = submitted.reply->id();
    RunPtr run = runs_.find(id);
    if (!run || run->is_postponed()) {
        OpenAIReplyHead head;
        head.id = "chatcmpl-" + id;
        head.model = gateway_agent_name;
        head.created = seconds_now();
        run = std::make_shared<OpenAIChatRun>(submitted.reply, call_ids(submitted.reply->session()),
                                              std::move(head), read.request.includes_usage);
        runs_.add(id, run, false);
    }
    if (read.request.streams) co_return events_of(std::move(run), made.reader, 0, request.closed);
    Task<HttpServerResponse> awaiting = await_response(std::move(run), made.reader, request.closed);
    HttpServerResponse response = co_await std::move(awaiting);
    co_return response;
}

namespace {

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

}  // namespace

Task<HttpServerResponse> OpenAIInterface::respond(HttpServerRequest request,
                                                  OpenAILastResponse* last) {
    // A response whose continuation was refused cannot be continued later.
    OpenAILastResponse before;
    if (last) before = std::exchange(*last, OpenAILastResponse());
    const ReadRequest read = read_request(request, detail::read_openai_responses_request);
    if (read.refusal) co_return *read.refusal;
    const OpenAIClientRequest& asked = read.request;
    std::string session = session_of(asked);
    if (!before.id.empty() && asked.previous_response == before.id) {
        session = before.session;
    } else if (const std::string& earlier = earlier_of(asked); !earlier.empty()) {
        const std::optional<OpenAIResponseName> previous = names_.read(earlier);
        if (!previous) co_return unknown_previous(asked);
        session = previous->session;
    } else if (asked.approval) {
        co_return openai_failure(400, "an approval needs the 'previous_response_id' of its request",
                                 {}, "previous_response_id");
    }
    OpenAISubmission submission;
    submission.request = asked;
    submission.session = std::move(session);
    submission.protocol = "responses";
    submission.with_earlier = true;
    if (asked.approval) submission.answers.push_back(approval_body(*asked.approval));
    Task<OpenAISubmitted> submitting = submit(request, std::move(submission));
    const OpenAISubmitted made = co_await std::move(submitting);
    const bub::HttpSubmission& submitted = made.message;
    if (!submitted.reply) co_return submitted.refusal;
    const std::string id = submitted.reply->id();
    // An id that names nothing: the response cannot be read, and is continued on its connection only.
    const std::string unstored = "resp_" + detail::hex_of(id);
    if (last && !asked.stores) *last = {unstored, submitted.reply->session()};
    RunPtr run = runs_.find(id);
    if (!run || run->is_postponed()) {
        OpenAIReplyHead head;
        head.model = gateway_agent_name;
        head.created = seconds_now();
        head.id = unstored;
        if (asked.stores) {
            OpenAIResponseName name;
            name.message = id;
            name.session = submitted.reply->session();
            name.created = head.created;
            head.id = names_.id_of(name);
        }
        run = std::make_shared<OpenAIResponseRun>(
            submitted.reply, call_ids(submitted.reply->session()), head, repeated(asked));
        runs_.add(id, run, asked.in_background);
    }
    if (asked.streams) co_return events_of(std::move(run), made.reader, 0, request.closed);
    if (asked.in_background) {
        run->advance();
        co_return run->response();
    }
    Task<HttpServerResponse> awaiting = await_response(std::move(run), made.reader, request.closed);
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
        writer.set_usage(detail::OpenAIReplyUsage());
        made["usage"] = writer.response().at("usage");
    } else {
        OpenAIClientMessage summarize;
        summarize.text = std::string(summary_request);
        asked.messages.push_back(std::move(summarize));
        asked.tools.clear();
        OpenAISubmission submission;
        submission.request = asked;
        submission.session = std::move(session);
        submission.protocol = "compact";
        submission.with_earlier = true;
        Task<OpenAISubmitted> submitting = submit(request, std::move(submission));
        const OpenAISubmitted summarizing = co_await std::move(submitting);
        const bub::HttpSubmission& submitted = summarizing.message;
        if (!submitted.reply) co_return submitted.refusal;
        name.message = submitted.reply->id();
        name.session = submitted.reply->session();
        name.created = seconds_now();
        RunPtr run = runs_.find(name.message);
        if (!run) {
            run = std::make_shared<OpenAIResponseRun>(submitted.reply, call_ids(name.session),
                                                      OpenAIReplyHead(), JsonObject());
            runs_.add(name.message, run, false);
        }
        Task<HttpServerResponse> awaiting = await_response(run, summarizing.reader, request.closed);
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
    OpenAIReplyHead head;
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
    const bool streams = detail::query_value(request.query, "stream") == "true";
    std::int64_t after = -1;
    const std::string_view text = detail::query_value(request.query, "starting_after").value_or("");
    if (!text.empty()) {
        after = detail::parsed_number<std::int64_t>(text).value_or(-1);
        constexpr std::int64_t most = std::int64_t{1} << 40U;
        if (after < 0 || after > most)
            co_return openai_failure(400, "'starting_after' must be a number", {},
                                     "starting_after");
    }
    RunPtr run = runs_.find(name->message);
    if (run) run->advance();
    if (run && !run->is_postponed()) {
        if (!streams) co_return run->response();
        const auto from = static_cast<std::size_t>(after + 1);
        auto reader = std::make_shared<Reader>(*this, name->message);
        co_return events_of(std::move(run), std::move(reader), from, request.closed);
    }
    if (streams) {
        auto elsewhere = std::make_shared<RemoteEvents>();
        elsewhere->reader = std::make_shared<Reader>(*this, name->message);
        elsewhere->name = *name;
        elsewhere->id = id;
        elsewhere->next = static_cast<std::size_t>(after + 1);
        Task<std::optional<HttpServerResponse>> asking =
            events_elsewhere(std::move(elsewhere), request.closed);
        std::optional<HttpServerResponse> events = co_await std::move(asking);
        if (events) co_return std::move(*events);
    }
    Task<HttpServerResponse> reading =
        read_record(*name, std::move(id), streams ? std::optional(after) : std::nullopt);
    HttpServerResponse response = co_await std::move(reading);
    co_return response;
}

namespace {

Task<bool> is_closed(std::stop_token closed) { co_return closed.stop_requested(); }

}  // namespace

Task<HttpServerResponse> OpenAIInterface::cancel_response(HttpServerRequest request) {
    std::string id(request.parameter("id"));
    const std::optional<OpenAIResponseName> name = names_.read(id);
    if (!name) co_return unknown_response(id);
    const RunPtr run = runs_.find(name->message);
    const auto has_left = [closed = request.closed]() -> Task<bool> { return is_closed(closed); };
    std::string message = name->message;
    Task<> stopping = channel_->stop_message(std::move(message), name->session, has_left);
    co_await std::move(stopping);
    if (run) {
        // The turn ends soon after.
        auto reader = std::make_shared<Reader>(*this, name->message);
        Task<HttpServerResponse> awaiting = await_response(run, std::move(reader), request.closed);
        HttpServerResponse response = co_await std::move(awaiting);
        co_return response;
    }
    Task<HttpServerResponse> reading = read_record(*name, std::move(id), std::nullopt);
    HttpServerResponse response = co_await std::move(reading);
    co_return response;
}

HttpAuthentication openai_authentication(const std::vector<OpenAIKey>& keys) {
    std::vector<HttpAuthentication> each;
    for (const OpenAIKey& key : keys) each.push_back(bearer_authentication(key.token));
    return [each = std::move(each)](const HttpServerRequest& request) {
        std::optional<HttpServerResponse> refusal;
        for (const HttpAuthentication& authentication : each) {
            refusal = authentication(request);
            if (!refusal) return refusal;
        }
        HttpServerResponse failure =
            openai_failure(401, "the bearer token is missing or wrong", "invalid_api_key");
        failure.headers.set("www-authenticate", "Bearer");
        refusal = std::move(failure);
        return refusal;
    };
}

namespace {

struct Keyed {
    std::string token;
    std::shared_ptr<OpenAIInterface> interface;
};

Task<std::optional<JsonObject>> answer_of_any(std::shared_ptr<std::vector<Keyed>> all,
                                              JsonObject request) {
    std::optional<JsonObject> found;
    for (std::size_t i = 0; i < all->size() && !found; ++i) {
        Task<std::optional<JsonObject>> asking = (*all)[i].interface->answer_elsewhere(request);
        found = co_await std::move(asking);
    }
    co_return found;
}

}  // namespace

void add_openai_interface(HttpRoutes& routes, bub::HttpChannel& channel, OpenAIRoutes offered,
                          std::vector<OpenAIKey> keys) {
    auto all = std::make_shared<std::vector<Keyed>>();
    for (OpenAIKey& key : keys) {
        std::string token = key.token;
        all->push_back(
            {std::move(token), std::make_shared<OpenAIInterface>(channel, std::move(key))});
    }
    using Member = Task<HttpServerResponse> (OpenAIInterface::*)(HttpServerRequest);
    const auto add = [&](const char* method, const char* pattern, Member member,
                         std::size_t most = std::numeric_limits<std::size_t>::max()) {
        const auto answer = [all, member](HttpServerRequest request) {
            // The authentication has accepted one of them.
            OpenAIInterface* interface = all->front().interface.get();
            for (const Keyed& one : *all)
                if (equal_secrets(request.bearer_token(), one.token))
                    interface = one.interface.get();
            return (interface->*member)(std::move(request));
        };
        routes.add(method, pattern, answer, most);
    };
    channel.add_answers(
        [all](JsonObject request) { return answer_of_any(all, std::move(request)); });
    if (offered.ag_ui) add("POST", "/v1/ag-ui", &OpenAIInterface::run_agent);
    if (!offered.openai) return;
    add("GET", "/v1/models", &OpenAIInterface::list_models);
    add("GET", "/v1/models/{model}", &OpenAIInterface::read_model);
    add("POST", "/v1/chat/completions", &OpenAIInterface::complete_chat);
    add("POST", "/v1/responses", &OpenAIInterface::create_response);
    add("GET", "/v1/responses", &OpenAIInterface::connect, most_sockets);
    add("POST", "/v1/responses/compact", &OpenAIInterface::compact);
    add("GET", "/v1/responses/{id}", &OpenAIInterface::read_response);
    add("POST", "/v1/responses/{id}/cancel", &OpenAIInterface::cancel_response);
}

Task<HttpServerResponse> OpenAIInterface::connect(HttpServerRequest request) {
    HttpServerResponse response;
    if (sockets_ >= most_sockets_of_key) {
        response = openai_failure(
            429, "this key has " + std::to_string(most_sockets_of_key) + " WebSockets, its limit");
        response.headers.set("retry-after", "5");
        co_return response;
    }
    auto counted = std::make_shared<Counted>(sockets_);
    response.web_socket = [this, counted = std::move(counted), request = std::move(request)](
                              WebSocket& socket) { return serve_socket(request, &socket); };
    co_return response;
}

/// Its responses are created one after the other. A client that disconnects ends the turn, as that of a stream does.
Task<> OpenAIInterface::serve_socket(HttpServerRequest request, WebSocket* socket) {
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    const Clock::time_point end = clock->now() + longest_connection;
    OpenAILastResponse last;
    for (;;) {
        Task<std::optional<std::string>> reading =
            with_timeout(*clock, end - clock->now(), socket->read());
        Outcome<std::optional<std::string>> read = co_await outcome_of(std::move(reading));
        const bool is_over = clock->now() >= end;
        if (!read && (read.cancelled() || !is_over)) read.rethrow();
        if (read && !read.value()) co_return;
        // The messages that wait have lost their reader.
        if (request.closed.stop_requested()) co_return;
        std::optional<HttpServerResponse> refusal;
        if (read) refusal = read_message(*read.value(), request);
        if (is_over) {
            refusal = openai_failure(400, "the connection has reached its limit of 60 minutes",
                                     "websocket_connection_limit_reached");
        }
        if (!refusal) {
            Task<HttpServerResponse> creating = respond(request, &last);
            const HttpServerResponse response = co_await std::move(creating);
            EventMessages messages(*socket);
            if (response.stream) {
                co_await response.stream(messages);
                continue;
            }
            refusal = response;
        }
        std::string event = error_event(*refusal);
        co_await socket->write(std::move(event));
        if (is_over) co_return;
    }
}

}  // namespace cubepi::app
