#pragma once

#include <memory>
#include <string>

#include <bub/onboarding_ui.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

#include "../config/model_sources.hpp"

namespace cubepi::app {

/// The input of the questions about the model.
struct ModelQuestionsInput {
    ModelSources sources = {};  ///< its flags answer their questions
    std::string key = {};       ///< given on standard input
    std::shared_ptr<HttpTransport> transport = {};
};

/// Asks for provider, address, key and model. Returns the changes of the configuration file as a merge patch. A key
/// from the environment is used and not written; if the endpoint changes, its key and model are removed. Without a
/// user (`ui` is null) flags and defaults decide; a missing value is an Error(invalid_argument).
Task<JsonObject> ask_for_model(ModelQuestionsInput input, bub::OnboardingUi* ui);

}  // namespace cubepi::app
