#include <cubepi/middleware/compaction/conversation_digest.hpp>

#include <algorithm>

#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t arguments_limit = 1'000;  // bytes
constexpr std::size_t result_limit = 4'000;
constexpr std::size_t omission_space = 60;  // maximum size of the note of an omission, in bytes

std::string_view head_of(std::string_view text, std::size_t bytes) {
    text = text.substr(0, bytes);
    return text.substr(0, complete_utf8_prefix(text));
}

std::string_view tail_of(std::string_view text, std::size_t bytes) {
    std::size_t begin = text.size() - std::min(bytes, text.size());
    const auto continues = [&text](std::size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
    };
    while (begin < text.size() && continues(begin)) ++begin;
    return text.substr(begin);
}

std::string answer_part(const AssistantMessage& answer) {
    std::string part;
    if (const std::string text = answer.text(); !text.empty()) part = "Assistant: " + text + "\n";
    for (const ToolCall* call : answer.tool_calls()) {
        const std::string arguments = json_text(call->arguments);
        part += "Assistant calls " + call->name.str() + ": " +
                shortened_middle(arguments, arguments_limit) + "\n";
    }
    return part;
}

std::string result_part(const ToolResultMessage& result, const std::string& text) {
    return (result.is_error ? "Error of " : "Result of ") + result.tool_name.str() + ": " +
           shortened_middle(text, result_limit) + "\n";
}

std::string user_part(const Message& message) {
    std::string part = is_synthetic_message(message) ? "Note, not by the user: " : "User: ";
    part += message.text();
    for (const Content& block : message.user()->content) {
        if (std::holds_alternative<ImageContent>(block)) part += " [image]";
    }
    return part + "\n";
}

}  // namespace

std::string shortened_middle(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return std::string(text);
    if (limit <= omission_space) return std::string(head_of(text, limit));
    const std::size_t space = limit - omission_space;
    const std::string_view head = head_of(text, space * 3 / 4);
    const std::string_view tail = tail_of(text, space / 4);
    const std::size_t omitted = text.size() - head.size() - tail.size();
    return std::string(head) + " [" + std::to_string(omitted) + " bytes omitted] " +
           std::string(tail);
}

ConversationDigest::ConversationDigest(const std::string& before, const Message* first,
                                       const Message* last) {
    if (!before.empty()) parts_.push_back(before);
    for (const Message* message = first; message != last; ++message) {
        std::string part;
        if (const AssistantMessage* answer = message->assistant()) {
            part = answer_part(*answer);
        } else if (const ToolResultMessage* result = message->tool_result()) {
            part = result_part(*result, message->text());
        } else {
            part = user_part(*message);
        }
        if (!part.empty()) parts_.push_back(std::move(part));
    }
}

std::size_t ConversationDigest::size() const noexcept {
    std::size_t bytes = 0;
    for (const std::string& part : parts_) bytes += part.size();
    return bytes;
}

std::string ConversationDigest::text(std::size_t limit) const {
    if (parts_.empty()) return {};
    if (size() <= limit) {
        std::string all;
        for (const std::string& part : parts_) all += part;
        return all;
    }
    // No message takes more than a quarter, so that the others have space.
    const std::string first = shortened_middle(parts_.front(), limit / 4);
    std::size_t space = limit - std::min(limit, first.size() + omission_space);
    std::vector<std::string> newest;
    std::size_t next = parts_.size();
    while (next > 1 && space > 0) {
        std::string part = shortened_middle(parts_[next - 1], limit / 4);
        const bool fits = part.size() <= space;
        // The newest message is always included, at least in part.
        if (!fits && !newest.empty() && space < 4 * omission_space) break;
        if (!fits) part = shortened_middle(parts_[next - 1], space);
        space -= part.size();
        newest.push_back(std::move(part));
        --next;
        if (!fits) break;
    }
    std::string text = first;
    if (next > 1) text += "[" + std::to_string(next - 1) + " messages omitted]\n";
    for (auto part = newest.rbegin(); part != newest.rend(); ++part) text += *part;
    return text;
}

}  // namespace cubepi::detail
