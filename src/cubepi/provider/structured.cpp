#include <cubepi/provider/structured.hpp>

#include <utility>

#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/openai/strict_schema.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi {

std::string_view to_string(StructuredFailure failure) noexcept {
    switch (failure) {
        case StructuredFailure::provider: return "provider";
        case StructuredFailure::aborted: return "aborted";
        case StructuredFailure::refused: return "refused";
        case StructuredFailure::cut_off: return "cut_off";
        case StructuredFailure::invalid: return "invalid";
    }
    return "invalid";
}

StructuredOutputError::StructuredOutputError(ErrorCode code, const std::string& text,
                                             Details details)
    : Error(code, text), details_(std::make_shared<const Details>(std::move(details))) {}

const ProviderError* StructuredOutputError::provider_error() const noexcept {
    return dynamic_cast<const ProviderError*>(details_->provider_error.get());
}

namespace detail {

namespace {

constexpr std::string_view retry_source = "structured_output_retry";
constexpr std::size_t longest_quote = 200;
/// Key under which values that are not objects are sent, because the form of an answer must be an object.
constexpr std::string_view wrapped_key = "value";

std::string quoted(std::string_view text) {
    if (text.size() <= longest_quote) return std::string(text);
    return std::string(text.substr(0, complete_utf8_prefix(text.substr(0, longest_quote)))) + "...";
}

bool is_object_schema(const Json& schema) {
    const JsonObject* object = schema.if_object();
    if (!object) return false;
    const Json* type = object->if_contains("type");
    return type && *type == Json("object");
}

Json wrapped(Json schema) {
    JsonObject made;
    made["type"] = "object";
    // References of the schema are from its root, which must be this one then.
    if (JsonObject* object = schema.if_object()) {
        for (const std::string_view key : {"$defs", "definitions"}) {
            const Json* definitions = object->if_contains(key);
            if (!definitions) continue;
            made[key] = *definitions;
            object->stable_erase(key);
        }
    }
    JsonObject properties;
    properties[wrapped_key] = std::move(schema);
    made["properties"] = std::move(properties);
    JsonArray required;
    required.emplace_back(wrapped_key);
    made["required"] = std::move(required);
    return made;
}

/// The JSON in a text: all of it, what stands in a code fence, or from the first brace to the last.
std::optional<Json> json_in(std::string_view text) {
    JsonTextError error;
    Json value = parse_json(text, error);
    if (!error) return value;
    const std::size_t begin = text.find('{');
    const std::size_t end = text.rfind('}');
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin)
        return std::nullopt;
    value = parse_json(text.substr(begin, end + 1 - begin), error);
    if (error) return std::nullopt;
    return value;
}

SchemaIssue issue_of(std::string message) {
    SchemaIssue issue;
    issue.path = "<root>";
    issue.message = std::move(message);
    return issue;
}

std::string lines_of(const std::vector<SchemaIssue>& issues) {
    std::string lines;
    for (const SchemaIssue& issue : issues) lines += "\n- " + issue.path + ": " + issue.message;
    return lines;
}

std::shared_ptr<const Error> error_of(const AssistantMessage& answer) {
    if (!answer.error) {
        return std::make_shared<const Error>(ErrorCode::provider, answer.error_message.str());
    }
    try {
        throw_provider_error(*answer.error, answer.error_message.str());
    } catch (const ContextLengthExceeded& error) {
        return std::make_shared<const ContextLengthExceeded>(error);
    } catch (const RateLimited& error) {
        return std::make_shared<const RateLimited>(error);
    } catch (const ProviderAuthFailed& error) {
        return std::make_shared<const ProviderAuthFailed>(error);
    } catch (const ProviderUnavailable& error) {
        return std::make_shared<const ProviderUnavailable>(error);
    } catch (const ProviderBadRequest& error) {
        return std::make_shared<const ProviderBadRequest>(error);
    } catch (const ModelNotFound& error) {
        return std::make_shared<const ModelNotFound>(error);
    } catch (const ContentFiltered& error) {
        return std::make_shared<const ContentFiltered>(error);
    } catch (const ProviderError& error) {
        return std::make_shared<const ProviderError>(error);
    }
}

Message result_of(const ToolCall& call, std::string text, bool is_error) {
    ToolResultMessage result;
    result.tool_call_id = call.id;
    result.tool_name = call.name;
    TextContent content;
    content.text = std::move(text);
    result.content.emplace_back(std::move(content));
    result.is_error = is_error;
    return Message(std::move(result));
}

/// One generate_structured(): asks, reads, asks again.
class Asking {
public:
    Asking(BoundModel model, MessageList messages, StructuredOptions options, Json schema,
           StructuredReader read)
        : model_(std::move(model)),
          messages_(std::move(messages)),
          options_(std::move(options)),
          read_(std::move(read)),
          wrapped_(!is_object_schema(schema)),
          schema_(wrapped_ ? wrapped(std::move(schema)) : std::move(schema)) {
        schema_.compile();
        choose_mode();
        call_ = options_.call();
        if (call_.run_id().empty())
            call_ = StreamOptions(call_).run_id("structured-" + call_.runtime()->ids->next());
    }

    Task<Structured<Json>> run() {
        for (;;) {
            ++made_.attempts;
            Task<AssistantMessage> asked = ask();
            AssistantMessage answer = co_await std::move(asked);
            if (answer.usage) made_.usage += *answer.usage;
            made_.message = answer;
            refuse_failures();
            std::optional<Json> value = value_of(answer);
            if (value) issues_ = judge(*value);
            if (value && issues_.empty()) {
                accept(answer, std::move(*value));
                co_return std::move(made_);
            }
            if (made_.attempts > options_.max_retries()) throw_invalid();
            say_what_is_wrong(answer);
        }
    }

private:
    void choose_mode() {
        made_.attempts = 0;
        const bool able = model_ && model_.provider()->takes_response_format(model_.spec());
        std::optional<Json> strict = strict_schema(schema_.source());
        switch (options_.mode()) {
            case StructuredMode::tool: return;
            case StructuredMode::automatic:
                if (!able || !strict) return;
                break;
            case StructuredMode::native:
                if (able) break;
                throw Error(ErrorCode::unsupported,
                            "generate_structured: the endpoint of '" + model_.spec().id +
                                "' is not known to take a JSON Schema for its answers; set "
                                "CapabilityDescriptor::response_format where it does, or use "
                                "StructuredMode::tool");
        }
        format_.emplace();
        format_->name = options_.name();
        format_->description = options_.description();
        format_->schema =
            std::make_shared<const Json>(strict ? std::move(*strict) : schema_.source());
    }

    Task<AssistantMessage> ask() {
        if (format_) {
            StreamOptions call = StreamOptions(call_).response_format(*format_);
            return model_.generate(messages_, options_.system_prompt(), {}, std::move(call));
        }
        ToolDefinition tool;
        tool.name = options_.name();
        tool.description = options_.description();
        tool.parameters = std::make_shared<const Json>(schema_.source());
        ToolDefinitions tools;
        tools.push_back(std::move(tool));
        ToolChoice choice;
        choice.mode = ToolChoice::Mode::named;
        choice.name = options_.name().str();
        StreamOptions call = StreamOptions(call_).tool_choice(std::move(choice));
        std::string prompt = options_.system_prompt().str();
        if (!prompt.empty()) prompt += "\n\n";
        prompt += "Answer only by calling the tool " + options_.name().str() +
                  ", once, with the whole answer as its arguments.";
        return model_.generate(messages_, SharedString(std::move(prompt)),
                               std::make_shared<const ToolDefinitions>(std::move(tools)),
                               std::move(call));
    }

    /// The call that the model was to make.
    const ToolCall* wanted_call(const AssistantMessage& answer) const {
        for (const ToolCall* call : answer.tool_calls()) {
            if (!format_ && call->name == options_.name()) return call;
        }
        return nullptr;
    }

    /// The unchanged text that was received instead of the value.
    std::string raw_text(const AssistantMessage& answer) const {
        const ToolCall* call = wanted_call(answer);
        if (!call) return answer.text();
        const Json* raw = call->extra.find("raw_arguments");
        if (raw && raw->is_string()) return std::string(raw->get_string());
        return boost::json::serialize(call->arguments);
    }

    [[noreturn]] void fail(StructuredFailure failure, ErrorCode code, const std::string& why,
                           std::shared_ptr<const Error> provider_error = {}) const {
        StructuredOutputError::Details details;
        details.failure = failure;
        details.message = made_.message;
        details.text = raw_text(made_.message);
        details.issues = issues_;
        details.usage = made_.usage;
        details.attempts = made_.attempts;
        details.provider_error = std::move(provider_error);
        throw StructuredOutputError(code,
                                    "No structured output '" + options_.name().str() + "': " + why,
                                    std::move(details));
    }

    /// Throws for answers that a retry would not correct.
    void refuse_failures() const {
        const AssistantMessage& answer = made_.message;
        if (answer.stop_reason == stop_reason::aborted)
            fail(StructuredFailure::aborted, ErrorCode::cancelled, "the call was aborted");
        if (answer.stop_reason == stop_reason::error) {
            std::shared_ptr<const Error> error = error_of(answer);
            const ErrorCode code = error->code();
            const std::string why = error->what();
            fail(StructuredFailure::provider, code, why, std::move(error));
        }
        if (answer.is_refusal()) {
            const std::string refusal = answer.text();
            fail(StructuredFailure::refused, ErrorCode::content_filtered,
                 refusal.empty() ? "the model refused" : "the model refused: " + quoted(refusal));
        }
        if (answer.stop_reason == stop_reason::length) {
            fail(StructuredFailure::cut_off, ErrorCode::limit,
                 "the answer reached its token limit; raise Model::max_tokens, or request less. It "
                 "began: " +
                     quoted(raw_text(answer)));
        }
    }

    std::optional<Json> value_of(const AssistantMessage& answer) {
        const ToolCall* call = wanted_call(answer);
        if (call && !call->extra.find("raw_arguments")) return Json(call->arguments);
        // A model that writes the value instead of calling the tool has answered all the same.
        std::optional<Json> value = call ? std::nullopt : json_in(answer.text());
        if (value) return value;
        issues_.clear();
        if (call) {
            issues_.push_back(issue_of("the arguments are not valid JSON"));
        } else if (format_) {
            issues_.push_back(issue_of("the answer is not JSON"));
        } else {
            issues_.push_back(issue_of("the tool " + options_.name().str() + " was not called"));
        }
        return std::nullopt;
    }

    std::vector<SchemaIssue> judge(Json& value) {
        drop_added_nulls(value, schema_.source());
        std::vector<SchemaIssue> issues = schema_.validate(value);
        if (!issues.empty()) return issues;
        if (wrapped_) {
            Json inner = value.at(wrapped_key);
            value = std::move(inner);
        }
        return read_(value);
    }

    void add(Message message) {
        messages_.push_back(message);
        made_.exchange.push_back(std::move(message));
    }

    void accept(const AssistantMessage& answer, Json value) {
        made_.value = std::move(value);
        add(Message(answer));
        for (const ToolCall* call : answer.tool_calls()) add(result_of(*call, "Accepted.", false));
    }

    /// Puts the answer and what is wrong with it behind the conversation. Each call gets a result, so that the
    /// next request is legal (D1).
    void say_what_is_wrong(const AssistantMessage& answer) {
        add(Message(answer));
        const ToolCall* wanted = wanted_call(answer);
        const std::string wrong = "The answer does not fit:" + lines_of(issues_);
        for (const ToolCall* call : answer.tool_calls()) {
            add(result_of(*call,
                          call == wanted
                              ? wrong + "\nCall the tool again with all of it, corrected."
                              : "This call was not asked for.",
                          true));
        }
        if (wanted) return;
        const std::string how = format_ ? "Write the whole answer again, corrected."
                                        : "Call the tool " + options_.name().str() + " now.";
        add(synthetic_user_message(wrong + "\n" + how, retry_source));
    }

    [[noreturn]] void throw_invalid() const {
        const std::string tries = made_.attempts == 1
                                      ? "the answer does not fit:"
                                      : "after " + std::to_string(made_.attempts) +
                                            " attempts the answer still does not fit:";
        fail(StructuredFailure::invalid, ErrorCode::validation, tries + lines_of(issues_));
    }

    BoundModel model_;
    MessageList messages_;
    StructuredOptions options_;
    StructuredReader read_;
    bool wrapped_;
    JsonSchema schema_;
    std::optional<ResponseFormat> format_;  ///< empty: a forced tool call
    StreamOptions call_;
    std::vector<SchemaIssue> issues_;
    Structured<Json> made_;
};

}  // namespace

Task<Structured<Json>> ask_structured(BoundModel model, MessageList messages,
                                      StructuredOptions options, Json schema,
                                      StructuredReader read) {
    Asking asking(std::move(model), std::move(messages), std::move(options), std::move(schema),
                  std::move(read));
    Task<Structured<Json>> asked = asking.run();
    Structured<Json> answer = co_await std::move(asked);
    co_return answer;
}

}  // namespace detail

}  // namespace cubepi
