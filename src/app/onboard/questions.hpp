#pragma once

#include <memory>
#include <string>

#include <bub/onboarding_ui.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

#include "../channels/channel_kinds.hpp"
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

/// Returns the changes of the configuration file for the user, a line each, without secrets.
std::string settings_changes(const JsonObject& before, const JsonObject& wanted,
                             const std::string& path = {});

/// Returns the text of the configuration file with comments before the settings of a channel that have none.
std::string with_channel_comments(const ChannelKind& kind, const std::string& text);

/// Returns the index of the option that `answer` names: by its number from 1, by its name, or by the beginning of one name only.
/// Upper case, blanks and punctuation do not matter. An option may have a remark in parentheses after its name.
std::optional<std::size_t> option_named(const std::string& answer,
                                        const std::vector<std::string>& options);

}  // namespace cubepi::app
