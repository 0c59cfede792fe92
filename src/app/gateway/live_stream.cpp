#include "live_stream.hpp"

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

constexpr std::size_t longest_session = 1'024;
/// Parts of an answer that arrive within this time are one event: a browser draws no more often.
constexpr std::chrono::milliseconds pause{40};
/// The interval of comments that show the client, and the proxies before it, that the stream is alive.
constexpr std::chrono::seconds heartbeat{15};
constexpr const char* comment = ":\n\n";
constexpr const char* reconnect_after = "retry: 1000\n\n";

struct LiveCalls {
    std::vector<HistoryCall> calls = {};
};

std::string event_text(std::string_view name, const JsonObject& data, const std::string& position) {
    std::string text;
    if (!position.empty()) text = "id: " + position + "\n";
    return text + server_sent_event(name, json_text(data));
}

/// The state of a stream, which the coroutine that writes it shares with nothing else.
struct LiveStream {
    std::shared_ptr<LiveAnswers> answers;
    std::shared_ptr<LiveAnswers::Watch> watch;
    std::string session;
    LivePosition position;
    LiveLists lists;  ///< which the client knows or reads next
    LiveReader reader;
    std::stop_token closed;

    bool is_over() const {
        return closed.stop_requested() || reader.ended.stop_requested() || answers->is_closed();
    }
    std::string take();
};

/// Returns the events that follow the position; empty: none.
std::string LiveStream::take() {
    std::string events;
    const LiveLists now = answers->lists();
    if (now.questions != lists.questions) events += event_text("questions", JsonObject(), "");
    if (now.sessions != lists.sessions) events += event_text("sessions", JsonObject(), "");
    lists = now;
    if (session.empty()) return events;
    LiveUpdate update = answers->read(session, position);
    const std::string id = position.answer.empty() ? std::string() : position.to_string();
    if (update.whole) events += event_text("live", to_json(*update.whole), id);
    if (!update.text.empty() || !update.thinking.empty()) {
        JsonObject delta;
        if (!update.thinking.empty()) delta["thinking"] = update.thinking;
        if (!update.text.empty()) delta["text"] = update.text;
        events += event_text("delta", delta, id);
    }
    if (update.calls) {
        LiveCalls calls;
        calls.calls = std::move(*update.calls);
        events += event_text("calls", to_json(calls), id);
    }
    // Last: a page that reads the history because of it has the end of the answer.
    if (update.has_changed) events += event_text("changed", JsonObject(), "");
    return events;
}

Task<> write_events(std::shared_ptr<LiveStream> stream, ResponseStream* out) {
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    const std::shared_ptr<LiveAnswers::Watch> watch = stream->watch;
    const auto wake = [watch] { watch->changed.set(); };
    const std::stop_callback on_close(stream->closed, wake);
    const std::stop_callback on_end(stream->reader.ended, wake);
    std::string events = reconnect_after;
    co_await out->write(std::move(events));
    Clock::time_point next = deadline_after(clock->now(), heartbeat);
    while (!stream->is_over()) {
        if (clock->now() >= next) {
            if (stream->reader.is_valid && !stream->reader.is_valid()) co_return;
            next = deadline_after(clock->now(), heartbeat);
            std::string alive = comment;
            co_await out->write(std::move(alive));
        }
        watch->changed.reset();
        events = stream->take();
        if (!events.empty()) {
            co_await out->write(std::move(events));
            co_await clock->sleep_for(pause);
            continue;
        }
        Task<> waiting = watch->changed.wait();
        Task<bool> limited = detail::run_until(*clock, next, std::move(waiting));
        (void)co_await std::move(limited);
    }
}

/// Returns the value of the parameter `after` of a query.
std::string after_in(std::string_view query) {
    while (!query.empty()) {
        const std::string_view one = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(one.size() + 1, query.size()));
        if (one.starts_with("after="))
            return detail::percent_decoded(one.substr(6)).value_or(std::string());
    }
    return {};
}

}  // namespace

HttpServerResponse live_events(std::shared_ptr<LiveAnswers> answers,
                               const HttpServerRequest& request, Executor executor,
                               LiveReader reader) {
    const std::string session(request.parameter("id"));
    if (!answers || session.size() > longest_session)
        return HttpServerResponse::error(400, "the id of the session is too long");
    auto stream = std::make_shared<LiveStream>();
    stream->watch = answers->watch(session, std::move(executor));
    stream->lists = answers->lists();
    stream->answers = std::move(answers);
    stream->session = session;
    // A browser that connects again by itself has the newer one in the header.
    std::string position(request.headers.get("last-event-id"));
    if (position.empty()) position = after_in(request.query);
    stream->position = LivePosition::parse(position);
    stream->reader = std::move(reader);
    stream->closed = request.closed;
    HttpServerResponse response = HttpServerResponse::events(
        [stream](ResponseStream& out) { return write_events(stream, &out); });
    response.headers.set("x-content-type-options", "nosniff");
    // nginx would collect the events.
    response.headers.set("x-accel-buffering", "no");
    return response;
}

}  // namespace cubepi::app
