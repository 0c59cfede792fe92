#include <cubepi/workspace/files/file_access.hpp>

#include <cerrno>
#include <deque>
#include <vector>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::detail {

namespace {

constexpr int max_links = 40;
constexpr int max_retries = 64;

std::vector<std::string> components(std::string_view path) {
    std::vector<std::string> parts;
    while (!path.empty()) {
        const auto slash = path.find('/');
        const auto part = path.substr(0, slash);
        if (!part.empty() && part != ".") parts.emplace_back(part);
        path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    }
    return parts;
}

UniqueFd fail(int code) {
    errno = code;
    return UniqueFd();
}

/// Reads the target of the link `name` in `directory`. Returns false if it is not a link (errno EINVAL) or cannot be read.
bool read_link(int directory, const std::string& name, std::string& target) {
    target.resize(4096);
    const auto size = ::readlinkat(directory, name.c_str(), target.data(), target.size());
    if (size < 0) return false;
    target.resize(static_cast<std::size_t>(size));
    return true;
}

/// Opens `name`, which must not be a link (errno ELOOP).
UniqueFd open_no_follow(int directory, const std::string& name, int flags) {
    UniqueFd fd = open_file(name.c_str(), flags | O_NOFOLLOW, 0, directory);
    if (!fd || (flags & O_PATH) == 0) return fd;
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) return UniqueFd();
    return S_ISLNK(info.st_mode) ? fail(ELOOP) : std::move(fd);
}

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

std::string tidy_path(std::string_view path) {
    std::string tidy;
    for (const auto& part : components(path)) {
        if (!tidy.empty()) tidy += '/';
        tidy += part;
    }
    return tidy;
}

UniqueFd open_beneath(int root, const std::string& path, int flags, Links links) {
    open_how how{};
    how.flags = static_cast<unsigned>(flags | O_CLOEXEC | O_NOCTTY);
    if (flags & O_PATH) how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    if (links == Links::refused) how.resolve |= RESOLVE_NO_SYMLINKS;
    const char* target = path.empty() ? "." : path.c_str();
    for (int tries = 0; tries < max_retries; ++tries) {
        const long fd = ::syscall(SYS_openat2, root, target, &how, sizeof how);
        if (fd >= 0) return UniqueFd(static_cast<int>(fd));
        // EAGAIN: a directory was renamed while ".." was resolved. Kernels before 5.6 and some sandboxes do not support the
        // call; a sandbox may return EPERM.
        if (errno == ENOSYS || errno == EPERM) return open_beneath_walk(root, path, flags, links);
        if (errno != EAGAIN && errno != EINTR) return UniqueFd();
    }
    return UniqueFd();
}

UniqueFd open_beneath_walk(int root, const std::string& path, int flags, Links links) {
    std::vector<UniqueFd> directories;
    directories.push_back(open_file(".", O_PATH | O_DIRECTORY, 0, root));
    if (!directories.back()) return UniqueFd();
    auto parts = components(path);
    std::deque<std::string> left(parts.begin(), parts.end());
    int followed = 0;
    int retries = 0;
    std::string target;
    while (!left.empty()) {
        const std::string part = std::move(left.front());
        left.pop_front();
        if (part == "..") {
            if (directories.size() == 1) return fail(EXDEV);
            directories.pop_back();
            continue;
        }
        const int directory = directories.back().get();
        if (read_link(directory, part, target)) {
            if (links == Links::refused || ++followed > max_links) return fail(ELOOP);
            if (target.starts_with('/')) return fail(EXDEV);
            parts = components(target);
            left.insert(left.begin(), parts.begin(), parts.end());
            continue;
        }
        if (errno != EINVAL) return UniqueFd();
        const bool last = left.empty();
        UniqueFd next = open_no_follow(directory, part, last ? flags : O_PATH | O_DIRECTORY);
        if (!next && (errno == ELOOP || errno == ENOTDIR) && ++retries < max_retries) {
            // Either it is not a directory, or another process replaced it by a link after the check.
            if (errno == ELOOP || read_link(directory, part, target)) {
                left.push_front(part);
                continue;
            }
            return fail(ENOTDIR);
        }
        if (!next || last) return next;
        directories.push_back(std::move(next));
    }
    return open_file(".", flags, 0, directories.back().get());
}

UniqueFd open_parent_beneath(int root, const std::string& path, bool create, std::string& name,
                             Links links) {
    const std::string tidy = tidy_path(path);
    const auto slash = tidy.rfind('/');
    name = slash == std::string::npos ? tidy : tidy.substr(slash + 1);
    if (name.empty() || name == "..") return fail(EISDIR);
    const std::string parent = slash == std::string::npos ? std::string() : tidy.substr(0, slash);
    constexpr int flags = O_PATH | O_DIRECTORY;
    UniqueFd directory = open_beneath(root, parent, flags, links);
    if (directory || errno != ENOENT || !create) return directory;

    directory = open_beneath(root, "", flags);
    std::string done;
    for (const auto& part : components(parent)) {
        if (!directory) return directory;
        done += done.empty() ? part : "/" + part;
        UniqueFd next = open_beneath(root, done, flags, links);
        if (!next && errno == ENOENT) {
            if (::mkdirat(directory.get(), part.c_str(), 0777) != 0 && errno != EEXIST)
                return UniqueFd();
            next = open_no_follow(directory.get(), part, flags);
        }
        directory = std::move(next);
    }
    return directory;
}

bool check_replaceable(int directory, const std::string& name, const std::string& path) {
    bool exists = false;
    replaced_file(directory, name, path, exists);
    if (::faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) != 0)
        throw_file_error("write", path, errno);
    return exists;
}

bool atomic_write(int directory, const std::string& name, std::string_view content,
                  const std::string& path, std::optional<unsigned> mode) {
    bool exists = false;
    const struct stat old = replaced_file(directory, name, path, exists);

    const std::string temporary = ".cubepi-" + RandomIds().next() + ".tmp";
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    UniqueFd fd = open_file(temporary.c_str(), flags, exists ? 0600 : 0666, directory);
    ReplacementFile file(std::move(fd), temporary, directory);
    const bool done = file && write_all(file.get(), content) &&
                      (!exists || take_over(file.get(), old)) &&
                      (!mode || ::fchmod(file.get(), *mode & 07777) == 0) && file.replace(name);
    if (!done) throw_file_error("write", path, errno);
    return !exists;
}

void make_private_directory(const std::filesystem::path& directory) {
    std::error_code code;
    std::filesystem::create_directories(directory.parent_path(), code);
    if (code)
        throw_file_error("create the directory", directory.parent_path().string(), code.value());
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
        throw_file_error("create the directory", directory.string(), errno);
    struct stat info{};
    if (::lstat(directory.c_str(), &info) != 0)
        throw_file_error("access", directory.string(), errno);
    if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
        throw Error(
            ErrorCode::permission_denied,
            directory.string() +
                " is accessible to other users. Choose another directory, or run chmod 700 on it.");
    }
}

void throw_file_error(const std::string& action, const std::string& path, int errno_code) {
    const std::string what = "Cannot " + action + " " + (path.empty() ? "." : path) + ": ";
    switch (errno_code) {
        case ENOENT:
            throw Error(ErrorCode::not_found, what +
                                                  "there is no such file or directory. List the "
                                                  "parent directory to see its entries.");
        case ENOTDIR:
            throw Error(ErrorCode::not_found,
                        what + "it, or a part of the path, is not a directory.");
        case EISDIR:
            throw Error(ErrorCode::invalid_argument,
                        what + "it is a directory, not a file. List it instead.");
        case EACCES:
        case EPERM:
        case EROFS:
            throw Error(ErrorCode::permission_denied,
                        what + "the operating system denies it (" + errno_text(errno_code) + ").");
        case ELOOP:
            throw Error(ErrorCode::permission_denied,
                        what + "too many symbolic links, or a cycle of links.");
        case ENOSPC:
        case EDQUOT:
            throw Error(ErrorCode::storage_full,
                        what + "no space left on the device. The file is unchanged.");
        case ENAMETOOLONG: throw Error(ErrorCode::invalid_argument, what + "the name is too long.");
        case ENOTEMPTY:
            throw Error(ErrorCode::invalid_argument, what + "the directory is not empty.");
        case EMFILE:
        case ENFILE:
            throw Error(ErrorCode::io,
                        what + "too many files are open. Raise the limit (ulimit -n).");
        default: throw Error(ErrorCode::io, what + errno_text(errno_code) + ".");
    }
}

}  // namespace cubepi::detail
