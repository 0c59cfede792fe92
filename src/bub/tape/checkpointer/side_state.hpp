#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>

// The side state of a tape as used by a checkpointer.

namespace bub::detail {

/// Removes the elements for which `is` returns true, and returns their number.
template <class Is>
std::size_t erase_where(JsonArray& list, Is is) {
    const auto end_of_rest = std::remove_if(list.begin(), list.end(), is);
    const auto removed = static_cast<std::size_t>(list.end() - end_of_rest);
    list.erase(end_of_rest, list.end());
    return removed;
}

/// Returns true if the element of a list belongs to this run.
bool is_of_run(const Json& element, std::string_view run_id);
/// Returns true if it belongs to this question of the run, as an answer or a record of one does.
bool is_of_question(const Json& element, std::string_view run_id, std::string_view question_id);

/// A tape's side state as used by a checkpointer: {"claims", "open_runs", "pending", "answers", "batches",
/// "answered"}.
class SideState {
public:
    explicit SideState(const JsonObject& state) : state_(state) {}

    bool is_open(const std::string& run_id) const;
    bool holds(const std::string& run_id, const std::string& owner_id) const;
    /// Returns true if all claims are held (D50).
    bool holds_all(const std::vector<TapeClaim>& claims) const;
    const JsonArray& list(std::string_view name) const;

    /// Returns the list with this name, creating it if missing.
    static JsonArray& edit(JsonObject& state, std::string_view name);
    /// Removes the mark and all answers of a run that completes (D62).
    static void remove_answers_of_run(JsonObject& state, const std::string& run_id);
    /// Removes the notes of calls of earlier answers in the run (D176), which have results, so that a long run does not
    /// accumulate them. `note_id`: a note that is stored now, of a call of the last answer.
    static void remove_earlier_notes(JsonObject& state, const std::string& run_id,
                                     const std::string& note_id);
    /// Removes empty lists.
    static void tidy(JsonObject& state);

private:
    const JsonObject& state_;
};

/// The runs and claims in a tape's side state. Completed runs are on the tape, not in the side state: a run whose completion
/// event the caller appends remains open until complete_run().
class SideStateClaims final : public cubepi::ClaimTable {
public:
    explicit SideStateClaims(JsonObject& state) : state_(state) {}

    cubepi::RunState run_state(const std::string& run_id) const override;
    std::vector<cubepi::HeldClaim> claims() const override;
    void open_run(const std::string& run_id) override;
    void complete_run(const std::string& run_id) override;
    void put_claim(const cubepi::HeldClaim& claim) override;
    void remove_claim(const std::string& run_id) override;

private:
    JsonObject& state_;
};

/// Throws StaleAppendError if the owner does not hold the claim on the run (D50).
void check_claim(const JsonObject& state, const std::string& tape, const std::string& run_id,
                 const std::string& owner_id);
/// Does so for each of the claims.
void check_claims(const JsonObject& state, const std::string& tape,
                  const std::vector<TapeClaim>& claims);

// The requests are in the list "pending", with elements {"run_id", "request", "expired", "nested"}.

/// Reads an element of the list. An unreadable one has `damage`, and its ids and times as far as they can be read.
cubepi::QuestionEntry read_request(const std::string& tape, const Json& element);
/// Throws CheckpointCorruptionError for an unreadable request. `file` is that of the side state, if there is one.
[[noreturn]] void throw_damaged_request(const cubepi::QuestionEntry& entry,
                                        const std::string& file);
/// Returns true if QuestionStore::expire_due() has expired the request.
bool is_expired(const Json& element);
/// Returns true if the caller of a subagent asks the request; see TapeCheckpointerOptions::nested.
bool is_nested(const Json& element);
bool is_request(const Json& element, const std::string& run_id, const std::string& question_id);

/// Returns the requests that wait for a user: neither expired nor nested ones.
std::vector<cubepi::QuestionEntry> pending_requests(const std::string& tape,
                                                    const JsonObject& state);

}  // namespace bub::detail
