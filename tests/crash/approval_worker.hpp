#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <cubepi/agent/question_store.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>

// Processes with a gated tool call on a store in a directory, for stores of any kind.

namespace cubepi::crash_tests {

/// Opens the store in a directory, as a new process does. It has all interfaces of a store.
using OpenStore =
    std::function<std::shared_ptr<Checkpointer>(const std::filesystem::path& directory)>;

HitlStore& requests_of(Checkpointer& store);
QuestionStore& inbox_of(Checkpointer& store);

/// A file with one character for each time that the tool has run.
inline std::filesystem::path effects_file(const std::filesystem::path& directory) {
    return directory / "effects";
}
/// A file with one character for each approval, written before it is given.
inline std::filesystem::path approvals_file(const std::filesystem::path& directory) {
    return directory / "approvals";
}
/// The same for a second tool, which needs no approval and must not run again.
inline std::filesystem::path plain_effects_file(const std::filesystem::path& directory) {
    return directory / "plain";
}
void add_to(const std::filesystem::path& file);

/// Sets a tool `rm` whose effect is counted.
std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> count_effects(
    std::filesystem::path directory);

/// A question in a thread; `timeout` 0: without a timeout.
HitlRequest question(const std::string& thread_id, double created_at, double timeout);

/// The exit status of a process whose answer came too late.
inline constexpr int was_stale = 5;

/// The main function: runs the tests, or one of these workers.
///
/// - `--approved`, `--denied`, `--suspended` DIRECTORY STEP: one run with a gated call. Its question is answered while the
///   run waits, or the run is suspended and another agent approves. Kills itself at the step, with the steps of
///   worker_process.hpp and one before and one after the effect.
/// - `--mixed` DIRECTORY STEP: one run with a gated call that may run again, which is approved, and another call that may not.
/// - `--inbox` DIRECTORY STEP: asks, answers, expires and discards requests of several threads. Kills itself at the step.
/// - `--answer` DIRECTORY USER: freezes itself (SIGSTOP), then answers the question of thread "t".
/// - `--respond` DIRECTORY: freezes itself, then approves the call of the suspended run of "t" and continues it.
int approval_tests_or_worker(int argc, char** argv, const OpenStore& open_store);

/// Returns the number of characters in a file of effects or approvals.
std::size_t count_in(const std::filesystem::path& file);

/// Returns the threads on the first page of the inbox, each of which must have one request.
std::set<std::string> threads_in_inbox(const OpenStore& open_store,
                                       const std::filesystem::path& directory);
/// Returns those of the threads `all` that have a pending request, without the inbox.
std::set<std::string> threads_by_loading(const OpenStore& open_store,
                                         const std::filesystem::path& directory,
                                         const std::vector<std::string>& all);

/// Resumes the run that a killed process has left, and approves what it asks. Then the thread takes a prompt.
void continue_run(const OpenStore& open_store, const std::filesystem::path& directory);
/// Checks that the tool ran at most once, with its approval, and that nothing is pending.
void check_effects(const OpenStore& open_store, const std::filesystem::path& directory);

/// Kills a worker (see approval_tests_or_worker) at every step, and continues and checks its run. Returns the number of
/// kills after which the tool has run.
std::size_t kill_at_every_write(const OpenStore& open_store, const std::string& way);

/// Kills the worker `--mixed` at every step, and continues its run: the gated call has its result, the other ran at most once.
void kill_with_repeatable_call(const OpenStore& open_store);

/// Approves the call of a suspended run in two processes at the same time: one runs it, the other is told that it is late.
void approve_in_two_processes(const OpenStore& open_store);

}  // namespace cubepi::crash_tests
