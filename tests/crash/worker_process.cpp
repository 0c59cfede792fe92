#include "worker_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <utility>

extern char** environ;

namespace cubepi::crash_tests {

WorkerProcess::WorkerProcess(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    const int failed =
        posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, words.data(), environ);
    EXPECT_EQ(failed, 0) << arguments.at(1) << " was not started";
    over_ = failed != 0;
}

WorkerProcess::~WorkerProcess() {
    if (over_) return;
    (void)kill(pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
}

void WorkerProcess::note_end(int status) {
    over_ = true;
    ended_.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (ended_.killed) return;
    EXPECT_TRUE(WIFEXITED(status)) << "status " << status;
    ended_.status = WEXITSTATUS(status);
}

Ended WorkerProcess::wait() {
    if (over_) return ended_;
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    note_end(status);
    return ended_;
}

bool WorkerProcess::wait_until_frozen() {
    if (over_) return false;
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    if (WIFSTOPPED(status)) return true;
    note_end(status);
    return false;
}

void WorkerProcess::thaw() { EXPECT_EQ(kill(pid_, SIGCONT), 0); }

Ended run_worker(std::vector<std::string> arguments) {
    return WorkerProcess(std::move(arguments)).wait();
}

std::size_t kill_at_each_step(const std::string& worker,
                              const std::function<void(const Remains&)>& check,
                              std::size_t stride) {
    for (std::size_t step = 1;; step += stride) {
        SCOPED_TRACE("killed at step " + std::to_string(step));
        const TestDirectory directory;
        const Ended ended = run_worker({worker, directory.path().string(), std::to_string(step)});
        if (!ended.killed) {
            EXPECT_EQ(ended.status, 0);
        }
        check(Remains{directory.path(), step, ended.killed});
        if (!ended.killed || ::testing::Test::HasFailure()) return step;
    }
}

int tests_or_worker(int argc, char** argv, const std::map<std::string, Worker>& workers) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto worker = words.empty() ? workers.end() : workers.find(words.front());
    if (worker != workers.end()) return worker->second({words.begin() + 1, words.end()});
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}

}  // namespace cubepi::crash_tests

// Steps.

namespace {

std::atomic<bool> armed = false;
std::atomic<std::size_t> steps = 0;
std::atomic<std::size_t> last_step = 0;
std::function<void(std::size_t)> at_each_step;  // set before it is armed

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

void arm(std::function<void(std::size_t step)> at_step) {
    at_each_step = std::move(at_step);
    armed = true;
}

void disarm() { armed = false; }

void step() {
    if (!armed) return;
    const std::size_t number = ++steps;
    // The function may write files itself.
    thread_local bool is_called = false;
    if (at_each_step && !is_called) {
        is_called = true;
        at_each_step(number);
        is_called = false;
    } else if (number == last_step) {
        (void)raise(SIGKILL);
    }
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
