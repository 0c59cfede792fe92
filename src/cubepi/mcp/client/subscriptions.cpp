#include <algorithm>
#include <exception>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/client/client_state.hpp>
#include <cubepi/mcp/client/refusals.hpp>

namespace cubepi {

namespace {

/// Before the stream of notifications is opened again.
constexpr std::chrono::nanoseconds first_listen_delay = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds max_listen_delay = std::chrono::minutes(1);
constexpr std::size_t max_subscriptions = 100;

}  // namespace

/// The era without sessions has no notifications outside of a request, so one request waits for them.
void McpClient::State::start_listening(const Executor& executor) {
    replaces_stream = listening != nullptr;
    listening.reset();
    notices_changes = true;
    const bool changes = announces("tools") || announces("prompts") || announces("resources");
    const bool is_needed =
        info.is_stateless ? changes || !subscriptions.empty() : !subscriptions.empty();
    if (!is_needed || is_ended) return;
    listening = std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
    if (info.is_stateless) {
        listening->spawn(listen(shared_from_this()));
    } else {
        listening->spawn(subscribe_again(shared_from_this()));
    }
}

/// Opens the stream again when it has ended, with growing delays. A change may have been missed in between.
Task<> McpClient::State::listen(std::shared_ptr<State> self) {
    std::chrono::nanoseconds delay = first_listen_delay;
    while (self->transport->is_open()) {
        JsonObject wanted;
        if (self->announces("tools")) wanted["toolsListChanged"] = true;
        if (self->announces("prompts")) wanted["promptsListChanged"] = true;
        if (self->announces("resources")) wanted["resourcesListChanged"] = true;
        if (!self->subscriptions.empty()) {
            JsonArray uris;
            for (const std::string& uri : self->subscriptions) uris.emplace_back(uri);
            wanted["resourceSubscriptions"] = std::move(uris);
        }
        JsonObject params;
        params["notifications"] = std::move(wanted);
        const Clock::time_point begun = self->runtime->clock->now();
        Task<JsonObject> listening_once =
            self->send_once("subscriptions/listen", std::move(params), RequestExtras());
        const Outcome<JsonObject> ended = co_await outcome_of(std::move(listening_once));
        if (ended.cancelled()) co_return;
        self->report_missed_changes();
        if (detail::is_lasting_refusal(ended.failure())) {
            self->notices_changes = false;
            co_return;
        }
        // Servers and proxies end long streams without a fault.
        if (self->runtime->clock->now() - begun > max_listen_delay) delay = first_listen_delay;
        co_await self->runtime->clock->sleep_for(delay);
        delay = std::min(2 * delay, max_listen_delay);
    }
}

/// A new session knows nothing of the subscriptions of the one before.
Task<> McpClient::State::subscribe_again(std::shared_ptr<State> self) {
    const std::set<std::string> uris = self->subscriptions;
    for (const std::string& uri : uris) {
        JsonObject params;
        params["uri"] = uri;
        Task<JsonObject> sending =
            self->send_once("resources/subscribe", std::move(params), RequestExtras());
        const Outcome<JsonObject> sent = co_await outcome_of(std::move(sending));
        if (sent.cancelled()) co_return;
    }
    self->report_missed_changes();
}

Task<> McpClient::State::subscribe(std::string uri) {
    co_await ensure_connected();
    if (subscriptions.contains(uri)) co_return;
    if (subscriptions.size() == max_subscriptions) {
        throw Error(ErrorCode::limit, "There are " + std::to_string(max_subscriptions) +
                                          " subscriptions to resources of the MCP server " +
                                          options.server + "; end one of them first.");
    }
    if (!info.is_stateless) {
        JsonObject params;
        params["uri"] = uri;
        (void)co_await send_within(options.request_timeout, "resources/subscribe",
                                   std::move(params), RequestExtras());
        subscriptions.insert(std::move(uri));
        co_return;
    }
    subscriptions.insert(std::move(uri));
    const Executor executor = co_await this_executor;
    start_listening(executor);
}

Task<> McpClient::State::unsubscribe(std::string uri) {
    if (subscriptions.erase(uri) == 0 || !is_agreed || !transport->is_open()) co_return;
    if (!info.is_stateless) {
        JsonObject params;
        params["uri"] = std::move(uri);
        (void)co_await send_within(options.request_timeout, "resources/unsubscribe",
                                   std::move(params), RequestExtras());
        co_return;
    }
    const Executor executor = co_await this_executor;
    start_listening(executor);
}

void McpClient::State::report_update(const std::string& uri) const noexcept {
    if (!options.on_resource_updated || !subscriptions.contains(uri)) return;
    try {
        options.on_resource_updated(uri);
    } catch (const std::exception&) {
        return;  // the host's; a server must not suffer from it
    }
}

void McpClient::State::report_missed_changes() {
    lists_may_have_changed();
    const std::set<std::string> uris = subscriptions;
    for (const std::string& uri : uris) report_update(uri);
}

}  // namespace cubepi
