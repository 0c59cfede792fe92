#pragma once

#include <memory>
#include <vector>

#include <cubepi/agent/agent.hpp>

#include "message_form.hpp"

namespace conformance {

/// The middleware of the scenario, new objects with counters at their beginning. `known` outlives them.
std::vector<cubepi::Middleware> make_middleware(const std::vector<MiddlewareSpec>& specs,
                                                const std::shared_ptr<cubepi::HitlChannel>& channel,
                                                KnownTexts& known);

/// Puts the rules in as explicit constructor callables.
void set_explicit_hooks(cubepi::AgentOptions& options, const std::vector<HookRule>& rules,
                        KnownTexts& known);

}  // namespace conformance
