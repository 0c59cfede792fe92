#include "new_file.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>

namespace cubepi::app {

std::ofstream create_file(const std::filesystem::path& path, bool replace) {
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL);
    // What is exported is a conversation: a new file is for this user only. One that is there keeps its mode.
    const int made = ::open(path.c_str(), flags, 0600);
    if (made < 0 && errno == EEXIST)
        throw Error(ErrorCode::invalid_argument, "the file '" + path.string() + "' exists already");
    if (made < 0) {
        throw Error(ErrorCode::io, "cannot write '" + path.string() +
                                       "': " + std::generic_category().message(errno) +
                                       "; check the directory and its permissions");
    }
    ::close(made);
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (!file) throw Error(ErrorCode::io, "cannot write '" + path.string() + "'");
    return file;
}

}  // namespace cubepi::app
