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
    bool found_locally =
        false;  ///< nobody named it: it is announced before the first prompt goes there
    bool offline = false;
    /// Another model for the same conversation, also as provider/model: it alone, with the same limits. Throws Error when
    /// there is no such provider or no key for it. Null for the offline model.
    std::function<BoundModel(const std::string& id)> find_model = {};
    std::vector<std::string> fallbacks = {};  ///< their names, in order
    /// What is wrong and keeps nobody from talking: a model to fall back to that has no key, a file of Bub's that is broken.
    std::vector<std::string> warnings = {};
};

/// An endpoint that was to say what it offers, before there was a conversation.
class EndpointFailed : public Error {
public:
    EndpointFailed(ErrorCode code, const std::string& text, std::exception_ptr cause,
                   std::string where, std::string key_variable)
        : Error(code, text),
          cause_(std::move(cause)),
          where_(std::move(where)),
          key_variable_(std::move(key_variable)) {}
    const std::exception_ptr& cause() const noexcept { return cause_; }
    const std::string& where() const noexcept { return where_; }
    const std::string& key_variable() const noexcept { return key_variable_; }

private:
    std::exception_ptr cause_;
    std::string where_;
    std::string key_variable_;
};

/// Asks which of several models to use; gives an index. Only called when `interactive`.
using ChooseModel =
    std::function<Task<std::size_t>(std::string question, std::vector<std::string> models)>;

/// The model to use: flags, then environment, then the configuration, then Bub's settings, then a local server. Throws
/// Error(not_found) when there is none, with what to do about it; Error(invalid_argument) when several could be meant.
Task<ModelChoice> choose_model(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                               ChooseModel choose);

}  // namespace cubepi::app
