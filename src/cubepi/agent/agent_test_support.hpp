#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi::agent_test {

struct EchoArgs {
    std::string value;
};

AgentTool echo_tool();
ToolCall echo_call(std::string value, std::string id = "c1");

/// Returns an answer that calls tools.
AssistantMessage calling(std::vector<ToolCall> calls,
                         std::string_view reason = stop_reason::tool_use);

/// Returns the result of one call of the tool.
ToolResultMessage result_of(AgentTool tool, JsonObject arguments);
std::string text_of(const ToolResultMessage& result);

/// A store whose n-th append fails.
class FailingStore final : public Checkpointer {
public:
    FailingStore(std::shared_ptr<Checkpointer> inner, int fail_at);
    Task<std::optional<CheckpointData>> load(std::string thread_id) override;
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override;
    Task<void> save_extra(std::string thread_id, JsonObject extra) override;

private:
    std::shared_ptr<Checkpointer> inner_;
    int fail_at_;
    int appends_ = 0;
};

/// A record of an agent's events, each described in one word.
class Recorder {
public:
    explicit Recorder(Agent& agent);
    /// "turn_start", "message_end:assistant", "tool_execution_end:c1", ...
    std::vector<std::string> words() const;
    std::size_t count(AgentEventType type) const;
    /// Returns the notices' codes.
    std::vector<std::string> notices() const;
    static std::string word(const AgentEvent& event);

    std::vector<AgentEvent> events;
};

/// A record of the requests to the model.
class Requests {
public:
    /// A script step that records the request and answers.
    FauxStep answer(AssistantMessage message);
    FauxStep answer(const char* text);
    std::vector<ModelRequest> seen;
};

std::vector<std::string> texts(const MessageList& messages);
std::vector<Role> roles(const MessageList& messages);
MessageList stored(Checkpointer& store, std::string thread_id);
/// Stores messages as if by an earlier process.
void preload(Checkpointer& store, std::string thread_id, MessageList messages);

}  // namespace cubepi::agent_test
