#include <cubepi/workspace/process/process_tree.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::detail {

namespace {

struct KernelDirectoryEntry {
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[1];
};

bool is_number(const char* text) noexcept {
    if (*text == '\0') return false;
    for (; *text != '\0'; ++text) {
        if (*text < '0' || *text > '9') return false;
    }
    return true;
}

/// Parses the number at `at` and moves `at` after it and the following blank.
std::uint64_t take_number(const char*& at) noexcept {
    std::uint64_t value = 0;
    while (*at == '-') ++at;
    for (; *at >= '0' && *at <= '9'; ++at) value = value * 10 + static_cast<unsigned>(*at - '0');
    while (*at == ' ') ++at;
    return value;
}

/// Parses "PID (NAME) STATE PPID PGRP SESSION ..."; the start time is field 22. The name may contain any characters.
bool parse_stat(const char* text, ListedProcess& process) noexcept {
    const char* name = std::strchr(text, '(');
    const char* name_end = std::strrchr(text, ')');
    if (name == nullptr || name_end == nullptr || name_end[1] != ' ' || name_end[2] == '\0')
        return false;
    std::size_t length = static_cast<std::size_t>(name_end - name - 1);
    if (length >= sizeof(process.name)) length = sizeof(process.name) - 1;
    std::memcpy(process.name, name + 1, length);
    process.name[length] = '\0';
    process.state = name_end[2];
    if (name_end[3] != ' ') return false;
    const char* at = name_end + 4;
    process.parent = static_cast<pid_t>(take_number(at));
    take_number(at);  // process group
    process.session = static_cast<pid_t>(take_number(at));
    constexpr int first_skipped = 7;
    constexpr int start_time = 22;
    for (int field = first_skipped; field < start_time; ++field) take_number(at);
    process.start = take_number(at);
    return true;
}

bool read_process(int proc, const char* pid, ListedProcess& process) noexcept {
    char path[32];
    const std::size_t length = std::strlen(pid);
    constexpr char suffix[] = "/stat";
    if (length + sizeof(suffix) > sizeof(path)) return false;
    std::memcpy(path, pid, length);
    std::memcpy(path + length, suffix, sizeof(suffix));
    const UniqueFd file = open_file(path, O_RDONLY, 0, proc);
    if (!file) return false;
    char text[1024];
    const ssize_t got = ::read(file.get(), text, sizeof(text) - 1);
    if (got <= 0) return false;
    text[got] = '\0';
    const char* at = text;
    process.pid = static_cast<pid_t>(take_number(at));
    return parse_stat(text, process);
}

/// Writes the decimal digits of a pid; `text` has space for 16 characters.
void print_pid(pid_t pid, char* text) noexcept {
    char digits[16];
    std::size_t count = 0;
    auto rest = static_cast<unsigned>(pid);
    do {
        digits[count++] = static_cast<char>('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    for (std::size_t i = 0; i < count; ++i) text[i] = digits[count - 1 - i];
    text[count] = '\0';
}

UniqueFd open_proc() noexcept { return open_file("/proc", O_RDONLY | O_DIRECTORY); }

}  // namespace

ProcessTree::~ProcessTree() {
    if (entries_ != nullptr) ::munmap(entries_, capacity_ * sizeof(ListedProcess));
}

bool ProcessTree::grow() noexcept {
    constexpr std::size_t first = 1024;
    const std::size_t capacity = capacity_ == 0 ? first : capacity_ * 2;
    void* memory = ::mmap(nullptr, capacity * sizeof(ListedProcess), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    if (entries_ != nullptr) {
        std::memcpy(memory, static_cast<const void*>(entries_), count_ * sizeof(ListedProcess));
        ::munmap(entries_, capacity_ * sizeof(ListedProcess));
    }
    entries_ = static_cast<ListedProcess*>(memory);
    capacity_ = capacity;
    return true;
}

bool ProcessTree::add(int proc, const char* pid) noexcept {
    if (count_ == capacity_ && !grow()) return false;
    ListedProcess process;
    if (read_process(proc, pid, process)) entries_[count_++] = process;
    return true;  // a process that exited meanwhile is skipped
}

bool ProcessTree::scan() noexcept {
    count_ = 0;
    const UniqueFd proc = open_proc();
    if (!proc) return false;
    alignas(KernelDirectoryEntry) char buffer[16 * 1024];
    bool good = true;
    for (;;) {
        const long got = ::syscall(SYS_getdents64, proc.get(), buffer, sizeof(buffer));
        if (got <= 0) {
            good = good && got == 0;
            break;
        }
        for (long at = 0; at < got;) {
            const auto* entry = reinterpret_cast<const KernelDirectoryEntry*>(buffer + at);
            at += entry->length;
            if (is_number(entry->name)) good = add(proc.get(), entry->name) && good;
        }
    }
    return good;
}

void ProcessTree::select_descendants(pid_t ancestor) noexcept {
    // The kernel lists processes in the order of their pids.
    const auto selected = [this, ancestor](pid_t pid) {
        if (pid == ancestor) return true;
        const ListedProcess* found = std::lower_bound(
            begin(), end(), pid,
            [](const ListedProcess& process, pid_t number) { return process.pid < number; });
        return found != end() && found->pid == pid && found->selected;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t i = 0; i < count_; ++i) {
            ListedProcess& one = entries_[i];
            if (one.selected || one.pid == ancestor || !selected(one.parent)) continue;
            one.selected = changed = true;
        }
    }
}

void ProcessTree::select_session(pid_t session) noexcept {
    for (std::size_t i = 0; i < count_; ++i) entries_[i].selected = entries_[i].session == session;
}

int send_signal(const ListedProcess& process, int signal) noexcept {
    const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!handle) return errno;
    // The handle refers to one process, so the result of this check also applies to the signal.
    ListedProcess now;
    char pid[16];
    print_pid(process.pid, pid);
    const UniqueFd proc = open_proc();
    const bool same = proc && read_process(proc.get(), pid, now) && now.start == process.start;
    if (!same) return ESRCH;
    return ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0) == 0 ? 0 : errno;
}

}  // namespace cubepi::detail
