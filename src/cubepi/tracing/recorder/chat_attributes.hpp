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

/// Adds what the request says. `body`: with settings such as the temperature; may be null.
void add_request_attributes(Attributes& attributes, const ProviderCall& call,
                            const JsonObject* body);

/// Adds what the answer and its endpoint say. `cost`: of the answer; absent: unknown.
void add_response_attributes(Attributes& attributes, const AssistantMessage& answer,
                             const ResponseDetails& details, std::optional<double> cost);

/// Returns the `error.type` of a failure, in CubePi's form: "cubepi.errors.RateLimited".
std::string error_type_of_call(const ErrorInfo& error);

/// Returns the `error.type` of the error that ended a run: of a model call as above, else "cubepi." and the code.
std::string error_type_of_run(const Error& error);

/// Returns the first 16 hexadecimal digits of the SHA-256 of a system prompt. Computed only if the prompt is another one than at the
/// last call on this thread.
SharedString prompt_digest(const SharedString& prompt);

}  // namespace cubepi::detail
