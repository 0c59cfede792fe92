#pragma once

#include <cstddef>
#include <string_view>

// Replacements of write, rename, renameat, unlink and unlinkat that can kill this program: before, in the middle of, and after a
// write to a file, and before and after a rename and a removal.

namespace cubepi::crash_tests {

/// Starts counting steps; the process kills itself at step `kill_at`, unless it is zero.
void arm(std::size_t kill_at);
void disarm();
/// A step other than a write to a file.
void step();
/// A note of the test itself, which is not a step.
void write_without_step(int fd, std::string_view bytes);

}  // namespace cubepi::crash_tests
