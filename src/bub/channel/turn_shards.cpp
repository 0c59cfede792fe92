#include <bub/channel/turn_shards.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <bub/kernel/framework_impl.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {

namespace {

using cubepi::Executor;
using cubepi::Outcome;

/// A bounded queue from a coroutine of one executor to a coroutine of another. Owned by a shared_ptr.
template <class T>
class RelayQueue : public std::enable_shared_from_this<RelayQueue<T>> {
public:
    RelayQueue(cubepi::Executor producer, cubepi::Executor consumer, std::size_t capacity)
        : producer_(std::move(producer)), consumer_(std::move(consumer)), capacity_(capacity) {}

    /// Appends an item after waiting for space. Called on the producer's executor.
    cubepi::Task<> push(T item) {
        for (;;) {
            space_.reset();
            if (try_push(item)) co_return;
            co_await space_.wait();
        }
    }

    /// Ends the queue: after the last item, next() throws `failure`, or returns nothing if it is null.
    void finish(std::exception_ptr failure) {
        const std::lock_guard lock(mutex_);
        if (std::exchange(finished_, true)) return;
        failure_ = std::move(failure);
        wake_consumer();
    }

    /// Returns the next item; nothing at the end. Called on the consumer's executor.
    cubepi::Task<std::optional<T>> next() {
        for (;;) {
            arrival_.reset();
            std::optional<T> item = take(true);
            if (item || at_end()) co_return item;
            co_await arrival_.wait();
        }
    }

    /// Returns the next item, if there is one. Called on the consumer's executor.
    std::optional<T> ready() { return take(false); }

private:
    /// Does not move from `item` if the queue is full.
    bool try_push(T& item) {
        const std::lock_guard lock(mutex_);
        if (items_.size() >= capacity_) {
            producer_waits_ = true;
            return false;
        }
        items_.push_back(std::move(item));
        wake_consumer();
        return true;
    }

    std::optional<T> take(bool waits) {
        std::optional<T> item;
        const std::lock_guard lock(mutex_);
        if (items_.empty()) {
            consumer_waits_ = waits;
            return item;
        }
        item.emplace(std::move(items_.front()));
        items_.pop_front();
        // Half of the queue is free: waking the producer for each item would cost a thread switch per item.
        if (producer_waits_ && items_.size() <= capacity_ / 2) {
            producer_waits_ = false;
            boost::asio::post(producer_, [self = this->shared_from_this()] { self->space_.set(); });
        }
        return item;
    }

    /// Throws the failure of finish().
    bool at_end() {
        const std::lock_guard lock(mutex_);
        if (!finished_ || !items_.empty()) return false;
        if (failure_) std::rethrow_exception(failure_);
        return true;
    }

    void wake_consumer() {
        if (!std::exchange(consumer_waits_, false)) return;
        boost::asio::post(consumer_, [self = this->shared_from_this()] { self->arrival_.set(); });
    }

    const cubepi::Executor producer_;
    const cubepi::Executor consumer_;
    const std::size_t capacity_;
    cubepi::AsyncEvent space_;    // used on the producer's executor
    cubepi::AsyncEvent arrival_;  // used on the consumer's executor

    std::mutex mutex_;
    std::deque<T> items_;
    std::exception_ptr failure_;
    bool finished_ = false;
    bool producer_waits_ = false;
    bool consumer_waits_ = false;
};

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
        // The delta of an update may refer to memory of the agent's thread.
        if (event->agent_event && event->agent_event->stream_event()) event->agent_event = nullptr;
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
        // First the readers of the upstream end, then the upstream itself, also if the time for that was over before.
        cubepi::Outcome<> ended{std::exception_ptr()};
        if (work_) {
            Task<> ending = work_->close();
            ended = co_await cubepi::outcome_of(std::move(ending));
        }
        if (ended.cancelled()) co_await cubepi::shield();
        Task<> closing = parts_->upstream.close();
        const cubepi::Outcome<> closed = co_await cubepi::outcome_of(std::move(closing));
        if (ended.cancelled()) co_await cubepi::unshield();
        ended.rethrow();
        closed.rethrow();
    }

private:
    const std::shared_ptr<Parts> parts_;
    std::optional<cubepi::BackgroundScope> work_;
};

/// Returns a stream for a turn on this executor: the events of `upstream` as the channels of `router` pass them on, which belong to
/// the executor `front`. Both directions are bounded, so that a slow channel slows down the model.
EventStream relay_stream(Executor front, std::shared_ptr<OutboundChannelRouter> router,
                         const Envelope& message, EventStream upstream) {
    auto parts = std::make_shared<Parts>();
    parts->front = std::move(front);
    parts->router = std::move(router);
    parts->message = std::make_shared<const Envelope>(message);
    parts->upstream = std::move(upstream);
    return EventStream(std::make_unique<RelayedStream>(std::move(parts)));
}

using Bytes = std::optional<std::string>;
using Fetch = std::function<Task<Bytes>()>;

// Coroutines, so that the functions themselves are called on their executor.

Task<Bytes> call_fetch(Fetch fetch) { co_return co_await fetch(); }

Task<> open_lifespan(std::shared_ptr<Lifespan> lifespan) { co_await lifespan->open(); }

Task<> close_lifespan(std::shared_ptr<Lifespan> lifespan, std::exception_ptr error) {
    co_await lifespan->close(std::move(error));
}

class ForeignLifespan final : public Lifespan {
public:
    ForeignLifespan(cubepi::Executor home, std::shared_ptr<Lifespan> lifespan)
        : home_(std::move(home)), lifespan_(std::move(lifespan)) {}

    Task<> open() override { return cubepi::run_on(home_, open_lifespan(lifespan_)); }
    Task<> close(std::exception_ptr error) override {
        return cubepi::run_on(home_, close_lifespan(lifespan_, std::move(error)));
    }

private:
    const cubepi::Executor home_;
    const std::shared_ptr<Lifespan> lifespan_;
};

/// Makes the functions of a message that moves to another thread (its lifespan, and those that fetch its media) run on `home`, the
/// executor that they belong to.
void keep_on(const cubepi::Executor& home, Envelope& message) {
    for (MediaItem& item : message.media) {
        if (!item.fetch) continue;
        item.fetch = [home, fetch = std::move(item.fetch)] {
            return cubepi::run_on(home, call_fetch(fetch));
        };
    }
    if (message.lifespan)
        message.lifespan = std::make_shared<ForeignLifespan>(home, std::move(message.lifespan));
}

using Target = std::shared_ptr<OutboundChannelRouter>;

// Coroutines, so that the members of the target are called on its executor.

Task<> plan(Target target, std::string session_id, std::vector<TurnOutput> outputs) {
    co_await target->plan_outputs(std::move(session_id), std::move(outputs));
}

Task<bool> dispatch(Target target, TurnOutput output) {
    co_return co_await target->dispatch_output(std::move(output));
}

Task<> quit_session(Target target, std::string session_id) {
    co_await target->quit(std::move(session_id));
}

/// The router of a shard's framework: passes everything to the router of the manager, on the manager's executor.
class ShardRouter final : public OutboundChannelRouter {
public:
    ShardRouter(cubepi::Executor front, cubepi::Executor shard,
                std::shared_ptr<OutboundChannelRouter> target)
        : front_(std::move(front)), shard_(std::move(shard)), target_(std::move(target)) {}

    EventStream wrap_stream(const Envelope& message, EventStream stream) override;
    Task<> plan_outputs(std::string session_id, std::vector<TurnOutput> outputs) override;
    Task<bool> dispatch_output(TurnOutput output) override;
    Task<> quit(std::string session_id) override;
    /// The turn is cancelled soon after. Returns true, since the shard does not know the sessions of the others.
    bool cancel_turn(const std::string& session_id) override;

private:
    const cubepi::Executor front_;
    const cubepi::Executor shard_;
    const std::shared_ptr<OutboundChannelRouter> target_;
};

EventStream ShardRouter::wrap_stream(const Envelope& message, EventStream stream) {
    return relay_stream(front_, target_, message, std::move(stream));
}

Task<> ShardRouter::plan_outputs(std::string session_id, std::vector<TurnOutput> outputs) {
    for (TurnOutput& output : outputs) keep_on(shard_, output.message);
    return cubepi::run_on(front_, plan(target_, std::move(session_id), std::move(outputs)));
}

Task<bool> ShardRouter::dispatch_output(TurnOutput output) {
    keep_on(shard_, output.message);
    return cubepi::run_on(front_, dispatch(target_, std::move(output)));
}

Task<> ShardRouter::quit(std::string session_id) {
    return cubepi::run_on(front_, quit_session(target_, std::move(session_id)));
}

bool ShardRouter::cancel_turn(const std::string& session_id) {
    boost::asio::post(front_,
                      [target = target_, session_id] { (void)target->cancel_turn(session_id); });
    return true;
}

void share_inbox(Framework& framework, std::shared_ptr<SteeringInbox> inbox) {
    if (!inbox) return;
    Plugin shared;
    shared.name = "steering inbox of the channel manager";
    shared.provide_steering_inbox = [inbox](ProvideCall&) { return inbox; };
    framework.add(std::move(shared));
}

Task<> connect(Framework* framework, detail::Lifespans* lifespans,
               std::shared_ptr<OutboundChannelRouter> router,
               std::shared_ptr<SteeringInbox> inbox) {
    framework->bind_router(std::move(router));
    share_inbox(*framework, std::move(inbox));
    co_await detail::open_lifespans(*framework, *lifespans);
}

Task<> disconnect(Framework* framework, detail::Lifespans* lifespans) {
    framework->bind_router(nullptr);
    Task<> closing =
        detail::close_lifespans(*framework, std::exchange(*lifespans, {}), std::exception_ptr());
    co_await std::move(closing);
}

}  // namespace

TurnSummary summary_of(const TurnResult& result) {
    TurnSummary summary;
    if (const auto open = result.state.service<OpenQuestions>()) {
        summary.suspended = true;
        summary.unread = open->unread;
    }
    if (result.state.service<QuestionsRemain>()) summary.suspended = true;
    if (const auto answer = result.state.service<AcceptedAnswer>()) summary.answer = *answer;
    return summary;
}

struct TurnShards::Shard {
    explicit Shard(const MakeFramework& make);
    ~Shard();
    Shard(const Shard&) = delete;
    Shard& operator=(const Shard&) = delete;

    void run(const MakeFramework& make, std::promise<void> started);
    Task<TurnSummary> run_turn(std::shared_ptr<Envelope> inbound, bool stream_output);
    void end_if_idle();

    boost::asio::io_context context{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> busy{
        context.get_executor()};
    const Executor executor{context.get_executor()};
    // Used on the thread.
    std::unique_ptr<Framework> framework;
    detail::Lifespans lifespans;
    std::size_t turns = 0;
    bool ending = false;
    std::thread thread;
};

TurnShards::Shard::Shard(const MakeFramework& make) {
    std::promise<void> promise;
    std::future<void> started = promise.get_future();
    thread = std::thread(
        [this, &make, promise = std::move(promise)]() mutable { run(make, std::move(promise)); });
    try {
        started.get();
    } catch (...) {
        thread.join();
        throw;
    }
}

TurnShards::Shard::~Shard() {
    boost::asio::post(context, [this] {
        ending = true;
        end_if_idle();
    });
    busy.reset();
    thread.join();
}

void TurnShards::Shard::run(const MakeFramework& make, std::promise<void> started) {
    try {
        framework = make();
    } catch (...) {
        started.set_exception(std::current_exception());
        return;
    }
    started.set_value();
    context.run();
}

/// Background commands of the framework would keep the thread busy for ever.
void TurnShards::Shard::end_if_idle() {
    if (ending && turns == 0) framework.reset();
}

Task<TurnSummary> TurnShards::Shard::run_turn(std::shared_ptr<Envelope> inbound,
                                              bool stream_output) {
    ++turns;
    Task<TurnResult> turn = framework->process_inbound(std::move(inbound), stream_output);
    cubepi::Outcome<TurnResult> ended = co_await cubepi::outcome_of(std::move(turn));
    --turns;
    if (ending) boost::asio::post(context, [this] { end_if_idle(); });
    const TurnResult result = std::move(ended).value();
    co_return summary_of(result);
}

TurnShards::TurnShards(std::size_t count, MakeFramework make) {
    const std::size_t threads = std::max<std::size_t>(count, 1);
    for (std::size_t i = 0; i < threads; ++i) shards_.push_back(std::make_unique<Shard>(make));
}

TurnShards::~TurnShards() = default;

std::size_t TurnShards::size() const noexcept { return shards_.size(); }

TurnShards::Shard& TurnShards::shard_of(std::string_view session_id) const {
    return *shards_[std::hash<std::string_view>()(session_id) % shards_.size()];
}

Task<TurnSummary> TurnShards::run_turn(std::string_view session_id,
                                       std::shared_ptr<Envelope> inbound, bool stream_output) {
    Shard& shard = shard_of(session_id);
    const Executor front = co_await cubepi::this_executor;
    keep_on(front, *inbound);
    Task<TurnSummary> turn = shard.run_turn(std::move(inbound), stream_output);
    Task<TurnSummary> elsewhere = cubepi::run_on(shard.executor, std::move(turn));
    co_return co_await std::move(elsewhere);
}

void TurnShards::keep_here(Envelope& message) const {
    if (front_) keep_on(*front_, message);
}

Task<> TurnShards::bind(std::shared_ptr<OutboundChannelRouter> router,
                        std::shared_ptr<SteeringInbox> inbox) {
    const Executor front = co_await cubepi::this_executor;
    front_ = front;
    for (const auto& shard : shards_) {
        auto local = std::make_shared<ShardRouter>(front, shard->executor, router);
        Task<> connecting =
            connect(shard->framework.get(), &shard->lifespans, std::move(local), inbox);
        Task<> elsewhere = cubepi::run_on(shard->executor, std::move(connecting));
        co_await std::move(elsewhere);
    }
}

Task<> TurnShards::unbind() {
    for (const auto& shard : shards_) {
        Task<> disconnecting = disconnect(shard->framework.get(), &shard->lifespans);
        Task<> elsewhere = cubepi::run_on(shard->executor, std::move(disconnecting));
        co_await std::move(elsewhere);
    }
}

}  // namespace bub
