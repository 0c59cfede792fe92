#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/acp/agent.hpp>
#include <cubepi/core/json.hpp>

// The messages of the editor as values, and the values of the agent as messages. All that comes from an editor is checked here.

namespace cubepi::detail {

/// Throws AcpError(invalid_params) that names the member.
std::string required_text(const JsonObject& params, std::string_view key);
AcpSetup read_setup(const JsonObject& params);
AcpPrompt read_prompt(const JsonObject& params, bool images);
AcpEditorInfo read_editor(const JsonObject& params);

JsonObject initialize_result(const AcpAbilities& abilities);
JsonObject agent_info(const AcpAbilities& abilities);
/// Adds `modes` of a session.
void add_modes(JsonObject& result, const AcpSession& session);
JsonArray options_json(const std::vector<AcpOption>& options);
JsonObject list_result(const AcpSessionList& list);

// Version 2 of the protocol, as in the draft of the official SDK 2.4.0 (schema/v2/schema.json). Hosts know the messages of version 1 only;
// they are translated here (D246).

AcpEditorInfo read_editor_two(const JsonObject& params, bool strict);
JsonObject initialize_result_two(const AcpAbilities& abilities);

/// Returns an update of version 1 in the form of version 2; nothing: version 2 has no such update.
std::optional<JsonObject> update_two(JsonObject update);
/// Returns the description of a call, or a part of it, in the form of version 2.
JsonObject tool_call_two(JsonObject call);
/// Returns a content block of a call with a change of a file. `hunks`: of a unified diff with true line numbers; empty: unknown.
JsonObject diff_two(const std::string& path, std::string_view hunks, bool is_new);
JsonArray options_two(JsonArray options);

/// Returns true if a request to resume a session asks for its messages. Throws AcpError(invalid_params) for a cursor that is unknown.
bool replays_from_start(const JsonObject& params);
/// Checks what version 2 adds to parameters that read_setup() has accepted. Throws AcpError(invalid_params).
void check_servers_two(const JsonObject& params);
void check_option_two(const JsonObject& params);

/// Returns the state of the foreground work of a session as an update: "idle", "running", "requires_action".
JsonObject state_update(std::string_view state);
JsonObject user_message_update(std::string_view id, JsonArray content);

}  // namespace cubepi::detail
