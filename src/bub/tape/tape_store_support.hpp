#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/tape_store.hpp>

// For implementations of TapeStore.

namespace bub {

/// A tape before an append.
struct TapeBefore {
    TapePosition end = {};
    bool has_anchor = false;
    JsonObject state = {};  ///< the side state
};

/// Performs the checks of an append and completes its entries: calls the guard, compares the expected position, omits
/// the first anchor if the tape has one, and assigns ids, dates and message positions. Returns the end of the tape with
/// the entries. The caller holds the tape's lock, and then stores all entries (after emptying the tape if
/// `options.reset()`). Throws if the append is rejected: an invalid name, entries nested too deep, the guard's
/// exception, cubepi::StaleAppendError.
TapePosition prepare_append(const std::string& tape, const TapeBefore& before,
                            std::vector<TapeEntry>& entries, const TapeAppend& options,
                            std::chrono::system_clock::time_point now);

/// Returns the entries that match, as TapeStore::fetch() does; `entries` is the whole tape, oldest first.
std::vector<TapeEntry> evaluate_query(const std::vector<TapeEntry>& entries,
                                      const TapeQuery& query);

/// Builds a page of TapeStore::list_requests() from the side states of all tapes.
class InboxBuilder {
public:
    /// Throws Error(invalid_argument) if the query's cursor or limit is invalid.
    explicit InboxBuilder(cubepi::QuestionQuery query);
    void add(const std::string& tape, const JsonObject& state);
    void add(cubepi::QuestionEntry entry);
    cubepi::QuestionPage page() const;

private:
    cubepi::QuestionQuery query_;
    std::vector<cubepi::QuestionEntry> entries_;
};

/// Keeps the first `limit` tapes in the order of SessionTapeStore::newest_tapes().
void keep_newest(std::vector<ListedTape>& tapes, std::size_t limit);

/// Throws Error(invalid_argument) for a name that cannot be the name of a file.
void require_tape_name(const std::string& tape);

}  // namespace bub
