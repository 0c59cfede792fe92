#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/provider/observers.hpp>
#include <cubepi/tracing/span.hpp>
#include <cubepi/tracing/tracer.hpp>

// How runs are named in traces and metrics: the attributes, error types and outcomes of OpenTelemetry's GenAI conventions
// (https://opentelemetry.io/docs/specs/semconv/gen-ai/) and CubePi's own.

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

/// Returns the first 16 hexadecimal digits of the SHA-256 of a system prompt.
SharedString prompt_digest(std::string_view prompt);

/// Returns "approve", "confirm" or "ask".
std::string_view question_kind(const HitlRequest& request);

/// Returns the outcome of a question of that kind: "approved", "denied", "edited", "answered" or "cancelled".
std::string_view answer_outcome(std::string_view kind, const HitlAnswerEvent& event);

/// A question that ended without an answer. Refers to the notice.
struct QuestionEnd {
    std::string_view question_id;
    std::string_view outcome;  ///< "timed_out", "aborted" or "detached"
};

/// Returns the question that a notice is about; empty for any other notice.
std::optional<QuestionEnd> question_end(const Notice& notice);

/// Returns the caller's tags and metadata as attributes: `cubepi.tags`, `cubepi.metadata.<key>`.
std::vector<Attribute> attributes_of(const TraceContext& context);

/// Returns the resource for the identity in the options, with the attributes that name this library.
Resource resource_of(const TracerOptions& options);

}  // namespace cubepi::detail
