#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>

namespace cubepi::crash_tests {

/// A file with one character for each time that the tool has run.
inline std::filesystem::path effects_file(const std::filesystem::path& directory) {
    return directory / "effects";
}
/// A file with one character for each approval, written before it is given.
inline std::filesystem::path approvals_file(const std::filesystem::path& directory) {
    return directory / "approvals";
}
void add_to(const std::filesystem::path& file);

/// The store of the tapes in `directory`, as a process opens it.
std::shared_ptr<bub::TapeCheckpointer> open_tapes(const std::filesystem::path& directory);

/// Sets a tool `rm` whose effect is counted.
std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> count_effects(
    std::filesystem::path directory);

/// A question in a thread; `timeout` 0: without a timeout.
HitlRequest question(const std::string& thread_id, double created_at, double timeout);

/// One run with an approved call. `way` is what happens to its question: "approved" or "denied" while the run waits, or
/// "suspended": the run is suspended, and another agent approves. Kills itself at step `kill_at`, with the steps of
/// kill_at_write.hpp and one before and one after the effect. Returns the exit status.
int run_approval_worker(const std::filesystem::path& directory, const std::string& way,
                        std::size_t kill_at);

/// Asks, answers, expires and discards requests of several tapes. Kills itself at step `kill_at`.
int run_inbox_worker(const std::filesystem::path& directory, std::size_t kill_at);

/// The exit status of a process whose answer came too late.
inline constexpr int was_stale = 5;

/// Freezes itself (SIGSTOP), then answers the question of thread "t" in the name of `user`. Returns the exit status.
int run_answer_worker(const std::filesystem::path& directory, const std::string& user);

/// Freezes itself (SIGSTOP), then approves the call of the suspended run of thread "t" and continues it. Returns the exit
/// status.
int run_respond_worker(const std::filesystem::path& directory);

}  // namespace cubepi::crash_tests
