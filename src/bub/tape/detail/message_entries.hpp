#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <cubepi/core/message_list.hpp>

namespace bub::detail {

/// Makes entries of an agent's messages (B21). The payload is what Bub reads; the message itself is in the
/// meta. Results of several calls that come one by one are events until the last one is there, and then one
/// `tool_result` entry, because Bub pairs results with calls by their position in one entry.
class MessageEntries {
public:
    /// The entries of one more message.
    void add(const cubepi::Message& message, std::vector<TapeEntry>& to);
    /// Goes on from what the newest entries say, newest first.
    void resume(const std::vector<TapeEntry>& newest_first);
    /// True when `call_id` is one of the calls that wait for a result.
    bool expects(const std::string& call_id) const;

private:
    void add_calls(const cubepi::AssistantMessage& answer, JsonObject meta,
                   std::vector<TapeEntry>& to);
    void add_result(const cubepi::Message& message, JsonObject meta, std::vector<TapeEntry>& to);

    void forget();
    void expect_calls(const cubepi::AssistantMessage& answer);
    /// Keeps the result of an expected call.
    void keep_result(const cubepi::Message& message);

    std::vector<std::string> calls_;        ///< of the latest answer, in its order
    std::vector<cubepi::Message> results_;  ///< received so far, in order of arrival
    /// For each of `calls_` the number of its first result in `results_`; `no_result` if there is none.
    std::unordered_map<std::string, std::size_t> result_of_;
    std::size_t missing_ = 0;  ///< calls without a result
};

/// The messages that the meta of an entry keeps; those that cannot be read are left out.
std::vector<cubepi::Message> messages_in(const TapeEntry& entry);
/// Whether the entry is an event that keeps the result of one call of several.
bool is_single_result(const TapeEntry& entry);

/// What stands for the bytes of an image that are kept as media.
inline constexpr std::string_view media_prefix = "sha256:";
/// The image blocks in the messages that an entry keeps.
std::vector<JsonObject*> image_blocks(TapeEntry& entry);

}  // namespace bub::detail
