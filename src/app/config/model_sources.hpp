#pragma once

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

}  // namespace cubepi::app
