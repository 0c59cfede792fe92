#include <bub/channel/shards/relayed_stream.hpp>

#include <optional>
#include <utility>

#include <bub/channel/shards/relay_queue.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub::detail {

namespace {

using cubepi::Executor;
using cubepi::Outcome;

/// The number of events that wait in each direction.
constexpr std::size_t queue_capacity = 64;

using Queue = RelayQueue<StreamEvent>;

struct Relay {
    Relay(const Executor& turn, const Executor& channels)
        : up(std::make_shared<Queue>(turn, channels, queue_capacity)),
          down(std::make_shared<Queue>(channels, turn, queue_capacity)) {}

    const std::shared_ptr<Queue> up;    ///< from the model to the channel
    const std::shared_ptr<Queue> down;  ///< from the channel to the turn
};

/// The stream that the channel reads.
class UpSource final : public EventSource {
public:
    explicit UpSource(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}
    Task<std::optional<StreamEvent>> next() override { return queue_->next(); }
    std::optional<StreamEvent> ready() override { return queue_->ready(); }

private:
    const std::shared_ptr<Queue> queue_;
};

/// The state that a turn's stream and the coroutines that fill it share.
struct Parts {
    Executor front;
    std::shared_ptr<OutboundChannelRouter> router;
    std::shared_ptr<const Envelope> message;
    EventStream upstream;
    std::optional<Relay> relay = {};
};

Task<> read_upstream(std::shared_ptr<Parts> parts) {
    for (;;) {
        std::optional<StreamEvent> event = parts->upstream.ready();
        if (!event) event = co_await parts->upstream.next();
        if (!event) break;
        // An event of an agent belongs to the thread of the agent.
        event->agent_event = nullptr;
        co_await parts->relay->up->push(std::move(*event));
    }
}

/// Moves the events of the model to the channel. Runs on the turn's executor.
Task<> pump(std::shared_ptr<Parts> parts) {
    const Outcome<> done = co_await cubepi::outcome_of(read_upstream(parts));
    parts->relay->up->finish(done.failure());
}

Task<> pass_on(EventStream& stream, std::shared_ptr<Queue> down) {
    for (;;) {
        std::optional<StreamEvent> event = stream.ready();
        if (!event) event = co_await stream.next();
        if (!event) break;
        co_await down->push(std::move(*event));
    }
}

Task<> close_stream(EventStream& stream) { co_await stream.close(); }

/// Lets the channel read the events, on its executor.
Task<> serve_channel(std::shared_ptr<Parts> parts) {
    auto source = std::make_unique<UpSource>(parts->relay->up);
    EventStream stream =
        parts->router->wrap_stream(*parts->message, EventStream(std::move(source)));
    const Outcome<> passed = co_await cubepi::outcome_of(pass_on(stream, parts->relay->down));
    co_await cubepi::shield();
    const Outcome<> closed = co_await cubepi::outcome_of(close_stream(stream));
    co_await cubepi::unshield();
    passed.rethrow();
    closed.rethrow();
}

Task<> serve_front(std::shared_ptr<Parts> parts) {
    Task<> serving = cubepi::run_on(parts->front, serve_channel(parts));
    const Outcome<> served = co_await cubepi::outcome_of(std::move(serving));
    parts->relay->down->finish(served.failure());
}

class RelayedStream final : public EventSource {
public:
    explicit RelayedStream(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

    Task<std::optional<StreamEvent>> next() override {
        if (!work_) {
            const Executor executor = co_await cubepi::this_executor;
            parts_->relay.emplace(executor, parts_->front);
            work_.emplace(executor, [](const std::exception_ptr&) {});
            work_->spawn(pump(parts_));
            work_->spawn(serve_front(parts_));
        }
        co_return co_await parts_->relay->down->next();
    }

    std::optional<StreamEvent> ready() override {
        std::optional<StreamEvent> event;
        if (parts_->relay) event = parts_->relay->down->ready();
        return event;
    }

    Task<> close() override {
        // First the readers of the upstream end, then the upstream itself.
        if (work_) co_await work_->close();
        co_await parts_->upstream.close();
    }

private:
    const std::shared_ptr<Parts> parts_;
    std::optional<cubepi::BackgroundScope> work_;
};

}  // namespace

EventStream relay_stream(Executor front, std::shared_ptr<OutboundChannelRouter> router,
                         const Envelope& message, EventStream upstream) {
    auto parts = std::make_shared<Parts>();
    parts->front = std::move(front);
    parts->router = std::move(router);
    parts->message = std::make_shared<const Envelope>(message);
    parts->upstream = std::move(upstream);
    return EventStream(std::make_unique<RelayedStream>(std::move(parts)));
}

}  // namespace bub::detail
