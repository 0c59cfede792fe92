#pragma once

#include <string_view>

namespace bub::detail {

/// The member of Envelope::rest of a stop that ends the turn of one message only: its `inbound_id`. The turn may have ended, and the
/// next one begun, before the stop is carried out.
inline constexpr std::string_view stopped_message_key = "stopped_message";

}  // namespace bub::detail
