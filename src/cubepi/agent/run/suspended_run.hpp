#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <cubepi/agent/run/prompt.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/agent/run/tool_batch.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// The questions of a suspended run in the store: of the run with the open calls at the end of the history.
struct StoredQuestions {
    std::string run_id = {};
    std::vector<HitlRequest> open = {};     ///< wait for an answer
    std::vector<HitlRequest> expired = {};  ///< their time is over (D65)
    bool has_unused_answers = false;

    /// Returns true if the run can be continued.
    bool any() const noexcept { return !open.empty() || !expired.empty() || has_unused_answers; }
    /// Returns true if a prompt must not start another run (D60).
    bool must_continue() const noexcept { return !open.empty() || has_unused_answers; }
    std::vector<std::string> open_ids() const;
};

/// The history must be loaded. `now`: Unix seconds. Reads the store only if the history ends with open calls. `run_id` is
/// that of the suspended run if its messages name none (old files).
Task<StoredQuestions> load_stored_questions(ThreadLog& log, double now, std::string run_id = {});

// The state of a turn with open calls, besides its messages and requests: the messages of after_model_response that follow
// the results, the digest of the prompt (D56), and what the run has used of its limits (D166). It is stored in the thread's
// `extra` while calls of the turn are open, so that another process can continue the turn.

/// Stores the state of the turn whose answer has this id. `turns`: the model calls of the run so far, in all attempts.
Task<> save_turn(RunCore& core, const std::string& answer_id, const MessageList& inject_messages,
                 std::uint32_t turns);

/// Returns the stored messages of the turn whose answer has this id, and lets the prefix guard compare the next request with
/// the one before the suspension. Returns no messages if no state of this turn is stored.
MessageList restore_turn(const RunCore& core, const std::string& answer_id);

/// Lets the limits of the run count what earlier runs of the prompt have used, as far as the history has it (D222). `input_id`: of the
/// prompt; empty: the last one. `answer_id`: that of the turn that continues, whose state may name a later begin for the repeated calls;
/// empty: none. Returns the number of their model calls.
std::uint32_t restore_work(RunCore& core, const std::string& input_id,
                           const std::string& answer_id = {});
/// Lets them count what the run had spent when the turn whose answer has this id was suspended, and what its later messages record.
/// Called after restore_work(). Returns the number of its model calls; `counted`, that of the history, if no state of this turn is stored.
std::uint32_t restore_spending(RunCore& core, const std::string& answer_id, std::uint32_t counted);

/// Removes the state of any turn. The caller saves `extra`.
void forget_turn(AgentState& state);

/// Records that the calls of the answer are not to be made, in case that the process is killed before they have results. The
/// caller saves `extra`, with the answer.
void refuse_turn(AgentState& state, const std::string& answer_id);

/// Returns the number of messages up to the answer whose calls are open.
std::size_t end_of_answer(const MessageList& messages);
/// Returns true if the tool of an open call may run again.
bool any_repeatable(const ThreadLog& log, const ToolList& tools);
/// Returns the calls that a killed process has left open, if one of them may run again (D69). Returns nothing if none may, if
/// they were not to be made, or if a question of the run is stored, which continues as a suspended one. The history must be loaded.
Task<std::optional<OpenCalls>> load_killed_calls(Agent::Impl& impl, const RunParts& parts);

/// Counts an execution of calls of the answer that may have been executed before, and stores the number. Returns false, and
/// stores nothing, after three that their processes did not survive: a call that ends its process must not do so forever.
Task<bool> note_attempt(RunCore& core, std::string answer_id);
/// The calls wait for the user now: no process has ended with them. The caller saves `extra`.
void forget_attempts(AgentState& state);

// Continues and closes a run that waits for the user without a process (D59, D60). Agent::respond() and abort_pending() are in
// suspended_run.cpp, too.

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

/// Reads the thread again: another process may have continued it.
Task<void> reload(Agent::Impl& impl, std::stop_token token);

/// Returns the date of the agent's clock in Unix seconds.
double unix_seconds(const Agent::Impl& impl);

}  // namespace cubepi::detail
