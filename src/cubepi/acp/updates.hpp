#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/acp/agent.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>

// The events of an agent as updates of the protocol: texts, thoughts, tool calls with their state, files, to-dos and usage.

namespace cubepi {

/// Returns an update with a part of a message: `kind` is "agent_message_chunk", "agent_thought_chunk" or "user_message_chunk".
/// `message`: the id of the message that the part belongs to; empty: it is a message of its own.
JsonObject acp_text_update(std::string_view kind, std::string_view text,
                           std::string_view message = {});
/// Returns an update with a state of the session.
JsonObject acp_commands_update(const std::vector<AcpChoice>& commands);
JsonObject acp_mode_update(std::string_view mode);
JsonObject acp_options_update(const std::vector<AcpOption>& options);
JsonObject acp_title_update(std::string_view title);

/// Returns a content block of the kind "diff" from the hunks of a unified diff, which must not be empty. `is_new`: there was no such
/// file. `path` is absolute. `protocol`: AcpEditorInfo::protocol; version 2 shows the hunks as they are.
JsonObject acp_diff(std::string path, std::string_view hunks, bool is_new, int protocol = 1);

/// Translates the events of the runs of one session. The ids of tool calls come from models and may be repeated: each call gets an id
/// of its own, which no other object of this class uses.
class AcpUpdates {
public:
    /// `directory`: where relative paths begin.
    explicit AcpUpdates(std::string directory);

    /// Returns the updates for an event, in their order. `model`: that of the run, for the size of its context; may be null.
    std::vector<JsonObject> of(const AgentEvent& event, const Model* model = nullptr);
    /// Returns the updates that repeat a conversation. `prompt_of` returns what the user has entered, if messages of the user have more
    /// than that; null: their texts.
    std::vector<JsonObject> replay(
        const MessageList& messages,
        const std::function<std::string(const Message& message)>& prompt_of = {});

    /// Calls `inserted` once, when the events show that the user's message with this id is in the conversation (empty: the next one).
    void expect(std::string message_id, std::function<void(const std::string& id)> inserted);
    /// Ends an expectation. An id that is not expected is not an error.
    void forget(const std::string& message_id) { expected_.erase(message_id); }

    /// Returns the id of the last call with this id of the model; nothing: no such call was announced.
    std::optional<std::string> id_of(std::string_view tool_call_id) const;
    /// Returns a description of a call, with a new id, for a question about a call that was not announced.
    JsonObject describe(std::string_view tool, const JsonObject& args);
    /// Returns an absolute path.
    std::string absolute(std::string_view path) const;

private:
    JsonObject started(std::string_view call_id, std::string_view tool, const JsonObject& args,
                       std::string_view status);
    std::optional<JsonObject> ended(std::string_view call_id, const AgentToolResult& result,
                                    bool is_error);
    std::optional<JsonObject> used(const AgentEvent& event, const Model* model);
    void began(const Message& message);
    void found(const Message& message);

    const std::string directory_;
    const std::string prefix_;  ///< of ids that are made here
    std::string message_;       ///< the id of the answer in progress
    std::size_t messages_ = 0;
    std::map<std::string, std::function<void(const std::string& id)>> expected_;
    std::size_t calls_ = 0;
    std::map<std::string, std::string, std::less<>> ids_;  ///< of the calls in progress
    double cost_ = 0;
};

/// Returns why a run ended. Failures are not ends: the host throws them.
AcpStop acp_stop_of(const RunResult& result);

}  // namespace cubepi
