#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace cubepi::crash_tests {

/// The exit status of a process that found another one at work.
inline constexpr int found_locked = 3;

/// A gateway that takes in what is not confirmed, answers what it has, and ends. Kills itself at step `kill_at`,
/// and in every turn on the update `deadly`.
int run_delivery_worker(const std::filesystem::path& directory, std::size_t kill_at,
                        const std::string& deadly);

}  // namespace cubepi::crash_tests
