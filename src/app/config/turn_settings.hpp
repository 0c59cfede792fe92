#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "endpoint.hpp"
#include "model_sources.hpp"
#include "sourced.hpp"

namespace cubepi::app {

/// Limits of turns: from the configuration file, else from Bub's settings.
struct TurnSettings {
    Sourced<std::vector<std::string>> fallback_models = {};
    Sourced<std::chrono::milliseconds> model_timeout = {};  ///< of one call of a model, in total
    Sourced<std::size_t> max_turns = {};                    ///< model calls of one prompt
    Sourced<std::int64_t> max_tokens = {};                  ///< of one answer

    CallLimits limits() const;
};
TurnSettings turn_settings(const ModelSources& sources);

/// A model that is called if the previous one fails, or the reason why it cannot be.
struct FallbackModel {
    std::string name = {};     ///< as it was written
    Endpoint endpoint = {};    ///< with the model named
    std::string problem = {};  ///< not empty: the model is omitted
};
/// The models to call after the one of `primary`. None if flags or the session name a model, provider or server.
std::vector<FallbackModel> fallback_models(const ModelSources& sources, const Endpoint& primary);

}  // namespace cubepi::app
