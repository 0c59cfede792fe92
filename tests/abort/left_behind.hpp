#pragma once

#include <cstddef>
#include <string>

namespace cubepi::abort_tests {

/// What a process holds on to: open files and sockets, threads, children.
struct Holdings {
    std::size_t files = 0;
    std::size_t threads = 0;
    std::size_t children = 0;
    friend bool operator==(const Holdings&, const Holdings&) = default;
};

Holdings holdings();
std::string describe(const Holdings& holdings);

/// True once the process holds no more than `before`; waits a while for threads and children that are on their way out.
bool back_to(const Holdings& before);

}  // namespace cubepi::abort_tests
