#pragma once

#include <iosfwd>

#include <cubepi/agent/listener.hpp>

namespace cubepi {

/// Returns a listener that writes the text of answers to `stream` as it arrives, and a newline after each answer that has
/// text: `agent.subscribe(print_text(std::cout))`. Thinking and tool calls are not written. `stream` must outlive the
/// subscription.
AgentListener print_text(std::ostream& stream);
/// The same for standard output.
AgentListener print_text();

}  // namespace cubepi
