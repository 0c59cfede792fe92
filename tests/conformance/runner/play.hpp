#pragma once

#include <functional>
#include <optional>
#include <string>

#include <cubepi/agent/agent.hpp>
#include <cubepi/tracing/tracer.hpp>

#include "scenario.hpp"

namespace conformance {

struct PlayOptions {
    std::string keep = {};  ///< not empty: a new SQLite file, which stays
    /// Connects a tracer with each agent until the next one is made.
    std::function<cubepi::TraceAttachment(cubepi::Agent&)> attach = {};
    std::optional<cubepi::BoundModel> model = {};  ///< instead of that of the script
};

/// Runs a scenario and returns its result (README.md, section 3). Throws Unsupported where the product has no API for it.
JsonObject play(const Scenario& scenario, PlayOptions options = {});

}  // namespace conformance
