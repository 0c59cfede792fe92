#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>

#include "openai_interface.hpp"

// Streams of responses that another gateway holds, whose events have the numbers that their readers continue from (D254).

namespace cubepi::app {

namespace {

constexpr std::string_view response_request = "response";

}  // namespace

Task<std::optional<JsonObject>> OpenAIInterface::events_for(JsonObject request) {
    constexpr std::chrono::seconds longest_wait{1};
    constexpr std::size_t longest_piece = std::size_t{64} << 10U;
    std::optional<JsonObject> answer;
    if (detail::text_member(request, "about") != response_request) co_return answer;
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
    const std::optional<JsonObject> answer = co_await std::move(asking);
    if (!answer) co_return false;
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
        const std::vector<std::string> next = std::exchange(events->events, {});
        for (std::string event : next) co_await out->write(std::move(event));
        if (events->ended || closed.stop_requested()) co_return;
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
