#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

#include "model_sources.hpp"

namespace cubepi::app {

/// The model that a conversation talks to.
struct ModelChoice {
    /// With what it falls back to behind it (FallbackBoundModel), and with its limits.
    BoundModel model = {};
    std::string where = {};         ///< for people: "gpt-5.1 at api.openai.com"
    std::string key_variable = {};  ///< where its key came from; empty: nowhere
    Endpoint endpoint = {};         ///< with the model named; empty for the offline model
    bool found_locally =
        false;  ///< nobody named it: it is announced before the first prompt goes there
    bool offline = false;
    std::vector<std::string> fallbacks = {};  ///< their names, in order
    /// What is wrong and keeps nobody from talking: a model to fall back to that has no key, a file of Bub's that is broken.
    std::vector<std::string> warnings = {};
};

/// Listing the models of an endpoint failed before the conversation began.
class EndpointFailed : public Error {
public:
    EndpointFailed(const Error& error, std::exception_ptr cause, Endpoint endpoint)
        : Error(error), cause_(std::move(cause)), endpoint_(std::move(endpoint)) {}
    const std::exception_ptr& cause() const noexcept { return cause_; }
    const Endpoint& endpoint() const noexcept { return endpoint_; }

private:
    std::exception_ptr cause_;
    Endpoint endpoint_;
};

/// Asks which of several models to use; gives an index. Only called when `interactive`.
using ChooseModel =
    std::function<Task<std::size_t>(std::string question, std::vector<std::string> models)>;

/// `endpoint` with the model it names, with the limits of the settings and without fallbacks. Throws NoModelError if it has
/// no key, Error(invalid_argument) if its address cannot be one.
ModelChoice choice_of(const ModelSources& sources, Endpoint endpoint);

/// The properties of the model that the screen shows: its spec, with the context window of the profile table where the spec
/// has none.
std::shared_ptr<const Model> shown_spec(const ModelChoice& choice);

/// The model to use, by the precedence of ModelSources; a local server if no source names one. Throws NoModelError when
/// there is none, with what to do about it; Error(invalid_argument) when several could be meant.
Task<ModelChoice> choose_model(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                               ChooseModel choose);

}  // namespace cubepi::app
