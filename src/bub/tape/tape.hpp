#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_fork.hpp>
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

/// A tape of a store, or of a fork of one, with what one does to a tape. A handle: copies are the same tape.
class Tape {
public:
    Tape(std::shared_ptr<TapeStore> store, std::string name);

    const std::string& name() const noexcept { return name_; }
    const std::shared_ptr<TapeStore>& store() const noexcept { return store_; }

    /// The same tape inside a new fork: `fork->merge()` or `fork->discard()` ends it.
    std::shared_ptr<TapeFork> fork(TapeForkOptions options = {}) const;
    Tape in(std::shared_ptr<TapeFork> fork) const;

    Task<TapePosition> append(TapeEntry entry) const;
    Task<TapePosition> append(std::vector<TapeEntry> entries) const;
    /// An anchor, and the event `handoff` beside it. `meta` goes to both.
    Task<void> handoff(std::string name, std::optional<JsonObject> state = {},
                       JsonObject meta = {}) const;
    /// Makes sure that there is an anchor: without one, a hand-off `session/start` with state {owner: human}.
    Task<void> bootstrap(JsonObject meta = {}) const;
    /// The hand-off after a request that did not fit the model's window: `auto_handoff/context_overflow`.
    Task<void> overflow_handoff(std::string error) const;
    /// Empties the tape and bootstraps it, in one step. The archived file is named in the anchor's state.
    Task<void> restart(std::string archived = {}) const;
    /// Copies the tape to `directory`/NAME.jsonl.YYYYMMDDTHHMMSSZ.bak as seen here, and gives the path.
    Task<std::string> archive(std::string directory) const;

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
};

/// True when the text of a failure says that the request did not fit the model's window.
bool is_context_overflow(std::string_view error_text);

}  // namespace bub
