#include <cubepi/core/support/regular_file.hpp>

#include <sys/stat.h>

namespace cubepi::detail {

std::string_view kind_if_not_regular(unsigned mode) noexcept {
    switch (mode & S_IFMT) {
        case S_IFREG: return {};
        case S_IFDIR: return "a directory";
        case S_IFIFO: return "a pipe";
        case S_IFSOCK: return "a socket";
        case S_IFCHR:
        case S_IFBLK: return "a device";
        default: return "not a regular file";
    }
}

std::string_view kind_if_not_regular(const std::filesystem::path& path) noexcept {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 ? kind_if_not_regular(info.st_mode)
                                            : std::string_view();
}

}  // namespace cubepi::detail
