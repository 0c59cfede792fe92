#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/framework.hpp>
#include <bub/hooks.hpp>
#include <bub/tape/tape_store.hpp>

#include "../config/config_file.hpp"
#include "../config/gateway_settings.hpp"
#include "../mcp/mcp_settings.hpp"
#include "../project/project.hpp"

namespace cubepi::app {

/// The directories of a session below the root of the gateway.
struct SessionWorkspace {
    std::filesystem::path directory = {};
    std::filesystem::path earlier = {};  ///< in earlier versions
    bool is_unique = false;              ///< no other session has the name of `earlier`
};

/// Returns the directories of a session: the session id with other characters than letters, digits, '-' and '_' replaced, and 128
/// bits of a digest that keeps apart ids that differ only in those; in earlier versions 32 bits.
SessionWorkspace session_workspace(const std::filesystem::path& root, std::string_view session_id);

/// Returns the directory with the workspaces of the sessions, which may be missing.
std::filesystem::path workspaces_root(const GatewaySettings& settings);

/// Returns the tapes of the database that has a session (DividedTapeStore::of_session()); `tapes` itself if they are not divided.
std::shared_ptr<bub::TapeStore> tapes_of_session(std::shared_ptr<bub::TapeStore> tapes,
                                                 const std::string& session_id);

/// Returns the name of the tape of a session of the gateway: that of its namespace, or the one of an earlier version that it continues
/// (D100). `root`: the directory of the workspaces.
Task<std::string> session_tape(std::shared_ptr<bub::TapeStore> tapes,
                               const GatewaySettings& settings, const std::filesystem::path& root,
                               std::string session_id);

/// Returns a plugin that assigns each session a workspace of its own (B26), created with the mode 0700 at its first use, and a tape
/// that has the same name on all hosts (D100). If the deliveries are in the database of the tapes, turns have the lease of their session
/// (D227). A turn whose session is not in the database of its messages fails (D258).
bub::Plugin gateway_sessions(bub::Framework& framework, const GatewaySettings& settings,
                             const std::shared_ptr<bub::DeliveryLog>& deliveries = {});

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
