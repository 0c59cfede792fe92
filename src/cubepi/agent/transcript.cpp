#include <cubepi/agent/transcript.hpp>

#include <algorithm>
#include <string_view>

namespace cubepi {

namespace {

constexpr std::string_view interrupted_text =
    "This call was interrupted; whether it took effect is unknown.";

/// Takes one call of that id off the list; false when there is none.
bool answer(std::vector<const ToolCall*>& open, std::string_view id) {
    const auto found = std::find_if(open.begin(), open.end(),
                                    [&](const ToolCall* call) { return call->id == id; });
    if (found == open.end()) return false;
    open.erase(found);
    return true;
}

}  // namespace

bool is_legal_transcript(const MessageList& messages, std::size_t from) noexcept {
    for (std::size_t i = from; i < messages.size();) {
        if (messages[i].role() == Role::tool_result) return false;
        const AssistantMessage* assistant = messages[i++].assistant();
        if (!assistant || !assistant->has_tool_calls()) continue;
        std::vector<const ToolCall*> open = assistant->tool_calls();
        while (!open.empty()) {
            if (i == messages.size() || messages[i].role() != Role::tool_result) return false;
            if (!answer(open, messages[i].tool_result()->tool_call_id)) return false;
            ++i;
        }
    }
    return true;
}

std::vector<ToolCall> open_tool_calls(const MessageList& messages) {
    std::size_t last = messages.size();
    while (last > 0 && messages[last - 1].role() == Role::tool_result) --last;
    const AssistantMessage* assistant = last > 0 ? messages[last - 1].assistant() : nullptr;
    if (!assistant) return {};
    std::vector<const ToolCall*> open = assistant->tool_calls();
    for (std::size_t i = last; i < messages.size(); ++i) {
        answer(open, messages[i].tool_result()->tool_call_id);
    }
    std::vector<ToolCall> calls;
    for (const ToolCall* call : open) calls.push_back(*call);
    return calls;
}

ToolResultMessage interrupted_tool_result(const ToolCall& call, SharedString run_id,
                                          double timestamp) {
    ToolResultMessage result;
    result.tool_call_id = call.id;
    result.tool_name = call.name;
    result.content.emplace_back(TextContent{std::string(interrupted_text)});
    result.is_error = true;
    result.timestamp = timestamp;
    result.run_id = std::move(run_id);
    return result;
}

RepairedTranscript repair_request(const MessageList& messages) {
    RepairedTranscript repaired;
    if (is_legal_transcript(messages)) {
        repaired.messages = messages;
        return repaired;
    }
    std::vector<bool> used(messages.size(), false);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].role() == Role::tool_result) {
            if (!used[i]) ++repaired.left_out;
            continue;
        }
        repaired.messages.push_back(messages[i]);
        const AssistantMessage* assistant = messages[i].assistant();
        if (!assistant) continue;
        // A result may have slipped behind a later user message, but not behind the next answer.
        std::vector<const ToolCall*> open = assistant->tool_calls();
        for (std::size_t k = i + 1; k < messages.size() && !open.empty(); ++k) {
            if (messages[k].role() == Role::assistant) break;
            const ToolResultMessage* result = messages[k].tool_result();
            if (!result || used[k] || !answer(open, result->tool_call_id)) continue;
            used[k] = true;
            repaired.messages.push_back(messages[k]);
        }
        for (const ToolCall* call : open) {
            const double timestamp = assistant->timestamp.value_or(0);
            repaired.messages.push_back(
                interrupted_tool_result(*call, assistant->run_id, timestamp));
            ++repaired.added_results;
        }
    }
    return repaired;
}

}  // namespace cubepi
