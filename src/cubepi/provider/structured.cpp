#include <cubepi/provider/structured.hpp>

#include <utility>

#include <cubepi/provider/structured/answer_form.hpp>

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
