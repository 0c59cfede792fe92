#pragma once

#include <cstddef>
#include <string_view>

// This program's own write, rename and unlink, so that it can die at each of them: before, in the middle of, and after a
// write to a file, and around a rename and a removal.

namespace cubepi::crash_tests {

/// From now on steps are counted; the process kills itself at step `kill_at`. Zero: it lives.
void arm(std::size_t kill_at);
void disarm();
/// A step that is no write of a file.
void step();
/// What a test writes down for itself, which is no step.
void write_without_step(int fd, std::string_view bytes);

}  // namespace cubepi::crash_tests
