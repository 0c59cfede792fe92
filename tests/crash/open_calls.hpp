#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include <cubepi/core/message_list.hpp>

namespace cubepi::crash_tests {

/// Returns the calls without a result.
inline std::set<std::string> unanswered(const MessageList& messages) {
    std::set<std::string> ids;
    for (const Message& message : messages) {
        if (const AssistantMessage* answer = message.assistant()) {
            for (const ToolCall* call : answer->tool_calls()) ids.insert(call->id);
        } else if (const ToolResultMessage* result = message.tool_result()) {
            ids.erase(result->tool_call_id);
        }
    }
    return ids;
}

/// Checks that each call in `open` has a result, which states that its effect is unknown.
inline void expect_unknown_outcomes(const MessageList& messages, std::set<std::string> open) {
    for (const Message& message : messages) {
        const ToolResultMessage* result = message.tool_result();
        if (!result || open.erase(result->tool_call_id) == 0) continue;
        EXPECT_TRUE(result->is_error);
        EXPECT_NE(message.text().find("unknown"), std::string::npos) << message.text();
    }
    EXPECT_TRUE(open.empty()) << "a call without result";
}

}  // namespace cubepi::crash_tests
