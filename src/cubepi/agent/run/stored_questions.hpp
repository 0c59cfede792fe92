#pragma once

#include <string>
#include <vector>

#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/agent/run/tool_batch.hpp>
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

/// Returns true if the time to answer is over, also if no process has noticed it (D65). `now`: Unix seconds.
bool is_expired(const PendingRequest& pending, double now);

/// The history must be loaded. `now`: Unix seconds. Reads the store only if the history ends with open calls. `run_id` is
/// that of the suspended run if its messages name none (old files).
Task<StoredQuestions> load_stored_questions(ThreadLog& log, double now, std::string run_id = {});

/// Assigns this run to the requests of old files, which name none.
Task<void> adopt_requests(ThreadLog& log, std::string run_id);

/// Returns the open calls at the end of the history, and which of them were started by that run (D62).
Task<OpenCalls> load_open_calls(ThreadLog& log, std::string run_id);

/// Removes requests and answers of the run.
Task<void> remove_questions(ThreadLog& log, StoredQuestions questions);

}  // namespace cubepi::detail
