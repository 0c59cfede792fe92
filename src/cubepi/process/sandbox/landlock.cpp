#include <cubepi/process/sandbox/landlock.hpp>

#include <algorithm>
#include <cstddef>

#include <sys/syscall.h>
#include <unistd.h>

namespace cubepi::detail {

namespace {

// Numbers that all processors share.
constexpr long create_ruleset = 444;
constexpr long add_rule = 445;
constexpr long restrict_thread = 446;
constexpr unsigned version_only = 1;
constexpr int path_beneath = 1;

struct RulesetAttributes {
    std::uint64_t files = 0;
    std::uint64_t network = 0;  // since version 4
    std::uint64_t scopes = 0;   // since version 6
};

struct [[gnu::packed]] PathAttributes {
    std::uint64_t rights = 0;
    std::int32_t parent = -1;
};

constexpr std::uint64_t right(unsigned bit) { return std::uint64_t{1} << bit; }
constexpr std::uint64_t write_file = right(1);
constexpr std::uint64_t remove_entries = right(4) | right(5);
constexpr std::uint64_t make_devices = right(6) | right(11);
constexpr std::uint64_t make_files = right(7) | right(8) | right(9) | right(10) | right(12);
constexpr std::uint64_t move_between = right(13);
constexpr std::uint64_t truncate_file = right(14);
constexpr std::uint64_t control_device = right(15);
constexpr std::uint64_t all_scopes = 3;  // abstract sockets, signals

}  // namespace

int landlock_version() noexcept {
    const long version = ::syscall(create_ruleset, nullptr, 0, version_only);
    return static_cast<int>(std::max(version, 0L));
}

LandlockRights::LandlockRights(int version) noexcept
    : handled(write_file | remove_entries | make_devices | make_files),
      below_directory(0),
      of_file(0) {
    if (version >= landlock_moves) handled |= move_between;
    if (version >= landlock_truncation) handled |= truncate_file;
    if (version >= landlock_devices) handled |= control_device;
    below_directory = handled & ~make_devices;
    of_file = handled & (write_file | truncate_file | control_device);
}

UniqueFd make_ruleset(int version, std::uint64_t handled) noexcept {
    RulesetAttributes attributes;
    attributes.files = handled;
    std::size_t size = sizeof(attributes.files);
    if (version >= landlock_scopes) {
        attributes.scopes = all_scopes;
        size = sizeof(attributes);
    }
    return UniqueFd(static_cast<int>(::syscall(create_ruleset, &attributes, size, 0)));
}

bool allow_below(int ruleset, int path, std::uint64_t rights) noexcept {
    PathAttributes attributes;
    attributes.rights = rights;
    attributes.parent = path;
    return ::syscall(add_rule, ruleset, path_beneath, &attributes, 0) == 0;
}

bool restrict_self(int ruleset) noexcept { return ::syscall(restrict_thread, ruleset, 0) == 0; }

}  // namespace cubepi::detail
