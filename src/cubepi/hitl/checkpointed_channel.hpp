#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/call_notes.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/clock.hpp>

namespace cubepi {

namespace detail {
class RequestStorage;
class RequestTable;
}  // namespace detail

struct CheckpointedChannelOptions {
    /// The timeout of requests that set none. Zero: no limit.
    std::chrono::nanoseconds default_timeout = std::chrono::nanoseconds::zero();
    /// Accepts questions from the body of any tool (D69). After a restart such a body begins again: what it did before the
    /// question is done twice.
    bool allow_inside_custom_tool = false;
    std::shared_ptr<Clock> clock = {};  ///< default: the system clock
    /// Added to HitlRequest::extra of each request.
    JsonObject extra = {};
};

/// A channel that stores its requests, and the answers until they are used (D18, D62). A run that waits for an answer can be
/// suspended with Agent::detach() and continued with Agent::respond(), days later and in another process.
///
/// It is the channel of one agent (AgentOptions::channel) and has the agent's store and thread id. Its requests are made
/// in runs of that agent.
class CheckpointedChannel final : public HitlChannel, public CallNotes {
public:
    /// Throws Error(invalid_argument) if the store cannot keep requests (HitlStore), or the thread id is empty.
    CheckpointedChannel(std::shared_ptr<Checkpointer> store, std::string thread_id,
                        CheckpointedChannelOptions options = {});
    ~CheckpointedChannel() override;

    Task<Json> request(HitlPayload payload, HitlOptions options) override;
    /// The requests that wait in this process; Agent::load_pending_hitl_requests() returns the stored ones.
    std::vector<HitlRequest> pending() const override;
    HitlRequestStream subscribe() override;
    /// Completes when the answer is stored. Throws a CheckpointerError if that fails; the request stays pending then.
    Task<> answer(std::string question_id, Json value, AnswerOrigin origin = {}) override;
    Task<> cancel(std::string question_id, std::string reason = "cancelled") override;
    bool is_durable() const noexcept override { return true; }
    /// Returns true if the run continues one in which this approval was asked for, and its answer is stored and not used yet:
    /// request() then returns that answer without asking. `request` has the payload and the extra fields of the approval.
    Task<bool> has_answer(HitlRequest request);
    bool is_suspending() const noexcept override { return run() && run()->is_suspending(); }
    /// Notes are stored like answers to questions that were not asked.
    Task<> save_note(std::string id, std::string text) override;
    Task<std::optional<std::string>> load_note(std::string id) override;
    void connect(std::shared_ptr<HitlRun> run) override;

private:
    /// Throws Error(hitl) outside of a run.
    const std::string& run_id() const;

    std::shared_ptr<Checkpointer> store_;
    std::string thread_id_;
    bool allow_inside_custom_tool_;
    JsonObject extra_;
    std::shared_ptr<detail::RequestStorage> storage_;
    std::shared_ptr<detail::RequestTable> table_;
};

}  // namespace cubepi
