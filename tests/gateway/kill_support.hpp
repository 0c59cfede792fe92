#pragma once

#include <map>
#include <set>
#include <string>

#include "gateway_process.hpp"

// Shared by the tests that kill a gateway: the operator's decisions after the kills, and the state of the tapes.

namespace cubepi::gateway_tests {

/// Waits until no session has a running turn or waiting messages.
void wait_until_idle(const GatewayHome& home);

/// Decides about the messages and answers that are held, because a gateway ended in the middle of them twice: releases the messages,
/// and does with the answers what `answers` says, "release" or "discard".
void decide_about_held(const GatewayHome& home, const std::string& answers);

/// The number of messages and answers on all tapes, by the last line of their text. The lines before it say that a message was
/// delivered again.
std::map<std::string, int> texts_on_tapes(const GatewayHome& home);

/// Checks that each message, and its answer of the echoing model, is on the tapes once.
void expect_on_tapes_once(const GatewayHome& home, const std::set<std::string>& messages);

}  // namespace cubepi::gateway_tests
