#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/observers.hpp>
#include <cubepi/tracing/span.hpp>

// The attributes of a model call, according to OpenTelemetry's GenAI conventions.

namespace cubepi::detail {

/// Returns the name of a provider in the conventions: "azure.ai.openai" for "azure_openai"; "unknown:<id>" for one that they do
/// not list, "unknown" for an empty id.
AttributeValue provider_name(std::string_view provider_id);

/// The texts of a model in the spans of its calls.
struct ModelTexts {
    std::string provider_id = {};
    SharedString span_name = {};  ///< "chat gpt-5.1"
    AttributeValue provider = {};
    SharedString model = {};
};

/// Returns the texts of a model. They are created only if the model is another one than at the last call on this thread; valid until
/// the next one.
const ModelTexts& texts_of(const Model& model);

/// Adds what the request says. `texts` are those of its model; `payload` is the body that is sent, null if the provider has built
/// none.
void add_request_attributes(Attributes& attributes, const ProviderCall& call,
                            const ModelTexts& texts, const JsonObject* payload);

/// Adds what the answer and its endpoint say. `model` has the prices.
void add_response_attributes(Attributes& attributes, const Model& model,
                             const AssistantMessage& answer, const ResponseDetails& details);

/// Returns the `error.type` of a failure, in CubePi's form: "cubepi.errors.RateLimited".
std::string error_type_of_call(const ErrorInfo& error);

/// Returns the `error.type` of the error that ended a run: of a model call as above, else "cubepi." and the code.
std::string error_type_of_run(const Error& error);

/// Returns the first 16 hexadecimal digits of the SHA-256 of a text.
std::string short_sha256(std::string_view text);

}  // namespace cubepi::detail
