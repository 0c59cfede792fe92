#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/provider/provider.hpp>

#include "loopback.hpp"
#include "scenario.hpp"

namespace conformance {

/// The provider that a wire case names ("openai-chat", ...), asking a server on a loopback port. `constructor` is the
/// case's options.constructor. Throws Unsupported for an unknown provider.
std::shared_ptr<cubepi::Provider> make_wire_provider(const std::string& name,
                                                     const JsonObject& constructor,
                                                     std::uint16_t port);

/// `form` is options.model of a case.
cubepi::Model parse_wire_model(std::string id, const JsonObject& form);

/// The answers of the server: `answers`, `response` or `response_sse` of a case. A stride of 0 sends each in one piece.
std::vector<HttpAnswer> parse_answers(const JsonObject& file, std::size_t stride);

}  // namespace conformance
