#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_sidecar.hpp>
#include <bub/tape/tape_store.hpp>
#include <bub/tape/turn_transaction.hpp>

namespace bub {

/// An element of `Tape::anchors`.
struct TapeAnchor {
    std::string name = "-";
    JsonObject state = {};
};

/// The criteria of a search.
struct TapeSearch {
    std::string text = {};
    std::vector<std::string> kinds = {};
    std::string from = {};  ///< ISO 8601; empty: no bound
    std::string to = {};
    std::size_t limit = 20;
    bool fuzzy = true;  ///< also finds near matches, after the exact ones (B17)
};

/// The options of `Tape::reset`.
struct TapeReset {
    /// The directory that receives an archive of the tape; empty: no archive.
    std::string archive_directory = {};
};

/// A tape of a store or of a fork, with the operations on it. A handle: copies refer to the same tape.
class Tape {
public:
    Tape(std::shared_ptr<TapeStore> store, std::string name);
    /// `sidecars`: the names of the tape's sidecars.
    Tape(std::shared_ptr<TapeStore> store, std::string name, std::vector<std::string> sidecars);

    const std::string& name() const noexcept { return name_; }
    const std::shared_ptr<TapeStore>& store() const noexcept { return store_; }

    /// Returns the same tape inside a new fork, which `merge()` or `discard()` ends.
    std::shared_ptr<TurnTransaction> fork(TurnTransactionOptions options = {}) const;
    Tape in(std::shared_ptr<TurnTransaction> fork) const;

    const std::vector<std::string>& sidecars() const noexcept { return sidecars_; }
    /// Returns the sidecar of this name, in the same store. Throws Error(not_found) if the tape has no such sidecar.
    Tape sidecar(std::string_view name) const;

    Task<TapePosition> append(TapeEntry entry) const;
    Task<TapePosition> append(std::vector<TapeEntry> entries) const;
    /// Appends an anchor and the event `handoff`. `meta` is added to both.
    Task<void> handoff(std::string name, std::optional<JsonObject> state = {},
                       JsonObject meta = {}) const;
    /// Ensures that there is an anchor: without one, appends a hand-off `session/start` with state {owner: human}.
    Task<void> bootstrap(JsonObject meta = {}) const;
    /// Empties and bootstraps the tape in one step. The anchor's state names the archived file.
    Task<void> restart(std::string archived = {}) const;
    /// Copies the tape, as seen here, to `directory`/NAME.jsonl.YYYYMMDDTHHMMSSZ.bak and returns the path. A number
    /// follows the time if that file exists. For a tape without entries no file is created and the path is empty.
    Task<std::string> archive(std::string directory) const;
    /// restart() for the tape, whose pending requests are removed, and its sidecars; everything is archived before anything is emptied. A sidecar that
    /// cannot be archived is not emptied. The events `sidecar.archive` and `sidecar.reset` record the outcome. Returns
    /// the path of the tape's archive.
    Task<std::string> reset(TapeReset options = {}) const;

    Task<std::vector<TapeEntry>> query(TapeQuery query) const;
    /// Returns the matching entries, newest first; exact matches before fuzzy ones.
    Task<std::vector<TapeEntry>> search(TapeSearch search) const;
    Task<std::vector<TapeAnchor>> anchors(std::size_t limit = 20) const;
    Task<TapeInfo> info() const;
    /// Returns the messages of a model request, without a system prompt.
    Task<JsonArray> context(ContextStart start = ContextStart::last_anchor()) const;

private:
    std::shared_ptr<TapeStore> store_;
    std::string name_;
    std::vector<std::string> sidecars_;
};

/// Removes the requests and the unused answers of a suspended run whose calls are gone: nothing could continue it.
Task<> forget_suspended_run(Tape tape);

}  // namespace bub
