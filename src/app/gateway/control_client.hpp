#pragma once

#include <filesystem>

#include <cubepi/core/json.hpp>

namespace cubepi::app {

/// Sends a request to the gateway and returns its answer; blocks until it arrives. Throws Error(invalid_state) if no gateway
/// listens on `socket`, if it ends before it answers, and with the text of an answer that is an error.
JsonObject call_gateway(const std::filesystem::path& socket, const JsonObject& request);

}  // namespace cubepi::app
