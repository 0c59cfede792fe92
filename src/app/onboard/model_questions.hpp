#pragma once

#include <memory>
#include <string>

#include <bub/onboarding_ui.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

#include "../config/model_sources.hpp"

namespace cubepi::app {

/// What the questions about the model start from.
struct ModelQuestionsInput {
    ModelSources sources = {};  ///< its flags answer their questions
    std::string key = {};       ///< given on standard input
    std::shared_ptr<HttpTransport> transport = {};
};

/// Which provider, where, with which key, which model. Gives what is to change in the configuration file, as a merge patch. A
/// key that the environment has is used and not written; with another endpoint its key and model go. With nobody to ask
/// (`ui` is null) flags and defaults decide; what they leave open is an Error(invalid_argument).
Task<JsonObject> ask_for_model(ModelQuestionsInput input, bub::OnboardingUi* ui);

}  // namespace cubepi::app
