#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <cubepi/core/message_list.hpp>

namespace bub::detail {

/// A converter of an agent's messages to entries (B21). The payload is for Bub; the message itself is in the meta. The
/// results of several calls are separate events until all have arrived, and then one `tool_result` entry, because Bub
/// pairs results with calls by their position in one entry.
class MessageEntries {
public:
    /// Appends the entries of one more message.
    void add(const cubepi::Message& message, std::vector<TapeEntry>& to);
    /// Restores the state from the newest entries, newest first.
    void resume(const std::vector<TapeEntry>& newest_first);
    /// Returns true if `call_id` is one of the calls that wait for a result.
    bool expects(const std::string& call_id) const;

private:
    void add_calls(const cubepi::AssistantMessage& answer, JsonObject meta,
                   std::vector<TapeEntry>& to);
    void add_result(const cubepi::Message& message, JsonObject meta, std::vector<TapeEntry>& to);

    void forget();
    void end_batch(std::vector<TapeEntry>& to);
    void expect_calls(const cubepi::AssistantMessage& answer);
    /// Stores the result of an expected call.
    void keep_result(const cubepi::Message& message);

    std::vector<std::string> calls_;        ///< of the latest answer, in its order
    std::vector<cubepi::Message> results_;  ///< received so far, in order of arrival
    /// For each of `calls_` the number of its first result in `results_`; `no_result` if there is none.
    std::unordered_map<std::string, std::size_t> result_of_;
    std::size_t missing_ = 0;      ///< calls without a result
    std::vector<TapeEntry> held_;  ///< events of hand-offs that the calls have made, newest first
};

/// Returns the entries of a hand-off: its anchor, and the event that records it.
std::vector<TapeEntry> handoff_entries(std::string name, std::optional<JsonObject> state,
                                       JsonObject meta = {});
/// Returns the messages in the meta of an entry; unreadable ones are omitted.
std::vector<cubepi::Message> messages_in(const TapeEntry& entry);
/// Returns true if the entry is an event with the result of one call of several.
bool is_single_result(const TapeEntry& entry);

/// The prefix of the reference that replaces an image's bytes in the media store.
inline constexpr std::string_view media_prefix = "sha256:";
/// Returns the image blocks in the messages of an entry.
std::vector<JsonObject*> image_blocks(TapeEntry& entry);

}  // namespace bub::detail
