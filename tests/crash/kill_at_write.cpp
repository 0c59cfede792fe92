#include "kill_at_write.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<bool> armed = false;
std::atomic<std::size_t> steps = 0;
std::atomic<std::size_t> last_step = 0;

bool is_file(int fd) {
    struct stat info = {};
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

ssize_t plain_write(int fd, const void* bytes, std::size_t size) {
    return syscall(SYS_write, fd, bytes, size);
}

}  // namespace

namespace cubepi::crash_tests {

void arm(std::size_t kill_at) {
    last_step = kill_at;
    armed = true;
}

void disarm() { armed = false; }

void step() {
    if (armed && ++steps == last_step) (void)raise(SIGKILL);
}

void write_without_step(int fd, std::string_view bytes) {
    (void)plain_write(fd, bytes.data(), bytes.size());
}

}  // namespace cubepi::crash_tests

using cubepi::crash_tests::step;

extern "C" ssize_t write(int fd, const void* bytes, std::size_t size) {
    if (!armed || size < 2 || !is_file(fd)) return plain_write(fd, bytes, size);
    step();
    const ssize_t first = plain_write(fd, bytes, size / 2);
    if (first < 0) return first;
    step();
    const auto done = static_cast<std::size_t>(first);
    const ssize_t rest = plain_write(fd, static_cast<const char*>(bytes) + done, size - done);
    step();
    return rest < 0 ? first : first + rest;
}

extern "C" int renameat(int from_directory, const char* from, int to_directory,
                        const char* to) noexcept {
    step();
    const long result = syscall(SYS_renameat, from_directory, from, to_directory, to);
    step();
    return static_cast<int>(result);
}

extern "C" int rename(const char* from, const char* to) noexcept {
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

extern "C" int unlinkat(int directory, const char* path, int flags) noexcept {
    step();
    const long result = syscall(SYS_unlinkat, directory, path, flags);
    step();
    return static_cast<int>(result);
}

extern "C" int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }
