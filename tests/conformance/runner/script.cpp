#include "script.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <cubepi/core/message.hpp>

#include "support.hpp"

namespace conformance {

namespace {

using cubepi::HookContext;
using cubepi::Message;
using cubepi::MessageList;

class YieldingSource final : public cubepi::StreamSource {
public:
    /// With `input_tokens`, the answer reports this usage instead of that of Faux.
    YieldingSource(cubepi::MessageStream inner, std::optional<std::int64_t> input_tokens)
        : inner_(std::move(inner)), input_tokens_(input_tokens) {}

    cubepi::Task<cubepi::StreamEvent> next() override {
        co_await cubepi::yield_now();
        std::optional<cubepi::StreamEvent> event = co_await inner_.next();
        if (!event) throw std::logic_error("the model's stream was read beyond its end");
        if (input_tokens_ && event->type == cubepi::StreamEventType::done) {
            cubepi::AssistantMessage answer = event->partial.get();
            answer.usage.emplace();
            answer.usage->input_tokens = *input_tokens_;
            answer.usage->output_tokens = 1;
            event->partial = cubepi::PartialMessage(Message(std::move(answer)));
        }
        co_return std::move(*event);
    }

private:
    cubepi::MessageStream inner_;
    std::optional<std::int64_t> input_tokens_;
};

cubepi::FauxOptions faux_options(const Scenario& scenario) {
    cubepi::FauxOptions options;
    options.token_size_min = scenario.token_size;
    options.token_size_max = scenario.token_size;
    options.prompt_cache = scenario.usage;
    options.provider_id = "faux";
    return options;
}

}  // namespace

RecordingProvider::RecordingProvider(const std::vector<ScriptItem>& script,
                                     const Scenario& scenario, Sink sink)
    : faux_(faux_options(scenario)), sink_(std::move(sink)) {
    std::vector<cubepi::FauxStep> steps;
    for (const ScriptItem& item : script) {
        input_tokens_.push_back(item.input_tokens);
        if (item.thrown) {
            steps.push_back(cubepi::faux_failure(*item.thrown));
        } else {
            steps.emplace_back(item.message);
        }
    }
    faux_.set_responses(std::move(steps));
}

cubepi::MessageStream RecordingProvider::stream(cubepi::ModelRequest request) {
    std::optional<std::int64_t> input_tokens;
    if (!request.options.stop_token().stop_requested()) {
        sink_(request);
        if (!input_tokens_.empty()) {
            input_tokens = input_tokens_.front();
            input_tokens_.pop_front();
        }
    }
    cubepi::MessageStream stream = faux_.stream(std::move(request));
    return cubepi::MessageStream(std::make_unique<YieldingSource>(std::move(stream), input_tokens));
}

namespace {

struct ToolBody {
    ToolSpec spec;
    std::function<void(std::string)> started;
    KnownTexts& known;
};

std::string argument_text(const Json& value) {
    if (value.is_string()) return std::string(value.get_string());
    if (value.is_array()) {
        std::string joined;
        for (const Json& item : value.get_array()) {
            if (&item != &value.get_array().front()) joined += ',';
            joined += argument_text(item);
        }
        return joined;
    }
    return boost::json::serialize(value);
}

/// `text` with {name} replaced by the argument of that name, or the default of its property.
std::string filled(const std::string& text, const ToolSpec& spec, const JsonObject& arguments) {
    std::string result = text;
    for (const auto& [name, property] : spec.parameters.at("properties").as_object()) {
        const std::string mark = "{" + std::string(name) + "}";
        const Json* value = arguments.if_contains(name);
        if (!value) value = property.as_object().if_contains("default");
        for (std::size_t at = result.find(mark); at != std::string::npos;
             at = result.find(mark, at)) {
            const std::string replacement = value ? argument_text(*value) : "";
            result.replace(at, mark.size(), replacement);
            at += replacement.size();
        }
    }
    return result;
}

cubepi::AgentToolResult returned(const ToolBody& body, const JsonObject& form,
                                 const JsonObject& arguments) {
    const std::string text = filled(text_or(form, "text", ""), body.spec, arguments);
    body.known.results.insert(text);
    cubepi::AgentToolResult result(text);
    if (const Json* details = form.if_contains("details")) result.details = *details;
    if (const Json* flag = form.if_contains("is_error"))
        result.is_error = as_flag(*flag, "is_error");
    if (const Json* flag = form.if_contains("terminate"))
        result.terminate = as_flag(*flag, "terminate");
    return result;
}

cubepi::Task<> wait_for_abort(const cubepi::ToolContext& context) {
    while (!context.stop_token().stop_requested()) {
        co_await context.runtime().clock->sleep_for(std::chrono::milliseconds(1));
    }
}

cubepi::Task<cubepi::AgentToolResult> run_body(std::shared_ptr<const ToolBody> body,
                                               JsonObject arguments, cubepi::ToolContext& context) {
    body->started(context.tool_call_id() + ":" + body->spec.name);
    cubepi::AgentToolResult result("");
    for (const Json& step : body->spec.steps) {
        const auto entry = step.get_object().begin();
        const std::string_view what = entry->key();
        const Json& value = entry->value();
        if (what == "sleep_ms") {
            co_await context.runtime().clock->sleep_for(
                std::chrono::milliseconds(as_number(value, "sleep_ms")));
        } else if (what == "update") {
            Json progress = value;
            co_await context.update(std::move(progress));
        } else if (what == "wait_abort") {
            co_await wait_for_abort(context);
        } else if (what == "throw") {
            const std::string text = filled(as_text(value, "throw"), body->spec, arguments);
            body->known.results.insert(text);
            throw ToolFault(text);
        } else {
            result = returned(*body, as_object(value, "return"), arguments);
            break;
        }
    }
    co_return result;
}

}  // namespace

cubepi::AgentTool make_tool(const ToolSpec& spec, std::function<void(std::string)> started,
                            KnownTexts& known) {
    auto body = std::make_shared<const ToolBody>(ToolBody{spec, std::move(started), known});
    auto execute = [body](JsonObject arguments, cubepi::ToolContext& context) {
        return run_body(body, std::move(arguments), context);
    };
    cubepi::AgentTool tool(spec.name, spec.description, cubepi::JsonSchema(spec.parameters),
                           std::move(execute));
    if (spec.sequential) tool.execution_mode = cubepi::ExecutionMode::sequential;
    return tool;
}

namespace {

/// One rule with its counter. Each hook below is one rule's behaviour; copies share the counter.
class Rule {
public:
    Rule(const HookRule& spec, KnownTexts& known)
        : state_(std::make_shared<State>(State{spec.rule, 0, known})) {}

    const JsonObject& form() const { return state_->form; }
    KnownTexts& known() const { return state_->known; }
    std::int64_t calls() const { return state_->calls; }
    const Json* find(std::string_view key) const { return form().if_contains(key); }

    /// Counts an invocation. Whether the rule acts on it; throws where it is told to.
    bool acts() const {
        const std::int64_t call = ++state_->calls;
        if (find("at") && call != as_number(*find("at"), "at")) return false;
        if (find("times") && call > as_number(*find("times"), "times")) return false;
        if (const Json* text = find("throw")) throw HookFault(as_text(*text, "throw"));
        return true;
    }
    bool acts_on_tool(std::string_view name) const {
        const Json* only = find("tool");
        return (!only || name == as_text(*only, "tool")) && acts();
    }
    MessageList injected() const {
        MessageList messages;
        if (const Json* texts = find("inject")) {
            for (const Json& text : as_array(*texts, "inject")) {
                messages.push_back(cubepi::user_message(as_text(text, "inject")));
            }
        }
        return messages;
    }

private:
    struct State {
        JsonObject form;
        std::int64_t calls;
        KnownTexts& known;
    };
    std::shared_ptr<State> state_;
};

struct TransformContext {
    Rule rule;
    MessageList transform_context(MessageList messages, HookContext& context) {
        if (!rule.acts()) return messages;
        if (const Json* extra = rule.find("set_extra")) {
            for (const auto& [key, value] : as_object(*extra, "set_extra"))
                context.extra[key] = value;
        }
        if (const Json* window = rule.find("window")) {
            messages = messages.last(static_cast<std::size_t>(as_number(*window, "window")));
        }
        if (const Json* text = rule.find("prepend_user")) {
            messages = messages.with_front(cubepi::user_message(as_text(*text, "prepend_user")));
        }
        if (const Json* text = rule.find("append_user")) {
            messages.push_back(cubepi::user_message(as_text(*text, "append_user")));
        }
        return messages;
    }
};

struct ConvertToLlm {
    Rule rule;
    MessageList convert_to_llm(MessageList messages, HookContext&) {
        if (!rule.acts()) return messages;
        MessageList converted;
        for (const Message& message : messages) {
            if (!message.user()) {
                converted.push_back(message);
                continue;
            }
            cubepi::UserMessage changed = *message.user();
            std::string text = message.text();
            if (flag_or(rule.form(), "upper", false)) text = upper_case(text);
            text += text_or(rule.form(), "suffix", "");
            cubepi::TextContent block;
            block.text = std::move(text);
            changed.content.clear();
            changed.content.emplace_back(std::move(block));
            converted.push_back(std::move(changed));
        }
        return converted;
    }
};

struct TransformSystemPrompt {
    Rule rule;
    std::string transform_system_prompt(std::string prompt, HookContext&) {
        if (rule.acts()) prompt += text_or(rule.form(), "append", "");
        return prompt;
    }
};

struct ResolveToolCall {
    Rule rule;
    std::optional<cubepi::ToolCall> resolve_tool_call(cubepi::ToolCall call, HookContext&) {
        if (!rule.acts()) return std::nullopt;
        const Json* aliases = rule.find("alias");
        const Json* alias =
            aliases ? as_object(*aliases, "alias").if_contains(call.name.str()) : nullptr;
        if (!alias) return std::nullopt;
        call.name = cubepi::SharedString(as_text(*alias, "alias"));
        if (const Json* args = rule.find("args")) {
            for (const auto& [key, value] : as_object(*args, "args")) call.arguments[key] = value;
        }
        return call;
    }
};

struct BeforeToolCall {
    Rule rule;
    std::optional<cubepi::BeforeToolCallResult> before_tool_call(
        cubepi::BeforeToolCallContext& context) {
        if (!rule.acts_on_tool(context.tool_call.name.str())) return std::nullopt;
        cubepi::BeforeToolCallResult result;
        if (const Json* reason = rule.find("block")) {
            result.block = true;
            result.reason = as_text(*reason, "block");
            rule.known().results.insert(result.reason);
        }
        if (const Json* edit = rule.find("edit")) {
            result.edited_args = context.args;
            for (const auto& [key, value] : as_object(*edit, "edit"))
                (*result.edited_args)[key] = value;
        }
        if (const Json* edit = rule.find("edit_append")) {
            if (!result.edited_args) result.edited_args = context.args;
            for (const auto& [key, value] : as_object(*edit, "edit_append")) {
                Json& argument = (*result.edited_args)[key];
                argument =
                    (argument.is_string() ? std::string(argument.get_string()) : std::string()) +
                    as_text(value, "edit_append");
            }
        }
        return result;
    }
};

struct AfterToolCall {
    Rule rule;
    std::optional<cubepi::AfterToolCallResult> after_tool_call(
        cubepi::AfterToolCallContext& context) {
        if (!rule.acts_on_tool(context.tool_call.name.str())) return std::nullopt;
        cubepi::AfterToolCallResult result;
        if (const Json* text = rule.find("content")) set_text(result, as_text(*text, "content"));
        if (const Json* text = rule.find("append")) {
            set_text(result, context.result.text() + as_text(*text, "append"));
        }
        if (const Json* details = rule.find("details")) result.details = *details;
        if (const Json* flag = rule.find("is_error")) result.is_error = as_flag(*flag, "is_error");
        if (const Json* flag = rule.find("terminate"))
            result.terminate = as_flag(*flag, "terminate");
        return result;
    }
    void set_text(cubepi::AfterToolCallResult& result, std::string text) {
        rule.known().results.insert(text);
        cubepi::TextContent block;
        block.text = std::move(text);
        result.content.emplace();
        result.content->emplace_back(std::move(block));
    }
};

struct AfterModelResponse {
    Rule rule;
    std::optional<cubepi::TurnAction> after_model_response(cubepi::AssistantMessage response,
                                                           HookContext&) {
        if (!rule.acts()) return std::nullopt;
        cubepi::TurnAction action;
        const Json* replacement = rule.find("replace_text");
        const Json* suffix = rule.find("suffix");
        if (replacement || suffix) {
            for (cubepi::AssistantContent& block : response.content) {
                auto* text = std::get_if<cubepi::TextContent>(&block);
                if (!text) continue;
                if (replacement) text->text = as_text(*replacement, "replace_text");
                if (suffix) text->text += as_text(*suffix, "suffix");
                break;
            }
            action.response = std::move(response);
        }
        action.inject_messages = rule.injected();
        const std::string decision = text_or(rule.form(), "decision", "natural");
        action.decision = decision == "stop"            ? cubepi::TurnDecision::stop
                          : decision == "loop_to_model" ? cubepi::TurnDecision::loop_to_model
                                                        : cubepi::TurnDecision::natural;
        return action;
    }
};

struct ShouldStopAfterTurn {
    Rule rule;
    bool should_stop_after_turn(cubepi::ShouldStopAfterTurnContext&) {
        return rule.acts() && rule.calls() >= number_or(rule.form(), "after", 1);
    }
};

struct OnRunEnd {
    Rule rule;
    MessageList on_run_end(HookContext&) { return rule.acts() ? rule.injected() : MessageList(); }
};

/// Which hooks a middleware has is part of its type, so each hook of a scenario's middleware is an object of its
/// own: composition goes hook by hook, and the order is the same.
cubepi::Middleware make_one(const HookRule& spec, KnownTexts& known) {
    Rule rule(spec, known);
    if (spec.hook == "transform_context") return TransformContext{rule};
    if (spec.hook == "convert_to_llm") return ConvertToLlm{rule};
    if (spec.hook == "transform_system_prompt") return TransformSystemPrompt{rule};
    if (spec.hook == "resolve_tool_call") return ResolveToolCall{rule};
    if (spec.hook == "before_tool_call") return BeforeToolCall{rule};
    if (spec.hook == "after_tool_call") return AfterToolCall{rule};
    if (spec.hook == "after_model_response") return AfterModelResponse{rule};
    if (spec.hook == "should_stop_after_turn") return ShouldStopAfterTurn{rule};
    return OnRunEnd{rule};
}

}  // namespace

std::vector<cubepi::Middleware> make_middleware(const std::vector<MiddlewareSpec>& specs,
                                                const MiddlewareParts& parts, KnownTexts& known) {
    std::vector<cubepi::Middleware> middleware;
    for (const MiddlewareSpec& spec : specs) {
        for (const ProductSpec& product : spec.products)
            middleware.push_back(make_product_middleware(product, parts));
        for (const HookRule& hook : spec.hooks) middleware.push_back(make_one(hook, known));
    }
    return middleware;
}

void set_explicit_hooks(cubepi::AgentOptions& options, const std::vector<HookRule>& rules,
                        KnownTexts& known) {
    for (const HookRule& rule : rules) {
        const cubepi::HookSet hooks = make_one(rule, known).hooks();
        if (hooks.transform_context) options.transform_context = hooks.transform_context;
        if (hooks.convert_to_llm) options.convert_to_llm = hooks.convert_to_llm;
        if (hooks.transform_system_prompt)
            options.transform_system_prompt = hooks.transform_system_prompt;
        if (hooks.resolve_tool_call) options.resolve_tool_call = hooks.resolve_tool_call;
        if (hooks.before_tool_call) options.before_tool_call = hooks.before_tool_call;
        if (hooks.after_tool_call) options.after_tool_call = hooks.after_tool_call;
        if (hooks.after_model_response) options.after_model_response = hooks.after_model_response;
        if (hooks.should_stop_after_turn)
            options.should_stop_after_turn = hooks.should_stop_after_turn;
        if (hooks.on_run_end) options.on_run_end = hooks.on_run_end;
    }
}

}  // namespace conformance
