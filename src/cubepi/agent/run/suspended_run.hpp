#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include <cubepi/agent/run/active_run.hpp>
#include <cubepi/agent/run/stored_questions.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/task.hpp>

// Answers, continues and closes a run that waits for the user without a process (D59, D60).

namespace cubepi::detail {

/// Agent::respond().
Task<RunResult> run_respond(std::shared_ptr<Agent::Impl> impl, std::string question_id, Json answer,
                            AnswerOrigin origin, PromptOptions options = {});
/// Agent::abort_pending(), when no run is active.
Task<void> run_abort_pending(std::shared_ptr<Agent::Impl> impl, std::string reason);

/// Continues a suspended run for Agent::resume(). `questions.any()` holds.
Task<RunResult> continue_suspended_run(Agent::Impl& impl, ActiveRun& active,
                                       StoredQuestions questions, PromptOptions options);

/// Closes a suspended run: error results for its calls, a closing message, no requests and answers. Emits agent_aborted.
Task<void> close_suspended_run(Agent::Impl& impl, StoredQuestions questions, std::string reason,
                               std::stop_token token);
/// Stores the results of the calls whose requests have expired, so that another run can start (D60).
Task<void> close_expired_calls(Agent::Impl& impl, StoredQuestions questions);

/// The result of a call that leaves the run suspended.
RunResult suspended_result(const StoredQuestions& questions);
[[noreturn]] void throw_pending_requests(const std::string& thread_id,
                                         const StoredQuestions& questions);

/// Returns the date of the agent's clock in Unix seconds.
double unix_seconds(const Agent::Impl& impl);

}  // namespace cubepi::detail
