#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/clock.hpp>

namespace cubepi {

namespace detail {
class RequestTable;
}  // namespace detail

struct InMemoryChannelOptions {
    /// The timeout of requests that set none. Zero: no limit.
    std::chrono::nanoseconds default_timeout = std::chrono::nanoseconds::zero();
    /// Becomes HitlRequest::thread_id.
    std::optional<std::string> thread_id = {};
    std::shared_ptr<Clock> clock = {};  ///< default: the system clock
};

/// A channel whose requests live in this process: a run that asks waits until the host answers. If the process ends, the
/// requests are gone. Destroying the channel cancels the requests that wait.
class InMemoryChannel final : public HitlChannel {
public:
    explicit InMemoryChannel(InMemoryChannelOptions options = {});
    ~InMemoryChannel() override;

    Task<Json> request(HitlPayload payload, HitlOptions options) override;
    std::vector<HitlRequest> pending() const override;
    HitlRequestStream subscribe() override;
    Task<> answer(std::string question_id, Json value, AnswerOrigin origin = {}) override;
    Task<> cancel(std::string question_id, std::string reason = "cancelled") override;

    void connect(std::shared_ptr<HitlRun> run) override;

private:
    std::shared_ptr<detail::RequestTable> table_;
};

}  // namespace cubepi
