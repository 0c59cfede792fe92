#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/middleware.hpp>

#include "scenario.hpp"

namespace conformance {

/// Parts of an agent that the product's own middleware uses.
struct MiddlewareParts {
    std::shared_ptr<cubepi::HitlChannel> channel;
    cubepi::BoundModel model;   ///< of sub-agents
    cubepi::BoundModel helper;  ///< writes summaries, evaluates goals
    std::function<cubepi::AgentTool(const ToolSpec&)> make_tool;
    std::function<std::shared_ptr<void>(cubepi::Agent&)> on_agent;  ///< called for each sub-agent
};

/// Returns true for a key that stands for the product's own middleware.
bool is_product_middleware(std::string_view key);
/// Throws BadFile, also for an unknown option.
cubepi::Middleware make_product_middleware(const ProductSpec& spec, const MiddlewareParts& parts);

}  // namespace conformance
