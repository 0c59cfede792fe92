#include <cubepi/workspace/files/atomic_write.hpp>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/workspace/files/file_error.hpp>

namespace cubepi::detail {

namespace {

bool take_over(int fd, const struct stat& old) {
    // The owner first: changing it clears the set-user-id bits. Only root may change it; for other users this has no effect.
    if ((old.st_uid != ::geteuid() || old.st_gid != ::getegid()) &&
        ::fchown(fd, old.st_uid, old.st_gid) != 0 && errno != EPERM) {
        return false;
    }
    return ::fchmod(fd, old.st_mode & 07777) == 0;
}

/// The status of the file to be replaced; `exists` is false if there is none.
struct stat replaced_file(int directory, const std::string& name, const std::string& path,
                          bool& exists) {
    struct stat old{};
    exists = ::fstatat(directory, name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (!exists && errno != ENOENT) throw_file_error("write", path, errno);
    if (exists && S_ISDIR(old.st_mode)) throw_file_error("write", path, EISDIR);
    if (exists && !S_ISREG(old.st_mode)) {
        throw Error(ErrorCode::invalid_argument,
                    path + " is not a regular file and cannot be replaced.");
    }
    // A rename requires no permission on the file itself, but a read-only file is read-only on purpose.
    if (exists && ::faccessat(directory, name.c_str(), W_OK, AT_EACCESS) != 0)
        throw_file_error("write", path, errno);
    return old;
}

}  // namespace

bool check_replaceable(int directory, const std::string& name, const std::string& path) {
    bool exists = false;
    replaced_file(directory, name, path, exists);
    if (::faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) != 0)
        throw_file_error("write", path, errno);
    return exists;
}

bool atomic_write(int directory, const std::string& name, std::string_view content,
                  const std::string& path) {
    bool exists = false;
    const struct stat old = replaced_file(directory, name, path, exists);

    const std::string temporary = ".cubepi-" + RandomIds().next() + ".tmp";
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    UniqueFd fd = open_file(temporary.c_str(), flags, exists ? 0600 : 0666, directory);
    ReplacementFile file(std::move(fd), temporary, directory);
    const bool done = file && write_all(file.get(), content) &&
                      (!exists || take_over(file.get(), old)) && file.replace(name);
    if (!done) throw_file_error("write", path, errno);
    return !exists;
}

}  // namespace cubepi::detail
