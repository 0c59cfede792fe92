#pragma once

#include <string>
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

}  // namespace cubepi::detail
