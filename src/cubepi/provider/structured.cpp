#include <cubepi/provider/structured.hpp>

#include <exception>
#include <utility>

#include <cubepi/core/support/error_with_text.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/provider/structured/answer_form.hpp>
#include <cubepi/provider/tool_schema.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/support/issue_text.hpp>
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

constexpr std::size_t longest_quote = 200;
/// Key under which values that are not objects are sent, because the form of an answer must be an object.
constexpr std::string_view wrapped_key = "value";

std::string in_quotes(std::string_view text) {
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

std::shared_ptr<const Error> error_of(const AssistantMessage& answer) {
    if (!answer.error) {
        return std::make_shared<const Error>(ErrorCode::provider, answer.error_message.str());
    }
    try {
        throw_provider_error(*answer.error, answer.error_message.str());
    } catch (const ProviderError&) {
        return error_with_text(std::current_exception(), answer.error_message.str());
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
          options_(options),
          form_(std::move(schema), std::move(read), std::move(options)),
          native_(form_.is_native(model_)) {
        made_.attempts = 0;
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
            if (std::optional<StructuredOutputError> failed = form_.failure_of(details({})))
                throw StructuredOutputError(std::move(*failed));
            AnswerForm::Reading reading = form_.read(answer, native_);
            if (reading.value) {
                accept(answer, std::move(*reading.value));
                co_return std::move(made_);
            }
            if (made_.attempts > options_.max_retries())
                throw form_.invalid(details(std::move(reading.issues)));
            add_correction(answer, reading);
        }
    }

private:
    Task<AssistantMessage> ask() {
        if (native_) {
            StreamOptions call = StreamOptions(call_).response_format(form_.format());
            return model_.generate(messages_, options_.system_prompt(), {}, std::move(call));
        }
        ToolDefinitions tools;
        tools.push_back(form_.tool());
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

    StructuredOutputError::Details details(std::vector<SchemaIssue> issues) const {
        StructuredOutputError::Details made;
        made.message = made_.message;
        made.issues = std::move(issues);
        made.usage = made_.usage;
        made.attempts = made_.attempts;
        return made;
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

    /// Adds the answer and the errors in it to the conversation. Each call gets a result, so that the next request is
    /// legal (D1).
    void add_correction(const AssistantMessage& answer, const AnswerForm::Reading& reading) {
        add(Message(answer));
        const std::string wrong = "The answer does not fit:" + issue_lines(reading.issues);
        for (const ToolCall* call : answer.tool_calls()) {
            add(result_of(*call,
                          call == reading.call
                              ? wrong + "\nCall the tool again with all of it, corrected."
                              : "This call was not asked for.",
                          true));
        }
        if (reading.call) return;
        add(synthetic_user_message(form_.retry_text(reading.issues, native_),
                                   structured_retry_source));
    }

    BoundModel model_;
    MessageList messages_;
    StructuredOptions options_;
    AnswerForm form_;
    bool native_;  ///< false: a forced tool call
    StreamOptions call_;
    Structured<Json> made_;
};

}  // namespace

std::string issue_lines(const std::vector<SchemaIssue>& issues) {
    std::string lines;
    for (const SchemaIssue& issue : issues) lines += "\n- " + detail::issue_text(issue);
    return lines;
}

AnswerForm::AnswerForm(Json schema, StructuredReader read, StructuredOptions options)
    : options_(std::move(options)),
      read_(std::move(read)),
      wrapped_(!is_object_schema(schema)),
      schema_(wrapped_ ? wrapped(std::move(schema)) : std::move(schema)) {
    schema_.compile();
    if (options_.mode() == StructuredMode::tool) return;
    std::optional<Json> strict = strict_schema(schema_.source());
    if (!strict) return;
    strict_ = std::make_shared<const Json>(std::move(*strict));
    plain_ = std::make_shared<const Json>(
        lower_tool_schema(schema_.source(), SchemaDialect::inline_refs));
}

bool AnswerForm::is_native(const BoundModel& model) const {
    if (options_.mode() == StructuredMode::tool) return false;
    const bool able = model && model.provider()->takes_response_format(model.spec());
    if (options_.mode() == StructuredMode::automatic) return able && strict_;
    if (able) return true;
    throw Error(ErrorCode::unsupported,
                "structured output: the endpoint of '" + model.spec().id +
                    "' is not known to take a JSON Schema for its answers; set "
                    "CapabilityDescriptor::response_format where it does, or use "
                    "StructuredMode::tool");
}

ResponseFormat AnswerForm::format() const {
    ResponseFormat format;
    format.name = options_.name();
    format.description = options_.description();
    format.schema = strict_ ? strict_ : schema_.shared_source();
    return format;
}

ToolDefinition AnswerForm::tool() const {
    ToolDefinition tool;
    tool.name = options_.name();
    tool.description = options_.description();
    tool.parameters = schema_.shared_source();
    return tool;
}

const ToolCall* AnswerForm::wanted_call(const AssistantMessage& answer) const {
    for (const ToolCall* call : answer.tool_calls()) {
        if (call->name == options_.name()) return call;
    }
    return nullptr;
}

std::string AnswerForm::raw_text(const AssistantMessage& answer) const {
    const ToolCall* call = wanted_call(answer);
    if (!call) return answer.text();
    const Json* raw = call->extra.find("raw_arguments");
    if (raw && raw->is_string()) return std::string(raw->get_string());
    return json_text(call->arguments);
}

AnswerForm::Reading AnswerForm::read(const AssistantMessage& answer, bool native) const {
    Reading reading;
    if (!native) reading.call = wanted_call(answer);
    if (reading.call && !reading.call->extra.find("raw_arguments")) {
        reading.value = Json(reading.call->arguments);
    } else if (!reading.call) {
        // A model that writes the value instead of calling the tool has answered nevertheless.
        reading.value = json_in(answer.text());
    }
    if (reading.value) {
        reading.issues = judge(*reading.value);
        if (!reading.issues.empty()) reading.value.reset();
    } else if (reading.call) {
        reading.issues.push_back(issue_of("the arguments are not valid JSON"));
    } else if (native) {
        reading.issues.push_back(issue_of("the answer is not JSON"));
    } else {
        reading.issues.push_back(issue_of("the tool " + options_.name().str() + " was not called"));
    }
    return reading;
}

std::vector<SchemaIssue> AnswerForm::judge(Json& value) const {
    drop_added_nulls(value, plain_ ? *plain_ : schema_.source());
    std::vector<SchemaIssue> issues = schema_.validate(value);
    if (!issues.empty()) return issues;
    if (wrapped_) {
        Json inner = value.at(wrapped_key);
        value = std::move(inner);
    }
    return read_(value);
}

std::string AnswerForm::retry_text(const std::vector<SchemaIssue>& issues, bool native) const {
    const std::string how = native ? "Write the whole answer again, corrected."
                                   : "Call the tool " + options_.name().str() + " now.";
    return "The answer does not fit:" + issue_lines(issues) + "\n" + how;
}

StructuredOutputError AnswerForm::error(StructuredFailure failure, ErrorCode code,
                                        const std::string& why,
                                        StructuredOutputError::Details details) const {
    details.failure = failure;
    details.text = raw_text(details.message);
    return StructuredOutputError(
        code, "No structured output '" + options_.name().str() + "': " + why, std::move(details));
}

std::optional<StructuredOutputError> AnswerForm::failure_of(
    StructuredOutputError::Details details) const {
    const AssistantMessage& answer = details.message;
    if (answer.stop_reason == stop_reason::aborted)
        return error(StructuredFailure::aborted, ErrorCode::cancelled, "the call was aborted",
                     std::move(details));
    if (answer.stop_reason == stop_reason::error) {
        details.provider_error = error_of(answer);
        const ErrorCode code = details.provider_error->code();
        const std::string why = details.provider_error->what();
        return error(StructuredFailure::provider, code, why, std::move(details));
    }
    if (answer_end(answer) == AnswerEnd::refused) {
        const std::string refusal = answer.text();
        return error(
            StructuredFailure::refused, ErrorCode::content_filtered,
            refusal.empty() ? "the model refused" : "the model refused: " + in_quotes(refusal),
            std::move(details));
    }
    // A call whose arguments were cut off is none. An empty answer is asked for again.
    AssistantMessage judged = answer;
    judged.content = {};
    for (const AssistantContent& block : answer.content) {
        const auto* call = std::get_if<ToolCall>(&block);
        if (!call || !call->extra.find("raw_arguments")) judged.content.push_back(block);
    }
    const AnswerEnd end = answer_end(judged);
    if (end == AnswerEnd::complete || end == AnswerEnd::empty || is_paused(judged))
        return std::nullopt;
    const std::string why =
        end == AnswerEnd::cut_off
            ? "the answer reached its token limit; raise Model::max_tokens, or request less"
            : answer_end_text(judged);
    const std::string begin = in_quotes(raw_text(answer));
    return error(StructuredFailure::cut_off,
                 end == AnswerEnd::incomplete ? ErrorCode::provider : ErrorCode::limit,
                 why + ". It began: " + begin, std::move(details));
}

StructuredOutputError AnswerForm::invalid(StructuredOutputError::Details details) const {
    const std::string tries = details.attempts == 1
                                  ? "the answer does not fit:"
                                  : "after " + std::to_string(details.attempts) +
                                        " attempts the answer still does not fit:";
    const std::string why = tries + issue_lines(details.issues);
    return error(StructuredFailure::invalid, ErrorCode::validation, why, std::move(details));
}

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
