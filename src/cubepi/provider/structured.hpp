#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/provider/provider.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_schema.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi {

/// How the form of an answer is enforced.
enum class StructuredMode : std::uint8_t {
    automatic,  ///< native if endpoint and schema allow it, else a forced tool call
    native,     ///< the endpoint's own JSON Schema mode
    tool,       ///< one tool that the model must call
};

/// Options of generate_structured(). Setters chain.
class StructuredOptions {
public:
    StructuredOptions() {}

    StructuredOptions&& system_prompt(SharedString value) && {
        system_prompt_ = std::move(value);
        return std::move(*this);
    }
    /// Name of the form in the request: letters, digits, "_" and "-". Default "structured_output".
    StructuredOptions&& name(SharedString value) && {
        name_ = std::move(value);
        return std::move(*this);
    }
    StructuredOptions&& description(SharedString value) && {
        description_ = std::move(value);
        return std::move(*this);
    }
    /// A schema instead of the type's own: with descriptions or limits (see json_schema_of<T>() and describe()), or
    /// for a type without a schema (Json).
    StructuredOptions&& schema(Json value) && {
        schema_ = std::make_shared<const Json>(std::move(value));
        return std::move(*this);
    }
    StructuredOptions&& mode(StructuredMode value) && {
        mode_ = value;
        return std::move(*this);
    }
    /// Number of retries after an invalid answer; each sends the errors to the model. Default 1.
    StructuredOptions&& max_retries(int value) && {
        max_retries_ = value;
        return std::move(*this);
    }
    /// Reasoning, stop token, runtime, hooks. Its tool choice and response format are not used.
    StructuredOptions&& call(StreamOptions value) && {
        call_ = std::move(value);
        return std::move(*this);
    }

    const SharedString& system_prompt() const noexcept { return system_prompt_; }
    const SharedString& name() const noexcept { return name_; }
    const SharedString& description() const noexcept { return description_; }
    /// Null: the type's own.
    const std::shared_ptr<const Json>& schema() const noexcept { return schema_; }
    StructuredMode mode() const noexcept { return mode_; }
    int max_retries() const noexcept { return max_retries_; }
    const StreamOptions& call() const noexcept { return call_; }

private:
    SharedString system_prompt_;
    SharedString name_ = "structured_output";
    SharedString description_ = "The answer, in the requested form.";
    std::shared_ptr<const Json> schema_;
    StructuredMode mode_ = StructuredMode::automatic;
    int max_retries_ = 1;
    StreamOptions call_;
};

/// The result of generate_structured(). `->` and `*` access the value.
template <class T>
struct Structured {
    T value = {};
    AssistantMessage message = {};  ///< the answer with the value
    Usage usage = {};               ///< of all attempts
    int attempts = 1;
    /// The messages to append to the conversation: the answers and the replies to them. Always a valid history.
    MessageList exchange = {};

    const T& operator*() const noexcept { return value; }
    T& operator*() noexcept { return value; }
    const T* operator->() const noexcept { return &value; }
    T* operator->() noexcept { return &value; }
};

/// The reason why there is no value.
enum class StructuredFailure : std::uint8_t {
    provider,  ///< the call failed; provider_error() has the endpoint's own error
    aborted,   ///< by the stop token
    refused,   ///< by the model or the filter of the endpoint
    cut_off,   ///< the answer reached a limit of tokens, or the server ended it
    invalid,   ///< the answer does not match the schema, even after the retries; see issues()
};
std::string_view to_string(StructuredFailure failure) noexcept;

/// Thrown by generate_structured(). `code()` is the endpoint's for `provider`, else cancelled, content_filtered, limit,
/// provider (the server ended the answer) or validation.
class StructuredOutputError : public Error {
public:
    struct Details {
        StructuredFailure failure = StructuredFailure::invalid;
        AssistantMessage message = {};         ///< the last answer, as far as it came
        std::string text = {};                 ///< the raw text instead of the value
        std::vector<SchemaIssue> issues = {};  ///< of the last answer
        Usage usage = {};                      ///< of all attempts
        int attempts = 0;
        std::shared_ptr<const Error> provider_error = {};
    };
    StructuredOutputError(ErrorCode code, const std::string& text, Details details);

    StructuredFailure failure() const noexcept { return details_->failure; }
    const AssistantMessage& message() const noexcept { return details_->message; }
    /// The text or the raw arguments that are not a valid value; incomplete if the answer was.
    const std::string& text() const noexcept { return details_->text; }
    const std::vector<SchemaIssue>& issues() const noexcept { return details_->issues; }
    const Usage& usage() const noexcept { return details_->usage; }
    int attempts() const noexcept { return details_->attempts; }
    /// The error of the provider, in its class (RateLimited, ProviderAuthFailed, ...), else null.
    const ProviderError* provider_error() const noexcept;

private:
    std::shared_ptr<const Details> details_;
};

namespace detail {

/// Reads a value into the caller's type. Returns the errors.
using StructuredReader = std::function<std::vector<SchemaIssue>(const Json& value)>;

Task<Structured<Json>> ask_structured(BoundModel model, MessageList messages,
                                      StructuredOptions options, Json schema,
                                      StructuredReader read);

}  // namespace detail

/// Requests a value of a C++ type (see schema/json_convert.hpp) from a model, with retries if the answer is invalid.
///
///     struct Weather { std::string city; double celsius; };
///     auto weather = co_await generate_structured<Weather>(model, "How warm is it in Oslo?");
///     std::cout << weather->city << ": " << weather->celsius;
///
/// Throws StructuredOutputError if there is no value, Error(unsupported) if `native` was requested and is not
/// possible, Error(invalid_argument) for an invalid schema.
template <class T>
Task<Structured<T>> generate_structured(BoundModel model, MessageList messages,
                                        StructuredOptions options = {}) {
    auto value = std::make_shared<T>();
    detail::StructuredReader read = [value](const Json& json) {
        ReadOptions lenient;
        lenient.require_fields = false;
        *value = T{};
        return try_from_json(json, *value, lenient);
    };
    Json schema = options.schema() ? *options.schema() : json_schema_of<T>();
    Task<Structured<Json>> asked =
        detail::ask_structured(std::move(model), std::move(messages), std::move(options),
                               std::move(schema), std::move(read));
    Structured<Json> answer = co_await std::move(asked);
    Structured<T> made;
    made.value = std::move(*value);
    made.message = std::move(answer.message);
    made.usage = answer.usage;
    made.attempts = answer.attempts;
    made.exchange = std::move(answer.exchange);
    co_return made;
}

/// The same for a single prompt.
template <class T>
Task<Structured<T>> generate_structured(BoundModel model, std::string prompt,
                                        StructuredOptions options = {}) {
    MessageList messages;
    messages.push_back(user_message(std::move(prompt)));
    return generate_structured<T>(std::move(model), std::move(messages), std::move(options));
}

}  // namespace cubepi
