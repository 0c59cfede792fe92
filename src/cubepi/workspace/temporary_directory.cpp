#include <cubepi/workspace/temporary_directory.hpp>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/workspace/files/file_access.hpp>

namespace cubepi {

namespace {

/// The process of a younger directory may not have locked it yet.
constexpr std::chrono::seconds youngest_abandoned(60);

detail::UniqueFd open_directory(const std::filesystem::path& path) {
    return detail::open_file(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

/// Whether `path` is a directory of this user that no process has locked. If so, locks it through `directory`.
bool is_abandoned(const std::filesystem::path& path, detail::UniqueFd& directory) {
    directory = open_directory(path);
    if (!directory) return false;
    struct stat info{};
    if (::fstat(directory.get(), &info) != 0 || info.st_uid != ::geteuid()) return false;
    const auto age = std::chrono::seconds(std::time(nullptr) - info.st_mtime);
    return age >= youngest_abandoned &&
           detail::try_flock(directory.get(), detail::LockKind::exclusive);
}

void remove_abandoned(const std::filesystem::path& base, const std::string& prefix) {
    std::error_code failed;
    for (std::filesystem::directory_iterator one(base, failed), end; !failed && one != end;
         one.increment(failed)) {
        if (!one->path().filename().string().starts_with(prefix)) continue;
        detail::UniqueFd directory;
        std::error_code ignored;
        if (is_abandoned(one->path(), directory)) std::filesystem::remove_all(one->path(), ignored);
    }
}

}  // namespace

TemporaryDirectory::TemporaryDirectory(std::string_view kind) {
    std::error_code ignored;
    std::filesystem::path base = std::filesystem::temp_directory_path(ignored);
    if (ignored) base = "/tmp";
    const std::string prefix = "cubepi-" + std::string(kind) + "-";
    remove_abandoned(base, prefix);
    std::string name = (base / (prefix + "XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr) {
        detail::throw_file_error("create a temporary directory in", base.string(), errno);
    }
    path_ = name;
    detail::UniqueFd directory = open_directory(path_);
    // If the file system does not support locks, stale directories remain.
    if (directory && detail::try_flock(directory.get(), detail::LockKind::exclusive))
        lock_ = directory.release();
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    if (lock_ >= 0) ::close(lock_);
}

}  // namespace cubepi
