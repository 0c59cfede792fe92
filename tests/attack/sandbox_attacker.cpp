// A hostile program: each action is one attempt to reach around a sandbox. Exits with 0 if the attempt succeeded, else with 1 and
// the reason on standard output.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <sched.h>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace {

using Arguments = char**;

bool write_at(int directory, const char* path) {
    const int fd = ::openat(directory, path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    return fd >= 0 && ::write(fd, "evil\n", 5) == 5;
}

bool has_content(const char* path) {
    const int fd = ::open(path, O_RDONLY);
    char byte = 0;
    return fd >= 0 && ::read(fd, &byte, 1) == 1;
}

std::string proc(const char* pid, const char* name) {
    return std::string("/proc/") + pid + "/" + name;
}

sockaddr_un unix_address(std::string_view name, bool is_abstract) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + (is_abstract ? 1 : 0), sizeof(address.sun_path) - 2);
    return address;
}

bool connect_to(const sockaddr_un& address, std::size_t name, int type) {
    const int fd = ::socket(AF_UNIX, type, 0);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name + 1);
    return fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

/// A datagram by a socket of a pair, which exists without a call of socket().
bool send_by_pair(const char* path) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) return false;
    const sockaddr_un address = unix_address(path, false);
    return ::sendto(ends[0], "x", 1, 0, reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)) == 1;
}

sockaddr_in local_address(const char* port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

bool connect_tcp(const char* port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = local_address(port);
    return fd >= 0 &&
           ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// Whether the datagram arrives is for the receiver to say.
bool send_udp(const char* port) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    const sockaddr_in address = local_address(port);
    return fd >= 0 && ::sendto(fd, "evil", 4, 0, reinterpret_cast<const sockaddr*>(&address),
                               sizeof(address)) == 4;
}

/// A question to a name server: evil.example, type A.
bool ask_dns(const char* port) {
    static constexpr char question[] =
        "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04"
        "evil\x07"
        "example\x00\x00\x01\x00\x01";
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    const sockaddr_in address = local_address(port);
    return fd >= 0 && ::sendto(fd, question, sizeof(question) - 1, 0,
                               reinterpret_cast<const sockaddr*>(&address), sizeof(address)) > 0;
}

bool read_memory(const char* pid) {
    // The executable's own first page, wherever it is.
    FILE* const maps = std::fopen(proc(pid, "maps").c_str(), "r");
    unsigned long begin = 0;
    if (!maps || std::fscanf(maps, "%lx", &begin) != 1) return false;
    const int fd = ::open(proc(pid, "mem").c_str(), O_RDONLY);
    char byte = 0;
    return fd >= 0 && ::pread(fd, &byte, 1, static_cast<off_t>(begin)) == 1;
}

bool trace(const char* pid) {
    const pid_t target = std::atoi(pid);
    if (::ptrace(PTRACE_SEIZE, target, nullptr, nullptr) != 0) return false;
    ::ptrace(PTRACE_DETACH, target, nullptr, nullptr);
    return true;
}

/// Returns true if a setuid program of another user changes the effective user.
bool run_setuid(const char* program) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::execl(program, program, "is_user", std::to_string(::getuid()).c_str(), nullptr);
        ::_exit(2);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/// Starts processes until one cannot be started, or `most` run.
bool bomb(const char* most) {
    const int wanted = std::atoi(most);
    for (int i = 0; i < wanted; ++i) {
        const pid_t child = ::fork();
        if (child < 0) return false;
        if (child == 0) {
            ::pause();
            ::_exit(0);
        }
    }
    return true;
}

bool open_terminal() {
    const int fd = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (fd < 0 || ::grantpt(fd) != 0 || ::unlockpt(fd) != 0) return false;
    const char* name = ::ptsname(fd);
    return name && ::open(name, O_RDWR | O_NOCTTY) >= 0;
}

const std::map<std::string_view, std::function<bool(Arguments)>>& actions() {
    static const std::map<std::string_view, std::function<bool(Arguments)>> all = {
        {"write", [](Arguments a) { return write_at(AT_FDCWD, a[0]); }},
        {"read", [](Arguments a) { return has_content(a[0]); }},
        {"truncate", [](Arguments a) { return ::truncate(a[0], 0) == 0; }},
        {"truncate_by_open", [](Arguments a) { return ::open(a[0], O_RDONLY | O_TRUNC) >= 0; }},
        {"unlink", [](Arguments a) { return ::unlink(a[0]) == 0; }},
        {"rename", [](Arguments a) { return ::rename(a[0], a[1]) == 0; }},
        {"exchange",
         [](Arguments a) {
             constexpr unsigned exchange = 2;
             return ::syscall(SYS_renameat2, AT_FDCWD, a[0], AT_FDCWD, a[1], exchange) == 0;
         }},
        {"link", [](Arguments a) { return ::link(a[0], a[1]) == 0; }},
        {"mkdir", [](Arguments a) { return ::mkdir(a[0], 0700) == 0; }},
        {"symlink", [](Arguments a) { return ::symlink(a[0], a[1]) == 0; }},
        {"mknod", [](Arguments a) { return ::mknod(a[0], S_IFCHR | 0600, 0x103) == 0; }},
        {"chmod", [](Arguments a) { return ::chmod(a[0], 0777) == 0; }},
        {"touch", [](Arguments a) { return ::utimensat(AT_FDCWD, a[0], nullptr, 0) == 0; }},
        {"attribute", [](Arguments a) { return ::setxattr(a[0], "user.evil", "x", 1, 0) == 0; }},
        {"write_through_root",
         [](Arguments a) { return write_at(AT_FDCWD, (proc(a[0], "root") + a[1]).c_str()); }},
        {"read_through_root",
         [](Arguments a) { return has_content((proc(a[0], "root") + a[1]).c_str()); }},
        {"read_through_directory",
         [](Arguments a) { return has_content((proc(a[0], "cwd/") + a[1]).c_str()); }},
        {"environment", [](Arguments a) { return has_content(proc(a[0], "environ").c_str()); }},
        {"memory", [](Arguments a) { return read_memory(a[0]); }},
        {"write_own_memory",
         [](Arguments) {
             static volatile char target = 'a';
             const int fd = ::open("/proc/self/mem", O_RDWR);
             const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(&target));
             return fd >= 0 && ::pwrite(fd, "b", 1, at) == 1 && target == 'b';
         }},
        {"trace", [](Arguments a) { return trace(a[0]); }},
        {"read_vm",
         [](Arguments a) {
             char byte = 0;
             iovec local = {&byte, 1};
             iovec remote = {reinterpret_cast<void*>(std::strtoul(a[1], nullptr, 16)), 1};
             return ::process_vm_readv(std::atoi(a[0]), &local, 1, &remote, 1, 0) == 1;
         }},
        {"limit",
         [](Arguments a) {
             rlimit limit = {};
             const pid_t target = std::atoi(a[0]);
             return ::prlimit(target, RLIMIT_CORE, nullptr, &limit) == 0 &&
                    ::prlimit(target, RLIMIT_CORE, &limit, nullptr) == 0;
         }},
        {"signal", [](Arguments a) { return ::kill(std::atoi(a[0]), 0) == 0; }},
        {"abstract",
         [](Arguments a) {
             const std::string_view name(a[0]);
             return connect_to(unix_address(name, true), name.size(), SOCK_STREAM);
         }},
        {"unix",
         [](Arguments a) {
             const std::string_view name(a[0]);
             return connect_to(unix_address(name, false), name.size(), SOCK_STREAM);
         }},
        {"unix_by_pair", [](Arguments a) { return send_by_pair(a[0]); }},
        {"tcp", [](Arguments a) { return connect_tcp(a[0]); }},
        {"udp", [](Arguments a) { return send_udp(a[0]); }},
        {"dns", [](Arguments a) { return ask_dns(a[0]); }},
        {"vsock", [](Arguments) { return ::socket(AF_VSOCK, SOCK_STREAM, 0) >= 0; }},
        {"ring",
         [](Arguments) {
             constexpr long setup = 425;
             char parameters[256] = {};
             return ::syscall(setup, 4, parameters) >= 0;
         }},
        {"mount", [](Arguments a) { return ::mount("none", a[0], "tmpfs", 0, nullptr) == 0; }},
        {"unmount", [](Arguments a) { return ::umount2(a[0], MNT_DETACH) == 0; }},
        {"user_namespace", [](Arguments) { return ::unshare(CLONE_NEWUSER) == 0; }},
        {"clone_namespace",
         [](Arguments) {
             const long child =
                 ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
             if (child == 0) ::_exit(0);
             return child > 0;
         }},
        {"keys",
         [](Arguments) {
             constexpr int session = -3;
             return ::syscall(SYS_keyctl, 0, session, 1) >= 0;
         }},
        {"terminal", [](Arguments a) { return ::open(a[0], O_RDONLY | O_NOCTTY) >= 0; }},
        {"new_terminal", [](Arguments) { return open_terminal(); }},
        {"setuid", [](Arguments a) { return run_setuid(a[0]); }},
        {"is_user", [](Arguments a) { return ::geteuid() == static_cast<uid_t>(std::atoi(a[0])); }},
        {"may_gain_privileges",
         [](Arguments) { return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0; }},
        {"bomb", [](Arguments a) { return bomb(a[0]); }},
    };
    return all;
}

}  // namespace

int main(int count, char** words) {
    constexpr int longest = 2;
    static char none[] = "";
    char* arguments[longest] = {none, none};
    for (int i = 0; i < longest && i + 2 < count; ++i) arguments[i] = words[i + 2];
    const auto action = actions().find(count > 1 ? words[1] : "");
    if (action == actions().end()) {
        std::puts("unknown action");
        return 2;
    }
    errno = 0;
    if (action->second(arguments)) return 0;
    std::printf("%s: %s\n", words[1], std::strerror(errno));
    return 1;
}
