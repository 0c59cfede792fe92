#include "left_behind.hpp"

#include <cubepi/core/runtime.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace cubepi::abort_tests {

namespace {

std::size_t entries(const char* directory) {
    const std::filesystem::directory_iterator begin(directory);
    return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

std::size_t count_children() {
    std::size_t count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream in(task.path() / "children");
        for (long pid = 0; in >> pid;) ++count;
    }
    return count;
}

}  // namespace

Holdings holdings() {
    Holdings now;
    now.files = entries("/proc/self/fd");
    // The pools keep their threads; their number depends on the load of the machine.
    const auto runtime = Runtime::standard();
    const std::size_t pooled =
        runtime->workers->stats().threads + runtime->resolvers->stats().threads;
    const std::size_t all = entries("/proc/self/task");
    now.threads = all > pooled ? all - pooled : 0;
    now.children = count_children();
    return now;
}

std::string describe(const Holdings& holdings) {
    return std::to_string(holdings.files) + " files, " + std::to_string(holdings.threads) +
           " threads, " + std::to_string(holdings.children) + " children";
}

bool back_to(const Holdings& before) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (true) {
        const Holdings now = holdings();
        if (now.files <= before.files && now.threads <= before.threads &&
            now.children <= before.children) {
            return true;
        }
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

}  // namespace cubepi::abort_tests
