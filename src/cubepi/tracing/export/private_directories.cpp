#include <cubepi/tracing/export/private_directories.hpp>

#include <sys/stat.h>

namespace cubepi::detail {

void make_private_directories(const std::filesystem::path& path) {
    std::filesystem::path built;
    for (const auto& part : path) {
        built /= part;
        ::mkdir(built.c_str(), 0700);
    }
}

}  // namespace cubepi::detail
