#pragma once

#include <string>

#include <bub/envelope.hpp>

namespace bub {

/// The id of the user message that an envelope becomes, `CHANNEL:INBOUND_ID`: the same inbound is one message, however often
/// it comes (D42). Empty: its platform has no name for it, and each is a new one.
std::string input_id_of(const Envelope& message);

}  // namespace bub
