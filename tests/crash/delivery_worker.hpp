#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace cubepi::crash_tests {

/// What the platform has to bring.
inline const std::vector<std::string> updates = {"one", "two", "three", "four"};
/// The exit status of a process that found another one at work.
inline constexpr int found_locked = 3;

inline std::filesystem::path delivery_folder(const std::filesystem::path& folder) {
    return folder / "deliveries";
}
/// The answers that arrived, one a line; those that came again end with "(again)".
inline std::filesystem::path sent_file(const std::filesystem::path& folder) {
    return folder / "sent";
}
/// The updates that the platform will not bring again, one a line.
inline std::filesystem::path confirmed_file(const std::filesystem::path& folder) {
    return folder / "confirmed";
}
std::vector<std::string> lines_of(const std::filesystem::path& file);

/// A gateway that takes in what is not confirmed, answers what it has, and ends. Kills itself at step `kill_at`,
/// and in every turn on the update `deadly`.
int run_delivery_worker(const std::filesystem::path& folder, std::size_t kill_at,
                        const std::string& deadly);

}  // namespace cubepi::crash_tests
