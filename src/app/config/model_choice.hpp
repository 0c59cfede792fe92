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

/// The model of a conversation.
struct ModelChoice {
    /// Includes the fallback models (FallbackBoundModel) and the limits.
    BoundModel model = {};
    std::string where = {};         ///< readable text: "gpt-5.1 at api.openai.com"
    std::string key_variable = {};  ///< the source of its key; empty: none
    Endpoint endpoint = {};         ///< with the model named; empty for the offline model
    bool found_locally =
        false;  ///< not configured: announced before the first prompt is sent to it
    bool offline = false;
    std::vector<std::string> fallbacks = {};  ///< their names, in order
    /// Problems that do not prevent the conversation: a fallback model without a key, an invalid file of Bub.
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

/// Asks which of several models to use; returns an index. Only called if `interactive`.
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
