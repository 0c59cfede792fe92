// Responses over a WebSocket: a message `response.create` has the members of a request, and its events are messages.

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/json_text.hpp>

#include "openai_interface.hpp"

namespace cubepi::app {

namespace {

/// Of a key at a time: the others need some, too.
constexpr std::size_t most_sockets = 16;
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

/// Returns the body of the request in a message; or why it is none.
std::optional<HttpServerResponse> read_message(const std::string& text, std::string& body) {
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
    message->erase("type");
    (*message)["stream"] = true;
    body = json_text(*message);
    return std::nullopt;
}

}  // namespace

Task<HttpServerResponse> OpenAIInterface::connect(HttpServerRequest request) {
    HttpServerResponse response;
    if (sockets_ >= most_sockets) {
        response = openai_failure(
            429, "this key has " + std::to_string(most_sockets) + " WebSockets, its limit");
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
    // It would make each message a repetition of the first.
    request.headers.set("idempotency-key", "");
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
        if (read) refusal = read_message(*read.value(), request.body);
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
