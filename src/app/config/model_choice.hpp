#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

#include "../command_line.hpp"
#include "config_file.hpp"
#include "endpoint.hpp"

namespace cubepi::app {

/// The model that a conversation talks to.
struct ModelChoice {
    BoundModel model = {};
    std::string where = {};         ///< for people: "gpt-5.1 at api.openai.com"
    std::string key_variable = {};  ///< where its key came from; empty: nowhere
    bool found_locally =
        false;  ///< nobody named it: it is announced before the first prompt goes there
    bool offline = false;
};

/// Where the program looks for models: what flags, environment and configuration say. Copied from them at the start, so
/// that tests can say something else.
struct ModelSources {
    ModelFlags flags = {};
    ConfigFile config = {};
    Environment environment = {};
    bool interactive = false;  ///< a person can choose
};

ModelSources model_sources(const ModelFlags& flags, const ConfigFile& config, bool interactive);

/// The names of variables that hold keys, those of the configuration included.
std::vector<std::string> key_variables(const ConfigFile& config);

/// The provider of that name, from the configuration or known. Throws Error(invalid_argument) for others.
Endpoint find_endpoint(const ModelSources& sources, const std::string& name);

/// Every endpoint that somebody configured, by file or by a key in the environment; the one that is used without flags
/// comes first.
std::vector<Endpoint> configured_endpoints(const ModelSources& sources);

/// The endpoint that flags, environment and configuration mean, with the model they name in `model`; without a provider when
/// they name none (then a server on this machine is looked for). Throws Error(invalid_argument): an unknown provider.
Endpoint choose_endpoint(const ModelSources& sources);

/// Asks which of several models to use; gives an index. Only called when `interactive`.
using ChooseModel =
    std::function<Task<std::size_t>(std::string question, std::vector<std::string> models)>;

/// The model to use: flags, then environment, then the configuration, then a local server. Throws Error(not_found) when
/// there is none, with what to do about it; Error(invalid_argument) when several could be meant.
Task<ModelChoice> choose_model(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                               ChooseModel choose);

}  // namespace cubepi::app
