#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/hitl_inbox.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>

namespace cubepi::detail {

struct MemoryRun {
    std::int64_t completion = 0;  ///< order of completion in its thread; 0: open
};

/// A thread in memory.
struct MemoryThread {
    MessageList messages = {};
    std::optional<JsonObject> extra = {};
    std::optional<std::string> parent = {};
    std::int64_t position = 0;
    double updated_at = 0;
    std::unordered_map<std::string, std::size_t> by_message_id = {};
    std::map<std::string, MemoryRun> runs = {};
    std::vector<HeldClaim> claims = {};
    std::vector<PendingRequest> pending = {};
    std::map<std::pair<std::string, std::string>, Json> answers = {};  ///< by run and question
    std::map<std::string, StartedBatch> batches = {};                  ///< by run
    std::vector<AnswerRecord> answer_records = {};

    /// Returns true if the thread can be forked and listed.
    bool known() const { return !messages.empty() || extra || !runs.empty(); }
    bool is_complete(const std::string& run_id) const;
    void store(const MessageList& added);
    void merge_extra(const JsonObject& changes);
    /// Removes the requests and answers of these questions, the used answers too.
    void settle(const std::string& run_id, const std::vector<std::string>& question_ids);
    void mark_started(const BatchStart& start);
    /// Removes the marks and answers of a run that completes.
    void remove_answers_of(const std::string& run_id);
};

}  // namespace cubepi::detail
