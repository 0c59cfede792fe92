#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_fork.hpp>
#include <bub/tape/tape_sidecar.hpp>
#include <bub/tape/tape_store.hpp>

namespace bub {

/// One of `Tape::anchors`.
struct TapeAnchor {
    std::string name = "-";
    JsonObject state = {};
};

/// What to search for.
struct TapeSearch {
    std::string text = {};
    std::vector<std::string> kinds = {};
    std::string from = {};  ///< ISO 8601; empty: no bound
    std::string to = {};
    std::size_t limit = 20;
    bool fuzzy = true;  ///< entries that nearly hold the text come after those that do (B17)
};

/// What happens to a tape that is begun anew.
struct TapeReset {
    /// Where what was on it is kept; empty: it is not kept.
    std::string archive_directory = {};
};

/// A tape of a store, or of a fork of one, with what one does to a tape. A handle: copies are the same tape.
class Tape {
public:
    Tape(std::shared_ptr<TapeStore> store, std::string name);
    /// `sidecars`: the names of those that the tape has.
    Tape(std::shared_ptr<TapeStore> store, std::string name, std::vector<std::string> sidecars);

    const std::string& name() const noexcept { return name_; }
    const std::shared_ptr<TapeStore>& store() const noexcept { return store_; }

    /// The same tape inside a new fork: `fork->merge()` or `fork->discard()` ends it.
    std::shared_ptr<TapeFork> fork(TapeForkOptions options = {}) const;
    Tape in(std::shared_ptr<TapeFork> fork) const;

    const std::vector<std::string>& sidecars() const noexcept { return sidecars_; }
    /// The sidecar of this name, in the same store or fork. Throws Error(not_found) when the tape has none such.
    Tape sidecar(std::string_view name) const;

    Task<TapePosition> append(TapeEntry entry) const;
    Task<TapePosition> append(std::vector<TapeEntry> entries) const;
    /// An anchor, and the event `handoff` beside it. `meta` goes to both.
    Task<void> handoff(std::string name, std::optional<JsonObject> state = {},
                       JsonObject meta = {}) const;
    /// Makes sure that there is an anchor: without one, a hand-off `session/start` with state {owner: human}.
    Task<void> bootstrap(JsonObject meta = {}) const;
    /// The hand-off after a request that did not fit the model's window: `auto_handoff/context_overflow`. The summary of the
    /// conversation so far reaches the model with the anchor (B10); empty: there is none.
    Task<void> overflow_handoff(std::string error, std::string summary = {}) const;
    /// Empties the tape and bootstraps it, in one step. The archived file is named in the anchor's state.
    Task<void> restart(std::string archived = {}) const;
    /// Copies the tape to `directory`/NAME.jsonl.YYYYMMDDTHHMMSSZ.bak as seen here, and gives the path; with a number
    /// behind the time when there is such a file. A tape without entries leaves none, and gives an empty path.
    Task<std::string> archive(std::string directory) const;
    /// restart() for the tape and its sidecars; what is archived is archived before anything is emptied. A sidecar that
    /// cannot be archived is not emptied. The events `sidecar.archive` and `sidecar.reset` tell what came of it. Gives the
    /// path of the tape's archive.
    Task<std::string> reset(TapeReset options = {}) const;
    /// Archives a sidecar, and says so on the tape. Gives the path. Throws what failed, after that was noted.
    Task<std::string> archive_sidecar(std::string name, std::string directory,
                                      std::string reason = "manual") const;
    /// Empties a sidecar, and says so on the tape; archives it before when there is a directory.
    Task<std::string> reset_sidecar(std::string name, std::string archive_directory = {},
                                    std::string reason = "manual") const;

    Task<std::vector<TapeEntry>> query(TapeQuery query) const;
    /// The newest first; exact finds before near ones.
    Task<std::vector<TapeEntry>> search(TapeSearch search) const;
    Task<std::vector<TapeAnchor>> anchors(std::size_t limit = 20) const;
    Task<TapeInfo> info() const;
    /// The messages that a model would get, without a system prompt.
    Task<JsonArray> context(ContextStart start = ContextStart::last_anchor()) const;

private:
    std::shared_ptr<TapeStore> store_;
    std::string name_;
    std::vector<std::string> sidecars_;
};

/// True when the text of a failure says that the request did not fit the model's window.
bool is_context_overflow(std::string_view error_text);

}  // namespace bub
