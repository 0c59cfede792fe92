#include <cubepi/middleware/compaction/recall_tool.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/core/run_info.hpp>
#include <cubepi/middleware/compaction/conversation_digest.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t page_bytes = 12'000;
constexpr std::size_t most_matches = 20;
constexpr std::size_t match_bytes = 200;  // before and after a match

std::string full_text(const Message& message) {
    std::string text = message.text();
    if (const AssistantMessage* answer = message.assistant()) {
        for (const ToolCall* call : answer->tool_calls())
            text += "\n[calls " + call->name.str() + " " + json_text(call->arguments) + "]";
    }
    return text;
}

std::string label(const Message& message, std::size_t index) {
    std::string text = "Message " + std::to_string(index + 1) + ", ";
    if (const ToolResultMessage* result = message.tool_result())
        return text + "result of " + result->tool_name.str();
    return text + std::string(message.user() ? "user" : "assistant");
}

/// Returns `bytes` of the text from `at` on, without parts of characters.
std::string piece(std::string_view text, std::size_t at, std::size_t bytes) {
    const auto continues = [&text](std::size_t place) {
        return (static_cast<unsigned char>(text[place]) & 0xC0U) == 0x80U;
    };
    at = std::min(at, text.size());
    while (at < text.size() && continues(at)) ++at;
    text = text.substr(at, bytes);
    return std::string(text.substr(0, complete_utf8_prefix(text)));
}

AgentToolResult read_message(const MessageList& history, std::int64_t number, std::int64_t offset) {
    if (number < 1 || static_cast<std::uint64_t>(number) > history.size()) {
        return AgentToolResult::error("there is no message " + std::to_string(number) +
                                      "; the conversation has " + std::to_string(history.size()));
    }
    const std::size_t index = static_cast<std::size_t>(number) - 1;
    const std::string text = full_text(history[index]);
    const std::size_t at = static_cast<std::size_t>(std::max<std::int64_t>(offset, 0));
    const std::string page = piece(text, at, page_bytes);
    std::string result =
        label(history[index], index) + ", " + std::to_string(text.size()) + " bytes:\n" + page;
    if (at + page.size() < text.size())
        result += "\n[continues at offset " + std::to_string(at + page.size()) + "]";
    return AgentToolResult(std::move(result));
}

AgentToolResult find_text(const MessageList& history, const std::string& wanted) {
    std::string result;
    std::size_t matches = 0;
    for (std::size_t i = history.size(); i > 0 && matches < most_matches; --i) {
        const std::string text = full_text(history[i - 1]);
        const std::size_t at = text.find(wanted);
        if (at == std::string::npos) continue;
        ++matches;
        const std::size_t begin = at - std::min(at, match_bytes);
        result += label(history[i - 1], i - 1) + ": " +
                  piece(text, begin, at - begin + wanted.size() + match_bytes) + "\n";
    }
    if (matches == 0) result = "no message contains this text";
    if (matches == most_matches) result += "[older matches are not listed]\n";
    return AgentToolResult(std::move(result));
}

}  // namespace

AgentTool recall_tool(
    std::function<std::optional<MessageList>(const std::string& run_id)> history_of) {
    Json parameters = {
        {"type", "object"},
        {"properties",
         {{"find",
           {{"type", "string"}, {"description", "A text; lists the messages that contain it."}}},
          {"message", {{"type", "integer"}, {"description", "The number of a message to read."}}},
          {"offset",
           {{"type", "integer"}, {"description", "Where to continue reading, in bytes."}}}}},
        {"additionalProperties", false}};
    AgentTool made =
        tool("recall",
             "Reads earlier messages of this conversation word for word: tool results that were "
             "shortened, and messages that a summary stands for.",
             std::move(parameters),
             [history_of = std::move(history_of)](JsonObject arguments, ToolContext& context) {
                 const std::optional<MessageList> found = history_of(context.run().run_id);
                 if (!found) {
                     return AgentToolResult::error(
                         "earlier messages cannot be read before the first request of a continued "
                         "run; call recall again");
                 }
                 const MessageList& history = *found;
                 const Json* find = arguments.if_contains("find");
                 const Json* number = arguments.if_contains("message");
                 const Json* offset = arguments.if_contains("offset");
                 if (number && number->is_int64()) {
                     const std::int64_t at = offset && offset->is_int64() ? offset->get_int64() : 0;
                     return read_message(history, number->get_int64(), at);
                 }
                 if (find && find->is_string() && !find->get_string().empty())
                     return find_text(history, std::string(find->get_string()));
                 return AgentToolResult::error("pass `find` or `message`");
             });
    return std::move(made).risk(ToolRisk::read_only);
}

}  // namespace cubepi::detail
