#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

#include <bub/channel/channel_manager.hpp>

namespace bub::detail {

/// The delivery log's ids of a message and of those merged into it; empty if nothing is recorded.
using Receipts = std::vector<std::string>;

/// A message on its way to a turn. The receipts are part of it rather than of the envelope, which hooks may replace.
struct QueuedMessage {
    std::shared_ptr<Envelope> message;
    Receipts receipts = {};
    std::uint64_t number = 0;              ///< in order of arrival
    bool redelivered = false;              ///< accepted by another process; cannot be rejected
    bool begun = false;                    ///< a turn of an ended process has begun on it
    cubepi::Clock::time_point since = {};  ///< when this process began to admit it

    QueuedMessage() = default;
    /// Takes the message back from a debouncer or a steering inbox.
    explicit QueuedMessage(Envelope returned)
        : receipts(std::exchange(returned.receipts, {})),
          number(std::exchange(returned.arrival, 0)) {
        message = std::make_shared<Envelope>(std::move(returned));
    }
};

/// The number of answers to questions that may wait in one queue. The limits of other messages do not hold for them, because those may
/// be waiting for the answer.
inline constexpr std::ptrdiff_t max_waiting_answers = 8;

/// The number of messages that the end of the manager removed from its queues.
struct Leftover {
    std::size_t dropped = 0;
    std::size_t recorded = 0;  ///< delivered again at the next start

    void count(const Receipts& receipts) { ++(receipts.empty() ? dropped : recorded); }
};

inline constexpr std::string_view stopped_notice = "The turn was stopped.";
inline constexpr std::string_view stop_refusal =
    "Only the user whose message is being processed, or an operator, may stop it.";

/// Returns a notice for the sender of `message`, kind error. `mark`: its key in the context.
Envelope notice_to(const Envelope& message, std::string text, std::string_view mark);

/// The state that the parts of a channel manager share.
struct ManagerContext {
    ManagerContext(Framework& used_framework, ChannelManagerOptions given)
        : framework(used_framework), options(std::move(given)) {}

    /// Logs the event, and passes the text on to the operator. The fields have no content (cubepi/core/log.hpp).
    void warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
              const std::string& text) const {
        framework.runtime()->log.write(cubepi::LogLevel::warning, event, fields);
        if (options.on_warning) options.on_warning(text);
    }
    /// Returns true if no more messages may wait.
    bool is_full() const { return waiting >= options.max_waiting_in_all; }
    void add_waiting() { ++waiting; }
    void remove_waiting(std::size_t messages = 1) { waiting -= std::min(waiting, messages); }
    cubepi::Clock& clock() const { return *framework.runtime()->clock; }
    /// DeliveryLog::partial_outage(). It must not take the gateway from the users of the other part.
    std::string partial_outage() const {
        return options.deliveries ? options.deliveries->partial_outage() : std::string();
    }
    /// Starts a coroutine that ends with the manager. It must hold keep_alive().
    void spawn(Task<> task) { work->spawn(std::move(task)); }
    /// Returns an object that keeps the manager alive, for coroutines that may outlast its last user.
    std::shared_ptr<void> keep_alive() const { return owner.lock(); }

    Framework& framework;
    const ChannelManagerOptions options;
    std::weak_ptr<void> owner;
    std::unique_ptr<cubepi::BackgroundScope> work;
    cubepi::AsyncEvent ready;    ///< all channels have started: turns may begin
    cubepi::AsyncEvent changed;  ///< pulsed when a queue becomes idle
    cubepi::AsyncEvent left;  ///< pulsed when a message was stored that another process may process
    std::uint64_t arrivals = 0;
    std::size_t waiting = 0;  ///< in all queues
    bool open = false;        ///< messages are accepted
    bool draining = false;    ///< no turn begins
    /// When a message could not be stored; empty: the last one could be.
    std::optional<cubepi::Clock::time_point> storing_failed;
};

/// The channels of a manager: which ones are enabled, and which of them run.
class ChannelSet {
public:
    explicit ChannelSet(ManagerContext& context) : context_(context) {}

    /// Returns the channels selected by the options, in start order. `handler` receives their messages; the plugins are
    /// asked once.
    Task<std::vector<std::shared_ptr<Channel>>> enabled(MessageHandler handler);
    /// Makes the channels known to find(), before they are started.
    void serve(const std::vector<std::shared_ptr<Channel>>& channels);
    /// Starts a channel within the limit of the options.
    Task<> start(std::shared_ptr<Channel> channel);
    void announce_stop() { stop_.request_stop(); }
    void announce_drain() const;
    /// Stops the channels that were started, in reverse order. Problems are reported to the operator.
    Task<> stop();

    /// Returns the names of the channels that are served.
    std::vector<std::string> names() const;
    /// Returns null if no such channel is served.
    std::shared_ptr<Channel> find(const std::optional<std::string>& name) const;
    /// Returns the channel that receives the answers to `message`; null if it is not served.
    std::shared_ptr<Channel> find_output(const Envelope& message) const;

private:
    ManagerContext& context_;
    std::optional<std::vector<ProvidedChannel>> provided_;
    std::map<std::string, std::shared_ptr<Channel>, std::less<>> serving_;
    std::vector<std::shared_ptr<Channel>> started_;
    std::stop_source stop_;
};

}  // namespace bub::detail
