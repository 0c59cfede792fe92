#include "session_workspaces.hpp"

#include <string>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include <bub/tape/file/digest.hpp>
#include <bub/turn_state.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::app {

namespace {

constexpr std::size_t longest_name = 60;

bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

void make_directory(const std::filesystem::path& directory) {
    std::error_code failed;
    if (std::filesystem::is_directory(directory, failed)) return;
    std::filesystem::create_directories(directory.parent_path(), failed);
    if (!failed && ::mkdir(directory.c_str(), S_IRWXU) == 0) return;
    if (std::filesystem::is_directory(directory, failed)) return;  // another turn made it
    throw Error(ErrorCode::storage, "cannot create the workspace " + directory.string() +
                                        "; check gateway.root in the configuration file");
}

}  // namespace

std::filesystem::path session_workspace(const std::filesystem::path& root,
                                        std::string_view session_id) {
    std::string name(session_id.substr(0, longest_name));
    for (char& c : name) {
        if (!is_plain(c)) c = '-';
    }
    return root / (name + "-" + bub::detail::sha256_hex(session_id).substr(0, 8));
}

bub::Plugin session_workspaces(std::filesystem::path root) {
    bub::Plugin plugin;
    plugin.name = "session-workspaces";
    plugin.load_state = [root = std::move(root)](bub::LoadStateCall& call) {
        const std::filesystem::path directory = session_workspace(root, call.session_id);
        make_directory(directory);
        JsonObject state;
        state[bub::TurnState::workspace_key] = directory.string();
        return std::optional<JsonObject>(std::move(state));
    };
    return plugin;
}

}  // namespace cubepi::app
