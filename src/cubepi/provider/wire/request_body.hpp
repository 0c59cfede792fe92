#pragma once

#include <memory>
#include <string>

#include <cubepi/provider/observers.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// Builds the text of a request body: the protocol's body, after the caller's `on_payload` hook and the observers. Queues
/// notices about what was changed. `observed` is null if there are no observers; all references must outlive the task.
Task<std::string> build_request_body(const ModelRequest& request, const WireProtocol& protocol,
                                     const std::shared_ptr<ObservedCall>& observed,
                                     EventQueue& queue);

}  // namespace cubepi::detail
