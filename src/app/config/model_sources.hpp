#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <bub/builtin/settings.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

#include "../command_line.hpp"
#include "config_file.hpp"
#include "provider_kinds.hpp"

namespace cubepi::app {

struct OfferedModel;

/// The context windows of models, in tokens, as the lists of their servers have them. Thread-safe.
class ListedWindows {
public:
    /// Returns the window of the model that the endpoint names; absent: no list that was read has it.
    std::optional<std::int64_t> find(const Endpoint& endpoint) const;
    /// Takes the windows from a list that was read.
    void note(const Endpoint& endpoint, const std::vector<OfferedModel>& models);
    /// Returns true for the first call with this endpoint, which then asks for its list.
    bool begin_asking(const Endpoint& endpoint);

private:
    mutable std::mutex mutex_;
    std::map<std::string, std::map<std::string, std::int64_t>> windows_;  // by address and model
    std::set<std::string> asked_;                                         // addresses
};

/// Returns the window of the model that the endpoint names, for which its server is asked once in a process. A server that does not
/// answer, or lists no window, leaves it unknown.
Task<std::optional<std::int64_t>> listed_window(std::shared_ptr<ListedWindows> windows,
                                                std::shared_ptr<HttpTransport> transport,
                                                Endpoint endpoint);

/// A configured value and its source.
template <class T>
struct Sourced {
    std::optional<T> value = {};
    std::string by = {};  ///< a file or a variable; empty: none
};

/// A model at an endpoint, as stored on a session's tape: selected by `,model`, or used by a run that is suspended. An empty
/// id: none.
struct StoredModel {
    std::string id = {};  ///< as given, alone or with its provider
    std::string provider =
        {};  ///< its provider when it was chosen; empty: stored by Bub or an older version
    std::string address = {};  ///< the public base URL of that provider then

    /// The id without the name of the provider.
    std::string model() const;
    /// From the data of a `model_switch` event.
    static StoredModel of(const JsonObject& data);
    JsonObject to_json() const;
    friend bool operator==(const StoredModel&, const StoredModel&) = default;
};

/// The sources of the choice of a model and of its limits, in the order of their precedence: the flags of this invocation,
/// the session's stored choice, the environment, the configuration file, Bub's settings (BUB_*, then ~/.bub/config.yml).
/// choose_endpoint() applies it. Copied from them at the start, so that tests can use others.
struct ModelSources {
    ModelFlags flags = {};
    StoredModel session = {};
    ConfigFile config = {};
    Environment environment = {};
    bub::Settings bub = {};
    bool interactive = false;  ///< the user can choose
    /// From the lists of models that were read; copies share it.
    std::shared_ptr<ListedWindows> windows = std::make_shared<ListedWindows>();
};

ModelSources model_sources(const ModelFlags& flags, const ConfigFile& config, bool interactive);

/// True if the session's stored choice counts: there is one, and no flag beats it.
bool uses_session(const ModelSources& sources);

/// The names of variables that hold keys, those of the configuration included.
std::vector<std::string> key_variables(const ConfigFile& config);

/// The environment variables of commands: as configured, but never a variable that holds a key.
EnvironmentPolicy command_environment(const ConfigFile& config,
                                      const ModelFlags& flags = ModelFlags());

/// The provider of that name, from the configuration, known, or of Bub's settings. Throws Error(invalid_argument) for
/// others.
Endpoint find_endpoint(const ModelSources& sources, const std::string& name);

/// Every endpoint that is configured by a file or by a key in the environment; the default one comes first.
std::vector<Endpoint> configured_endpoints(const ModelSources& sources);

/// The endpoint that the sources name, by their precedence, with the model they name in `model`; without a provider when
/// they name none (then a local server is searched for). Throws Error(invalid_argument) for an unknown provider,
/// NoModelError for a session's stored choice whose provider is gone or has another address now.
Endpoint choose_endpoint(const ModelSources& sources);

/// There is no model to use; the text says how to get one.
class NoModelError : public Error {
public:
    explicit NoModelError(const std::string& message) : Error(ErrorCode::not_found, message) {}
};

/// No source names a model, and no local server answers.
class NoConfiguredModel : public NoModelError {
public:
    using NoModelError::NoModelError;
};

/// The endpoint of a model that is named alone or with its provider ("anthropic/claude-sonnet-4-5", and as Bub writes it
/// "anthropic:claude-sonnet-4-5"), with the model named; alone, it is one of `primary`. Throws like find_endpoint.
Endpoint endpoint_for_model(const ModelSources& sources, const Endpoint& primary,
                            const std::string& text);

/// Limits of turns: from the configuration file, else from Bub's settings.
struct TurnSettings {
    Sourced<std::vector<std::string>> fallback_models = {};
    Sourced<std::chrono::milliseconds> model_timeout = {};  ///< of one call of a model, in total
    std::optional<std::chrono::milliseconds> first_byte_timeout = {};
    std::optional<std::chrono::milliseconds> idle_timeout = {};
    Sourced<std::size_t> max_turns = {};    ///< model calls of one prompt
    Sourced<std::int64_t> max_tokens = {};  ///< of one answer

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
