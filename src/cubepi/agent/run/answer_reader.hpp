#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <cubepi/agent/run/run_core.hpp>

namespace cubepi::detail {

/// Reads the stream of a model's answer to its end and delivers its events to the listeners.
class AnswerReader {
public:
    explicit AnswerReader(RunCore& core) : core_(core) {}

    /// Returns the final message; empty if an abort ended the stream without one. `is_own_request`: the provider received
    /// this run's stop token, unchanged by hooks. Throws ListenerFailed, and the exceptions of the stream.
    Task<std::optional<Message>> read(MessageStream stream, bool is_own_request);
    /// Returns true if message_start was delivered.
    bool has_started() const noexcept { return started_; }
    /// Returns the streamed content, without calls whose arguments were incomplete (D34).
    AssistantMessage so_far() const;

private:
    Task<std::optional<StreamEvent>> wait_event(MessageStream& stream, bool is_own_request);
    MaybeTask<> pass_on(StreamEvent&& event);
    void note_blocks(const StreamEvent& event);

    RunCore& core_;
    std::vector<std::int32_t> open_calls_;  // indexes of the calls whose arguments are incomplete
    bool started_ = false;
};

}  // namespace cubepi::detail
