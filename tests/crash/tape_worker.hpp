#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace cubepi::crash_tests {

inline constexpr const char* tape = "w__s";
inline constexpr const char* second_input = "And then?";

/// The file of the text that the process has shown and reported as stored.
inline std::filesystem::path shown_file(const std::filesystem::path& directory) {
    return directory / "shown";
}

/// Two turns of an agent on a tape in `directory`, the first with two calls of a tool. Kills itself at step `kill_at`: before,
/// in the middle of, and after each write to a file, and around each rename and removal. Returns the exit status when
/// there are fewer steps.
int run_tape_worker(const std::filesystem::path& directory, std::size_t kill_at);

/// Reads the tape, which closes the turns of dead processes. Kills itself at step `kill_at`.
int run_tape_reader(const std::filesystem::path& directory, std::size_t kill_at);

/// Appends `turns` turns of three entries each, all with the text `name`.
int run_tape_writer(const std::filesystem::path& directory, const std::string& name, int turns);

/// The exit status of a process whose turn was refused.
inline constexpr int was_refused = 4;
/// Exists while a process sleeps between the end of its run and the merge of its turn.
inline std::filesystem::path before_merge_file(const std::filesystem::path& directory) {
    return directory / "before-merge";
}

/// One turn with a call, under a claim whose lease is over at once. Freezes itself (SIGSTOP) at event `freeze_at` of the run;
/// if there are fewer, after the run and before the merge of the turn. Zero: never. Returns the exit status.
int run_claimed_turn(const std::filesystem::path& directory, const std::string& name,
                     std::size_t freeze_at);

}  // namespace cubepi::crash_tests
