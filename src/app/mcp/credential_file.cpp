#include "credential_file.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "../config/paths.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t max_file_bytes = 64 * 1024;
constexpr auto lock_limit = std::chrono::seconds(30);
constexpr auto lock_pause = std::chrono::milliseconds(50);

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason,
                         ErrorCode code = ErrorCode::io) {
    throw Error(code, path.string() + ": " + reason);
}

/// Returns nothing if the file does not exist.
std::optional<std::string> read_file(const std::filesystem::path& path, int flags) {
    const detail::UniqueFd fd = detail::open_file(path.c_str(), O_RDONLY | O_NONBLOCK | flags);
    if (!fd && errno == ENOENT) return std::nullopt;
    struct stat status = {};
    if (!fd || ::fstat(fd.get(), &status) != 0) refuse(path, detail::errno_text(errno));
    const std::string_view kind = detail::kind_if_not_regular(status.st_mode);
    if (!kind.empty()) refuse(path, "is " + std::string(kind));
    std::string text(max_file_bytes + 1, '\0');
    const std::optional<std::size_t> size = detail::read_at(fd.get(), 0, text.data(), text.size());
    if (!size) refuse(path, detail::errno_text(errno));
    if (*size > max_file_bytes) refuse(path, "is too large");
    text.resize(*size);
    return text;
}

McpCredentials read_credentials(const std::filesystem::path& path, const std::string& server,
                                const std::string& url) {
    const std::optional<std::string> text = read_file(path, O_NOFOLLOW);
    if (!text) return {};
    try {
        const Json json = parse_json(*text);
        if (!json.is_object()) throw Error(ErrorCode::parse, "it is not an object");
        const JsonObject& object = json.get_object();
        const JsonObject* credentials = detail::object_member(object, "credentials");
        if (!credentials || detail::string_member(object, "url") != url) return {};
        return mcp_credentials_from_json(*credentials);
    } catch (const Error&) {
        // The error of the reader could contain a part of the file.
        refuse(path,
               "is damaged; log in again: cubepi mcp logout " + server + " && cubepi mcp login " +
                   server,
               ErrorCode::storage_corrupt);
    }
}

void write_credentials(const std::filesystem::path& path, const std::string& url,
                       const McpCredentials& credentials) {
    make_private_directory(path, "XDG_DATA_HOME");
    JsonObject json;
    json["url"] = url;
    json["credentials"] = to_json(credentials);
    std::string fresh = path.string() + ".XXXXXX";
    detail::UniqueFd fd(::mkostemp(fresh.data(), O_CLOEXEC));  // 0600
    detail::ReplacementFile file(std::move(fd), fresh);
    const bool is_done = file && detail::write_all(file.get(), json_text(json)) &&
                         detail::sync_file(file.get()) && file.replace(path);
    if (!is_done) refuse(path, "cannot be written: " + detail::errno_text(errno));
}

class CredentialFile final : public McpCredentialStore {
public:
    CredentialFile(std::string server, std::string url, std::shared_ptr<const Runtime> runtime)
        : server_(std::move(server)),
          path_(mcp_credentials_path(server_)),
          url_(std::move(url)),
          runtime_(std::move(runtime)) {}

    Task<McpCredentials> load() override {
        const std::shared_ptr<const Runtime> runtime = runtime_;
        auto work = [path = path_, server = server_, url = url_] {
            return read_credentials(path, server, url);
        };
        co_return co_await offload(*runtime->workers, std::move(work));
    }

    Task<> save(McpCredentials credentials) override {
        const std::shared_ptr<const Runtime> runtime = runtime_;
        auto work = [path = path_, url = url_, credentials = std::move(credentials)] {
            write_credentials(path, url, credentials);
        };
        co_await offload(*runtime->workers, std::move(work));
    }

    /// Waits without blocking the event loop, and not for long: the lock only spares a login.
    Task<std::shared_ptr<void>> lock() override {
        const std::shared_ptr<const Runtime> runtime = runtime_;
        make_private_directory(path_, "XDG_DATA_HOME");
        const std::filesystem::path path = path_.string() + ".lock";
        auto held = std::make_shared<detail::UniqueFd>(
            detail::open_file(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW));
        if (!*held) refuse(path, "cannot be opened: " + detail::errno_text(errno));
        const Clock::time_point end = deadline_after(runtime->clock->now(), lock_limit);
        while (!detail::try_flock(held->get(), detail::LockKind::exclusive)) {
            if (errno != EWOULDBLOCK || runtime->clock->now() >= end) break;
            co_await runtime->clock->sleep_for(lock_pause);
        }
        co_return held;
    }

private:
    const std::string server_;
    const std::filesystem::path path_;
    const std::string url_;
    const std::shared_ptr<const Runtime> runtime_;
};

}  // namespace

std::shared_ptr<McpCredentialStore> credential_file(const std::string& server,
                                                    const std::string& url,
                                                    std::shared_ptr<const Runtime> runtime) {
    return std::make_shared<CredentialFile>(server, url, std::move(runtime));
}

bool remove_credential_file(const std::string& server) {
    const std::filesystem::path path = mcp_credentials_path(server);
    if (::unlink(path.c_str()) == 0) return true;
    if (errno == ENOENT) return false;
    refuse(path, "cannot be removed: " + detail::errno_text(errno));
}

std::string read_small_file(const std::filesystem::path& path) {
    std::optional<std::string> text = read_file(path, 0);
    if (!text) refuse(path, "does not exist");
    return std::move(*text);
}

}  // namespace cubepi::app
