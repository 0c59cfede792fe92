#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/builtin.hpp>

#include "../config/config_file.hpp"
#include "../config/gateway_settings.hpp"
#include "../mcp/mcp_settings.hpp"
#include "../project/project.hpp"

namespace cubepi::app {

/// The directory that `cubepi web` serves (D240): its gateway has the web console as its only channel, works in the directory itself,
/// and has the sessions of the terminal there, under the rules of a chat in the mode `ask`.
struct ServedDirectory {
    std::filesystem::path path = {};  ///< canonical
    std::uint16_t port = 0;           ///< of 127.0.0.1; 0: a free one
    bool trusts_files = false;        ///< --trust
    bool viewer = false;              ///< the first link is one of a viewer
    std::string user = {};            ///< of the first link

    std::filesystem::path socket() const;
    std::filesystem::path deliveries() const;
    /// Returns the project of the directory. Blocks.
    Project project(const ConfigFile& config) const;
};

/// Returns the settings of the gateway for the directory: those of the configured gateway that do not concern other users.
GatewaySettings settings_for(const ServedDirectory& directory, GatewaySettings configured);

/// Returns the name of the tape of a session, which is that of the terminal.
std::string tape_in(const std::filesystem::path& directory, std::string_view session_id);
/// Returns true for the tape of a session of the directory, or of one of its sub-agents.
bool is_tape_in(const std::filesystem::path& directory, std::string_view tape);

/// Returns how turns ask the user of the directory: as a chat does in the mode `ask`. Throws Error(invalid_argument) that names a rule
/// that is not one.
bub::TurnQuestions owner_policy(const ServedDirectory& directory, const ConfigFile& config,
                                const ProjectSettings& project,
                                const CommandConfinement& confinement,
                                std::vector<McpServerSettings> servers);

}  // namespace cubepi::app
