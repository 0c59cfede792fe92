#pragma once

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/core/task.hpp>

// Queries about processes, for tests.

namespace cubepi {

/// Zombies do not count as running: the process that inherits an orphan may reap it late.
inline bool is_running(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    if (!std::getline(file, line)) return false;
    const auto end = line.rfind(") ");
    return end != std::string::npos && line[end + 2] != 'Z' && line[end + 2] != 'X';
}

inline bool has_children() {
    siginfo_t info{};
    return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

inline std::size_t open_files() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        ++count;
    return count;
}

/// Yields to other handlers until `condition` holds.
inline Task<> until(std::function<bool()> condition) {
    while (!condition()) co_await yield_now();
}

inline std::function<bool()> exists(std::string path) {
    return [path = std::move(path)] { return std::filesystem::exists(path); };
}

/// Waits for the end of a killed process that is not a child of this one.
inline void expect_gone(pid_t pid) {
    for (int i = 0; i < 100000 && is_running(pid); ++i) ::usleep(100);
    EXPECT_FALSE(is_running(pid)) << pid;
}

}  // namespace cubepi
