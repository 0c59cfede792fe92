#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// The calls of one assistant message whose bodies are about to run.
struct BatchStart {
    std::string run_id = {};
    /// The owner of the run's claim, which must still be held (D50). Empty: the claim is not checked.
    std::string owner_id = {};
    /// Identifies the assistant message with the calls within its run: the id of the message.
    std::string batch_id = {};
    std::vector<std::string> tool_call_ids = {};
    /// The questions whose answers the calls use, such as their approvals.
    std::vector<std::string> question_ids = {};
};

/// The batch of a run whose calls were marked as started last.
struct StartedBatch {
    std::string batch_id = {};
    /// A call in this list without a stored result was interrupted, and its effect is unknown (D62).
    std::vector<std::string> tool_call_ids = {};
    /// The answers that the batch uses. HitlStore::load_hitl_answer() does not return them any more.
    std::vector<HitlAnswer> used_answers = {};
};

/// Optional, for a store that is also a RunStore and a HitlStore: records that the bodies of a tool batch may have begun,
/// so that an answer has its effect once, even if the process is killed (D62). A store with this interface also
///
/// - honors AppendOptions::settle(): the results of calls and the removal of their answers are one transaction;
/// - removes the mark and all answers of a run when the run completes.
///
/// With a store without it the runtime removes the answers before the bodies run. A process that is killed between the
/// two then leaves calls without an answer, and the questions are asked again.
class BatchStore {
public:
    virtual ~BatchStore() = default;
    /// Marks the calls as started and the answers as used, in one write. Repeated for the same batch, it adds to the
    /// mark; for another batch it replaces the mark of the run and removes the answers that were used by the former.
    /// Questions without a stored answer are ignored. Throws StaleAppendError if the claim has been superseded.
    virtual Task<void> mark_batch_started(std::string thread_id, BatchStart start) = 0;
    /// Returns nothing if no batch of the run is marked. The mark may be older than the last assistant message: compare
    /// `batch_id`.
    virtual Task<std::optional<StartedBatch>> load_started_batch(std::string thread_id,
                                                                 std::string run_id) = 0;
};

}  // namespace cubepi
