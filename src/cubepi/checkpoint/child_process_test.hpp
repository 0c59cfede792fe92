#pragma once

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/run.hpp>

// Child processes of the tests of stores, and their work.

namespace cubepi {

/// This program with `--child MODE PATH`, with pipes to its standard input and output.
class Child {
public:
    Child(const std::string& mode, const std::string& path) {
        int input[2];
        int output[2];
        if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
            throw std::runtime_error("pipe");
        pid_ = fork();
        if (pid_ == 0) {
            dup2(input[0], 0);
            dup2(output[1], 1);
            execl("/proc/self/exe", "store-child", "--child", mode.c_str(), path.c_str(), nullptr);
            _exit(127);
        }
        close(input[0]);
        close(output[1]);
        input_ = fdopen(input[1], "w");
        output_ = fdopen(output[0], "r");
    }
    ~Child() {
        kill_and_wait();
        fclose(input_);
        fclose(output_);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    pid_t pid() const {
        const std::lock_guard lock(mutex_);
        return pid_;
    }
    std::string read_line() {
        char text[4096] = {};
        if (!fgets(text, sizeof text, output_)) return {};
        std::string line = text;
        if (!line.empty() && line.back() == '\n') line.pop_back();
        return line;
    }
    void tell(const std::string& line) {
        fputs((line + "\n").c_str(), input_);
        fflush(input_);
    }
    /// Has no effect after wait(). Any thread may call it.
    void kill_now() {
        const std::lock_guard lock(mutex_);
        if (pid_ > 0) ::kill(pid_, SIGKILL);
    }
    int wait() {
        int status = -1;
        const pid_t process = pid();
        if (process <= 0) return status;
        // The process keeps its number until it is reaped below, under the lock.
        siginfo_t info = {};
        while (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) != 0 &&
               errno == EINTR) {
        }
        const std::lock_guard lock(mutex_);
        waitpid(process, &status, 0);
        pid_ = -1;
        return status;
    }
    void kill_and_wait() {
        kill_now();
        wait();
    }

private:
    mutable std::mutex mutex_;
    pid_t pid_ = -1;
    FILE* input_ = nullptr;
    FILE* output_ = nullptr;
};

inline constexpr int appends_per_process = 25;

inline void say(const std::string& line) { std::cout << line << std::endl; }

inline std::string read_line() {
    std::string line;
    std::getline(std::cin, line);
    return line;
}

/// Appends to the thread "t" of a store, which another process does at the same time.
template <class Store>
void append_in_turns(const std::string& place) {
    Store store(place);
    const std::string name = std::to_string(getpid());
    for (int i = 0; i < appends_per_process;) {
        const std::optional<CheckpointData> data = run(store.load("t"));
        AppendOptions options = AppendOptions().expected_position(data ? data->position : 0);
        try {
            run(store.append("t", one(user(name + " " + std::to_string(i))), std::move(options)));
            ++i;
        } catch (const StaleAppendError&) {
            // The other process was faster: load again.
        }
    }
}

}  // namespace cubepi
