#include "local_user.hpp"

#include <array>

#include <pwd.h>
#include <unistd.h>

namespace cubepi::app {

std::string local_user() {
    std::array<char, 4096> text = {};
    struct passwd entry = {};
    struct passwd* found = nullptr;
    const int failed = getpwuid_r(getuid(), &entry, text.data(), text.size(), &found);
    if (failed == 0 && found && entry.pw_name && *entry.pw_name) return entry.pw_name;
    return std::to_string(getuid());
}

}  // namespace cubepi::app
