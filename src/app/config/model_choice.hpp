#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

#include "../command_line.hpp"
#include "config_file.hpp"

namespace cubepi::app {

/// A server on this machine that answered with a list of models.
struct LocalServer {
    std::string name = {};  ///< "Ollama"
    std::string base_url = {};
    std::vector<std::string> models = {};
};

/// The model that a conversation talks to.
struct ModelChoice {
    BoundModel model = {};
    std::string where = {};  ///< for people: "gpt-5.1 at api.openai.com"
    bool found_locally =
        false;  ///< nobody named it: it is announced before the first prompt goes there
    bool offline = false;
};

/// Where the program looks for models: what flags, environment and configuration say. Copied from them at the start, so
/// that tests can say something else.
struct ModelSources {
    ModelFlags flags = {};
    ConfigFile config = {};
    std::string openai_api_key = {};
    std::string openai_base_url = {};
    std::string configured_key = {};  ///< value of the variable that config.api_key_env names
    bool interactive = false;         ///< a person can choose
};

ModelSources model_sources(const ModelFlags& flags, const ConfigFile& config, bool interactive);

/// The ids that `base_url`/models lists. Throws Error when it does not answer a list.
Task<std::vector<std::string>> list_models(std::shared_ptr<HttpTransport> transport,
                                           std::string base_url, std::string api_key);

/// Ollama, llama.cpp, vLLM and LM Studio on their usual ports: those that answer. Asks all at once and waits a
/// second at most.
Task<std::vector<LocalServer>> find_local_servers(std::shared_ptr<HttpTransport> transport);

/// Asks which of several models to use; gives an index. Only called when `interactive`.
using ChooseModel =
    std::function<Task<std::size_t>(std::string question, std::vector<std::string> models)>;

/// The model to use: flags, then environment, then the configuration, then a local server. Throws Error(not_found) when
/// there is none, with what to do about it; Error(invalid_argument) when several could be meant.
Task<ModelChoice> choose_model(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                               ChooseModel choose);

}  // namespace cubepi::app
