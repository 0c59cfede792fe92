#pragma once

#include <set>
#include <string>

#include <cubepi/core/message_list.hpp>

namespace cubepi::crash_tests {

/// The calls that have no result.
std::set<std::string> unanswered(const MessageList& messages);

/// Each of the calls in `open` has a result, which says that nobody knows whether it took effect.
void expect_unknown_outcomes(const MessageList& messages, std::set<std::string> open);

}  // namespace cubepi::crash_tests
