#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/message_list.hpp>

namespace cubepi::detail {

/// Detects that a run makes no progress (D121): calls of the same tool with the same arguments and the same result, alone or in
/// turns with others, without one that is new to the run. Polling is not affected if the result changes.
class RepeatedCalls {
public:
    /// `limit`: AgentLimits::max_repeated_calls.
    explicit RepeatedCalls(std::size_t limit) noexcept : limit_(limit) {}

    bool enabled() const noexcept { return limit_ != 0; }
    /// Notes a call with its whole result. Returns what to add to the result for the model; usually empty.
    std::string note(const ToolCall& call, const AgentToolResult& result);
    /// The calls count that follow the message with this id: a run that begins again after its limit has those before in its history.
    /// Empty: those of the prompt.
    void begin_after(std::string message_id) { after_ = std::move(message_id); }
    const std::string& begins_after() const noexcept { return after_; }
    /// Notes the calls of a history from this index on, which earlier attempts of the run have made.
    void note_history(const MessageList& history, std::size_t begin);
    /// Returns the error of the run once a call has been made too often.
    const std::optional<LimitReachedError>& limit_reached() const noexcept { return reached_; }

private:
    struct Count {
        std::size_t calls = 0;
        std::size_t epoch = 0;
    };

    std::size_t limit_;
    std::string after_;
    std::size_t epoch_ = 0;                            // the number of calls that were new
    std::unordered_map<std::uint64_t, Count> counts_;  // by a hash of call and result
    std::optional<LimitReachedError> reached_;
};

}  // namespace cubepi::detail
