#include <cubepi/agent/claim_owner.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <deque>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace cubepi {

namespace {

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string host_name() {
    char name[256] = {};
    if (gethostname(name, sizeof name - 1) != 0) return "localhost";
    return name;
}

constexpr std::string_view machine_key = " machine:";

/// Returns what distinguishes machines with the same host name; empty if this one has no id. Its first digits,
/// because the id as a whole is confidential.
std::string machine() {
    constexpr std::size_t digits = 8;
    const std::string id = first_line("/etc/machine-id");
    if (id.empty() || id == "uninitialized") return {};
    return std::string(machine_key) + id.substr(0, digits);
}

/// Returns the name of the group of processes that can see each other: pids of another namespace are meaningless here,
/// even if the host name is the same.
std::string process_space() {
    constexpr std::string_view machine = "pid:[4026531836]";
    char target[64] = {};
    const auto size = readlink("/proc/self/ns/pid", target, sizeof target - 1);
    const std::string_view name(target, size > 0 ? static_cast<std::size_t>(size) : 0);
    return name.empty() || name == machine ? std::string() : " " + std::string(name);
}

struct ProcessStat {
    char state = '?';
    std::int64_t start = 0;
};

std::optional<ProcessStat> process_stat(std::int64_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    if (!file) return std::nullopt;
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    // The program's name, in parentheses, may contain any character; the fields after it are numbers.
    const auto name_end = text.rfind(')');
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream fields(text.substr(name_end + 1));
    ProcessStat stat;
    std::string skipped;
    fields >> stat.state;
    constexpr int state_field = 3;
    constexpr int start_field = 22;
    for (int field = state_field + 1; field < start_field; ++field) fields >> skipped;
    fields >> stat.start;
    if (!fields) return std::nullopt;
    return stat;
}

ClaimOwner make_owner(std::int64_t pid) {
    ClaimOwner owner;
    const std::string name = host_name();
    owner.host = name + machine() + process_space();
    owner.boot_id = first_line("/proc/sys/kernel/random/boot_id");
    owner.pid = pid;
    if (const auto stat = process_stat(pid)) owner.process_start = stat->start;
    owner.description = "pid " + std::to_string(pid) + " on " + name + process_space();
    owner.owner_id = owner.host + "/" + owner.boot_id + "/" + std::to_string(pid) + "/" +
                     std::to_string(owner.process_start);
    return owner;
}

/// The owners of this process that ended with a claim in a store.
class EndedOwners {
public:
    void add(std::string owner_id) {
        const std::lock_guard lock(mutex_);
        if (ids_.size() >= limit) ids_.pop_front();
        ids_.push_back(std::move(owner_id));
    }
    bool contains(const std::string& owner_id) const {
        const std::lock_guard lock(mutex_);
        return std::find(ids_.begin(), ids_.end(), owner_id) != ids_.end();
    }

private:
    static constexpr std::size_t limit = 4096;
    mutable std::mutex mutex_;
    std::deque<std::string> ids_;
};

EndedOwners& ended_owners() {
    static EndedOwners owners;
    return owners;
}

}  // namespace

void note_ended_owner(std::string owner_id) { ended_owners().add(std::move(owner_id)); }

ClaimOwner current_process_owner() {
    static std::mutex mutex;
    static ClaimOwner owner;
    const std::int64_t pid = getpid();
    const std::lock_guard lock(mutex);
    if (owner.pid != pid) owner = make_owner(pid);
    return owner;
}

bool is_dead_owner(const ClaimOwner& owner) {
    if (owner.pid <= 0 || owner.host.empty()) return false;
    const ClaimOwner here = current_process_owner();
    if (owner.host != here.host) return false;
    // Without an id of the machine it may be another one with the same name, and so may a container, whose id may be that of its image.
    if (owner.boot_id != here.boot_id) return !machine().empty() && process_space().empty();
    if (owner.pid == here.pid && owner.process_start == here.process_start)
        return ended_owners().contains(owner.owner_id);
    const auto stat = process_stat(owner.pid);
    if (!stat) {
        // Unreadable does not mean that the process has ended: /proc may hide the processes of other users.
        return kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH;
    }
    return stat->state == 'Z' || stat->state == 'X' || stat->start != owner.process_start;
}

}  // namespace cubepi
