#include "points.hpp"

#include <chrono>
#include <utility>

#include <boost/asio/post.hpp>

#include <cubepi/checkpoint/memory_checkpointer.hpp>

namespace cubepi::abort_tests {

namespace {

class WaitingStore final : public Checkpointer, public RunStore {
public:
    explicit WaitingStore(Points& points) : points_(points) {}

    Task<std::optional<CheckpointData>> load(std::string thread_id) override {
        co_await points_.wait_shortly();
        std::optional<CheckpointData> data = co_await inner_.load(std::move(thread_id));
        co_await points_.wait_shortly();
        co_return data;
    }
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override {
        co_await points_.wait_shortly();
        const std::int64_t position =
            co_await inner_.append(std::move(thread_id), std::move(messages), std::move(options));
        co_await points_.wait_shortly();
        co_return position;
    }
    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        co_await points_.wait_shortly();
        co_await inner_.save_extra(std::move(thread_id), std::move(extra));
    }
    Task<ClaimResult> claim_run(std::string thread_id, std::string run_id, ClaimOwner owner,
                                ClaimKind kind) override {
        co_await points_.wait_shortly();
        ClaimResult result = co_await inner_.claim_run(std::move(thread_id), std::move(run_id),
                                                       std::move(owner), kind);
        co_await points_.wait_shortly();
        co_return result;
    }
    Task<void> renew_claim(std::string thread_id, std::string run_id,
                           std::string owner_id) override {
        return inner_.renew_claim(std::move(thread_id), std::move(run_id), std::move(owner_id));
    }
    Task<void> release_claim(std::string thread_id, std::string run_id,
                             std::string owner_id) override {
        co_await points_.wait_shortly();
        co_await inner_.release_claim(std::move(thread_id), std::move(run_id), std::move(owner_id));
    }
    Task<void> mark_run_complete(std::string thread_id, std::string run_id) override {
        co_await points_.wait_shortly();
        co_await inner_.mark_run_complete(std::move(thread_id), std::move(run_id));
    }
    Task<bool> is_run_complete(std::string thread_id, std::string run_id) override {
        return inner_.is_run_complete(std::move(thread_id), std::move(run_id));
    }

private:
    MemoryCheckpointer inner_;
    Points& points_;
};

}  // namespace

Task<> Points::wait(Clock& clock) {
    if (++count_ != target_) {
        co_await yield_now();
        co_return;
    }
    const Executor executor = co_await this_executor;
    boost::asio::post(executor, [this] { hit(); });
    co_await clock.sleep_for(std::chrono::hours(1));
}

Task<> Points::wait_for_stop(Clock& clock, std::stop_token stop) {
    if (++count_ != target_) {
        co_await yield_now();
        co_return;
    }
    const Executor executor = co_await this_executor;
    boost::asio::post(executor, [this] { hit(); });
    while (!stop.stop_requested()) co_await clock.sleep_for(std::chrono::milliseconds(1));
}

Task<> Points::wait_shortly() {
    if (++count_ == target_) {
        const Executor executor = co_await this_executor;
        boost::asio::post(executor, [this] { hit(); });
    }
    co_await yield_now();
    co_await yield_now();
}

std::shared_ptr<Checkpointer> make_waiting_store(Points& points) {
    return std::make_shared<WaitingStore>(points);
}

}  // namespace cubepi::abort_tests
