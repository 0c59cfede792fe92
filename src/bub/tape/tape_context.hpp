#pragma once

#include <functional>
#include <string>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <bub/tape/tape_query.hpp>
#include <cubepi/core/message_list.hpp>

namespace bub {

/// The start of a context on a tape.
class ContextStart {
public:
    static ContextStart last_anchor() { return ContextStart(TapeQuery().last_anchor()); }
    static ContextStart anchor(std::string name) {
        return ContextStart(TapeQuery().after_anchor(std::move(name)));
    }
    static ContextStart beginning() { return ContextStart(TapeQuery()); }
    /// Returns the query for the entries of the context, its anchor first (B10).
    TapeQuery query() const {
        TapeQuery copy = query_;
        return std::move(copy).with_anchor();
    }

private:
    explicit ContextStart(TapeQuery query) : query_(std::move(query)) {}
    TapeQuery query_;
};

/// The rule by which an agent's memory is built from a tape.
struct TapeContext {
    ContextStart start = ContextStart::last_anchor();
    /// Converts the entries of the context, its anchor first, to messages; if empty: agent_messages().
    std::function<cubepi::MessageList(const std::vector<TapeEntry>&)> select = {};
};

/// Returns "[Anchor created: NAME]: STATE", the text that represents an anchor to a model.
std::string anchor_text(const TapeEntry& anchor);

/// Converts entries to chat messages of an OpenAI-compatible request: anchors to user messages (B10), `message` entries
/// to their payloads, calls to assistant messages, results paired with the latest calls by position. Entries of other
/// kinds, and those whose meta has `context` false, are left out.
JsonArray context_messages(const std::vector<TapeEntry>& entries);

/// Converts entries to messages of an agent. A whole message in an entry's meta takes precedence (B21); otherwise the
/// message is built from the payload, by the rules of context_messages.
cubepi::MessageList agent_messages(const std::vector<TapeEntry>& entries);

}  // namespace bub
