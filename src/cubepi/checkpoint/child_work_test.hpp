// The work of child processes in the tests of all stores.
#pragma once

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi {

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
