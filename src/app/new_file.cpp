#include "new_file.hpp"

#include <cerrno>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::app {

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
