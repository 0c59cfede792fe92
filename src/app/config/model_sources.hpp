#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <bub/builtin/settings.hpp>

#include "../command_line.hpp"
#include "config_file.hpp"
#include "endpoint.hpp"

namespace cubepi::app {

/// Where the program looks for models and for what they may take: flags, the environment, the configuration file, and where
/// these are silent Bub's settings (BUB_*, then ~/.bub/config.yml). Copied from them at the start, so that tests can say
/// something else.
struct ModelSources {
    ModelFlags flags = {};
    ConfigFile config = {};
    Environment environment = {};
    bub::Settings bub = {};
    bool interactive = false;  ///< a person can choose
};

ModelSources model_sources(const ModelFlags& flags, const ConfigFile& config, bool interactive);

/// The names of variables that hold keys, those of the configuration included.
std::vector<std::string> key_variables(const ConfigFile& config);

/// The provider of that name, from the configuration, known, or of Bub's settings. Throws Error(invalid_argument) for
/// others.
Endpoint find_endpoint(const ModelSources& sources, const std::string& name);

/// Every endpoint that somebody configured, by file or by a key in the environment; the one that is used without flags
/// comes first.
std::vector<Endpoint> configured_endpoints(const ModelSources& sources);

/// The endpoint that flags, environment and configuration mean, with the model they name in `model`; without a provider when
/// they name none (then a server on this machine is looked for). Throws Error(invalid_argument): an unknown provider.
Endpoint choose_endpoint(const ModelSources& sources);

/// The endpoint of a model that is named alone or with its provider ("anthropic/claude-sonnet-4-5", and as Bub writes it
/// "anthropic:claude-sonnet-4-5"), with the model named; alone, it is one of `usual`. Throws like find_endpoint.
Endpoint endpoint_for_model(const ModelSources& sources, const Endpoint& usual,
                            const std::string& text);

/// A model that is asked when the one before does not answer, or why it cannot be.
struct FallbackModel {
    std::string name = {};     ///< as it was written
    Endpoint endpoint = {};    ///< with the model named
    std::string problem = {};  ///< not empty: it is left out
};
/// The models behind the one of `usual`. None for a model, provider or server that flags name: that one is meant, and no
/// other.
std::vector<FallbackModel> fallback_models(const ModelSources& sources, const Endpoint& usual);

/// A value, and who said it.
template <class T>
struct Said {
    std::optional<T> value = {};
    std::string by = {};  ///< a file or a variable; empty: nobody
};

/// What turns may take: the configuration file's word, else Bub's.
struct TurnSettings {
    Said<std::vector<std::string>> fallback_models = {};
    Said<std::chrono::milliseconds> model_timeout = {};  ///< of one call of a model, all in all
    Said<std::size_t> max_turns = {};                    ///< model calls of one prompt
    Said<std::int64_t> max_tokens = {};                  ///< of one answer

    CallLimits limits() const;
};
TurnSettings turn_settings(const ModelSources& sources);

}  // namespace cubepi::app
