#pragma once

#include <set>
#include <string>

#include <cubepi/core/message_list.hpp>

namespace cubepi::crash_tests {

/// Returns the calls without a result.
std::set<std::string> unanswered(const MessageList& messages);

/// Checks that each call in `open` has a result, which states that its effect is unknown.
void expect_unknown_outcomes(const MessageList& messages, std::set<std::string> open);

}  // namespace cubepi::crash_tests
