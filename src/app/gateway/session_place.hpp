#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <bub/channel/delivery_log.hpp>
#include <bub/framework.hpp>
#include <bub/hooks.hpp>
#include <bub/tape/tape_store.hpp>

#include "../config/gateway_settings.hpp"

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

}  // namespace cubepi::app
