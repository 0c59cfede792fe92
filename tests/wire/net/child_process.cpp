#include "child_process.hpp"

#include <cerrno>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace cubepi::wire {

ChildProcess::ChildProcess(std::vector<std::string> arguments) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0)
        throw std::runtime_error("no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int code = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = out[0];
    if (code != 0) throw std::runtime_error("cannot start " + arguments[0]);
}

ChildProcess::~ChildProcess() {
    wait();
    ::close(out_);
}

std::string ChildProcess::read_line() {
    std::size_t end = 0;
    while ((end = buffer_.find('\n')) == std::string::npos) {
        char bytes[4096];
        const ssize_t count = ::read(out_, bytes, sizeof(bytes));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return std::exchange(buffer_, {});
        buffer_.append(bytes, static_cast<std::size_t>(count));
    }
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
}

void ChildProcess::write_line(const std::string& line) {
    const std::string text = line + "\n";
    if (::write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        throw std::runtime_error("child is gone");
}

int ChildProcess::wait() {
    if (pid_ < 0) return -1;
    ::close(in_);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void run_program(std::vector<std::string> arguments) {
    const std::string name = arguments[0];
    ChildProcess child(std::move(arguments));
    if (child.wait() != 0) throw std::runtime_error(name + " failed");
}

}  // namespace cubepi::wire
