#pragma once

#include <cstddef>
#include <string>

namespace cubepi::abort_tests {

/// The resources of a process: open files and sockets, threads, children.
struct Holdings {
    std::size_t files = 0;
    std::size_t threads = 0;
    std::size_t children = 0;
    friend bool operator==(const Holdings&, const Holdings&) = default;
};

Holdings holdings();
std::string describe(const Holdings& holdings);

/// True when the process holds no more resources than `before`; waits a while for threads and children that are exiting.
bool back_to(const Holdings& before);

}  // namespace cubepi::abort_tests
