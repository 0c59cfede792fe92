#include "paths.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::app {

namespace {

std::filesystem::path base(const char* variable, const char* below_home) {
    if (const char* value = std::getenv(variable); value && *value == '/') return value;
    return bub::home_directory() / below_home;
}

}  // namespace

std::filesystem::path config_path() {
    return base("XDG_CONFIG_HOME", ".config") / "cubepi" / "config.yaml";
}

std::filesystem::path sessions_path() {
    return base("XDG_DATA_HOME", ".local/share") / "cubepi" / "sessions.db";
}

std::filesystem::path mcp_credentials_path(const std::string& server) {
    return base("XDG_DATA_HOME", ".local/share") / "cubepi" / "mcp" / (server + ".json");
}

std::filesystem::path history_path() {
    std::filesystem::path path = base("XDG_STATE_HOME", ".local/state") / "cubepi" / "history";
    try {
        make_private_directory(path, "XDG_STATE_HOME");
    } catch (const Error&) {
        return {};
    }
    return path;
}

std::filesystem::path checkpoints_path() {
    return base("XDG_STATE_HOME", ".local/state") / "cubepi" / "checkpoints";
}

std::filesystem::path trust_directory() {
    return base("XDG_STATE_HOME", ".local/state") / "cubepi" / "trust";
}

std::filesystem::path gateway_root() {
    return base("XDG_DATA_HOME", ".local/share") / "cubepi" / "gateway";
}

std::filesystem::path gateway_socket() {
    return bub::default_tape_directory().parent_path() / "gateway.sock";
}

std::filesystem::path served_directory_files(const std::filesystem::path& directory) {
    // Paths of sockets are short.
    const std::string name = detail::sha256_hex(directory.string()).substr(0, 32);
    return bub::default_tape_directory().parent_path() / "web" / name;
}

std::filesystem::path expand_home(const std::filesystem::path& path) {
    const std::string text = path.string();
    const char* const home = std::getenv("HOME");
    if (!home || !*home || !text.starts_with("~/")) return path;
    return std::filesystem::path(home) / text.substr(2);
}

void make_private_directory(const std::filesystem::path& file, const std::string& variable) {
    const std::filesystem::path directory = file.parent_path();
    std::error_code failed;
    if (std::filesystem::is_directory(directory, failed)) return;
    std::filesystem::create_directories(directory, failed);
    if (failed) {
        throw Error(ErrorCode::storage, "cannot create the directory " + directory.string() + ": " +
                                            failed.message() + "; create it, or point " + variable +
                                            " to a writable directory");
    }
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, failed);
}

std::ofstream create_file(const std::filesystem::path& path, bool replace) {
    const int flags = O_WRONLY | O_CREAT | (replace ? O_TRUNC : O_EXCL);
    // The export is a conversation: a new file is only for this user. An existing file keeps its mode.
    const detail::UniqueFd made = detail::open_file(path.c_str(), flags);
    if (!made && errno == EEXIST)
        throw Error(ErrorCode::invalid_argument, "the file '" + path.string() + "' exists already");
    if (!made) {
        throw Error(ErrorCode::io, "cannot write '" + path.string() +
                                       "': " + detail::errno_text(errno) +
                                       "; check the directory and its permissions");
    }
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (!file) throw Error(ErrorCode::io, "cannot write '" + path.string() + "'");
    return file;
}

}  // namespace cubepi::app
