#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "approval_worker.hpp"

namespace cubepi::crash_tests {

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

/// Approves the call of a suspended run in two processes at the same time: one runs it, the other is told that it is late.
void approve_in_two_processes(const OpenStore& open_store);

}  // namespace cubepi::crash_tests
