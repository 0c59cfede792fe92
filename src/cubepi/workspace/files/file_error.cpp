#include <cubepi/workspace/files/file_error.hpp>

#include <cerrno>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::detail {

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
