#pragma once

#include <string>

#include <cubepi/core/json.hpp>

namespace cubepi::wire {

/// The relevant parts of an answer in a vendor's unstreamed form, so that ours and the SDK's can be compared: content, calls with
/// parsed arguments, signatures, ids, stop reason, tokens. Absent members equal null and zero.
/// `provider` is "anthropic", "openai-chat" or "openai-responses".
JsonObject normal_form(const std::string& provider, const Json& answer);

}  // namespace cubepi::wire
