#pragma once

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/provider/wire/call_attempts.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// Reads a response with an error status, as much of its body as arrives within limits of size and time. The
/// references must outlive the task.
Task<CallFailure> read_error_response(HttpResponse response, const WireProtocol& protocol,
                                      const Runtime& runtime);

}  // namespace cubepi::detail
