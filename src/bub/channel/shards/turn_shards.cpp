#include <bub/channel/turn_shards.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <bub/channel/shards/shard_router.hpp>
#include <bub/kernel/lifespans.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {

namespace {

using cubepi::Executor;

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
    detail::keep_on(front, *inbound);
    Task<TurnSummary> turn = shard.run_turn(std::move(inbound), stream_output);
    Task<TurnSummary> elsewhere = cubepi::run_on(shard.executor, std::move(turn));
    co_return co_await std::move(elsewhere);
}

Task<> TurnShards::bind(std::shared_ptr<OutboundChannelRouter> router,
                        std::shared_ptr<SteeringInbox> inbox) {
    const Executor front = co_await cubepi::this_executor;
    for (const auto& shard : shards_) {
        auto local = std::make_shared<detail::ShardRouter>(front, shard->executor, router);
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
