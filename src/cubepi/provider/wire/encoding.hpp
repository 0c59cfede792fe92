#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/stream_options.hpp>

// Shared by the encoders of all vendors: messages as text, notices about requests, fingerprints of prompts.

namespace cubepi::detail {

/// The result sent for a tool call without a stored result (D1).
inline constexpr std::string_view interrupted_result =
    "The tool call was interrupted; whether it took effect is unknown.";

/// The content, prefixed by the sender in a group chat: "[Ann]: Hi" (metadata sender_display_name).
ContentList<Content> with_sender(const UserMessage& message);
bool has_images(const ContentList<Content>& content) noexcept;
/// Returns the messages with a text in the place of each image; absent if there is none.
std::optional<MessageList> without_images(const MessageList& messages);
/// Returns the messages without the thinking of answers; absent if there is none.
std::optional<MessageList> without_thinking(const MessageList& messages);
/// The text blocks, with `separator` between them.
std::string joined_text(const ContentList<Content>& content, std::string_view separator);
bool is_url(std::string_view source) noexcept;
/// The data URL or the URL of an image.
std::string image_url(const ImageContent& image);
/// Shortens an id to at most `longest` bytes (22 or more): endpoints reject longer ones, which other endpoints
/// assign. The same id always yields the same result, so that calls and results still match.
std::string shortened_id(std::string_view id, std::size_t longest);
/// The text of a failed tool, marked as an error for APIs without a flag for it.
std::string marked_error(std::string text);

/// An object with the member "type".
JsonObject typed(std::string_view type);
/// The same with the member "text".
JsonObject typed_text(std::string_view type, std::string_view text);
/// Decodes base64 text; white space is skipped. Throws Error(invalid_argument) for anything else.
std::string from_base64(std::string_view text);

/// A notice that a request differs from what was requested (D14). `field`: its place in the request.
inline Notice request_changed(std::string text, std::string_view field) {
    Notice notice;
    notice.code = "request_changed";
    notice.text = std::move(text);
    notice.details["field"] = field;
    return notice;
}

inline void append(std::vector<Notice>& to, std::vector<Notice> from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// The notice about a tool choice in a request without tools.
Notice tool_choice_omitted();
/// A notice that the request differs from the history, because an answer or a result in it was incomplete (D1).
Notice repaired(std::string text, std::string_view call_id);
/// The notice about a call whose result is missing: `interrupted_result` was sent for it.
Notice result_missing(const std::string& call_id);

/// Returns the schema of the arguments of a tool; null if there is none.
const Json& parameters_of(const ToolDefinition& tool);

// Forms that both of OpenAI's chat APIs have.

/// Adds "name", "description" and "parameters" of a tool.
void put_function(JsonObject& to, const ToolDefinition& tool, SchemaDialect dialect);
/// Returns the word for a tool choice; empty for a named tool.
std::string_view tool_choice_word(ToolChoice::Mode mode) noexcept;
/// Adds "name", "description", "schema" and "strict" of a response format.
void put_json_schema(JsonObject& to, const ResponseFormat& format);

/// A hash of texts that is the same in every process (FNV-1a). A collision, with a probability of 2^-64, must be harmless.
class Fingerprint {
public:
    /// Adds a text and its end.
    void add(std::string_view text) noexcept {
        for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
        hash_ = (hash_ ^ 0xffu) * 1099511628211u;
    }
    std::uint64_t value() const noexcept { return hash_; }
    /// Returns 16 hexadecimal digits.
    std::string text() const {
        char digits[17];
        std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_));
        return digits;
    }

private:
    std::uint64_t hash_ = 14695981039346656037u;
};

}  // namespace cubepi::detail
