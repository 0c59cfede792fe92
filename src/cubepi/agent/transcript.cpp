#include <cubepi/agent/transcript.hpp>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cubepi {

namespace {

/// Removes one call with that id from the list; returns false if there is none.
bool answer(std::vector<const ToolCall*>& open, std::string_view id) {
    const auto found = std::find_if(open.begin(), open.end(),
                                    [&](const ToolCall* call) { return call->id == id; });
    if (found == open.end()) return false;
    open.erase(found);
    return true;
}

/// The indices of the results of each message that calls tools, by the index of that message.
using ResultsByCaller = std::unordered_map<std::size_t, std::vector<std::size_t>>;

/// Assigns each result to the last preceding message that calls its id. Counts results that are not directly after
/// their calls, and results without a call.
ResultsByCaller match_results(const MessageList& messages, TranscriptRepairs& repairs) {
    struct OpenCalls {
        std::size_t caller = 0;
        std::size_t count = 0;  // calls with this id that have no result yet
    };
    std::unordered_map<std::string_view, OpenCalls> open;
    ResultsByCaller results;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (const AssistantMessage* assistant = messages[i].assistant()) {
            if (!assistant->has_tool_calls()) continue;
            for (const ToolCall* call : assistant->tool_calls()) {
                OpenCalls& calls = open[call->id.str()];
                // A call of an earlier message with the same id gets no further results.
                if (calls.caller != i) calls = OpenCalls{i, 0};
                ++calls.count;
            }
        } else if (const ToolResultMessage* result = messages[i].tool_result()) {
            const auto found = open.find(result->tool_call_id.str());
            if (found == open.end() || found->second.count == 0) {
                ++repairs.left_out;
                continue;
            }
            --found->second.count;
            std::vector<std::size_t>& own = results[found->second.caller];
            own.push_back(i);
            if (i != found->second.caller + own.size()) ++repairs.moved_results;
        }
    }
    return results;
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
    result.content.emplace_back(TextContent{std::string(interrupted_call_text)});
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
    const ResultsByCaller results = match_results(messages, repaired.repairs);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].role() == Role::tool_result) continue;
        repaired.messages.push_back(messages[i]);
        const AssistantMessage* assistant = messages[i].assistant();
        if (!assistant || !assistant->has_tool_calls()) continue;
        std::vector<const ToolCall*> open = assistant->tool_calls();
        if (const auto found = results.find(i); found != results.end()) {
            for (const std::size_t result : found->second) {
                answer(open, messages[result].tool_result()->tool_call_id);
                repaired.messages.push_back(messages[result]);
            }
        }
        for (const ToolCall* call : open) {
            const double timestamp = assistant->timestamp.value_or(0);
            repaired.messages.push_back(
                interrupted_tool_result(*call, assistant->run_id, timestamp));
            ++repaired.repairs.added_results;
        }
    }
    return repaired;
}

}  // namespace cubepi
