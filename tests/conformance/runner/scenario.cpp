#include "scenario.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "product_middleware.hpp"
#include "support.hpp"

namespace conformance {

namespace {

constexpr std::array hook_names = {
    "transform_context", "convert_to_llm",       "transform_system_prompt",
    "resolve_tool_call", "before_tool_call",     "after_tool_call",
    "on_run_end",        "after_model_response", "should_stop_after_turn"};

constexpr std::array instant_actions = {"abort",        "cancel_prompt", "steer", "follow_up",
                                        "cancel_steer", "probe",         "throw"};
constexpr std::array waiting_actions = {
    "answer", "answer_wrong_question", "cancel", "detach", "abort_pending", "prompt", "resume"};
constexpr std::array step_names = {"prompt",        "resume",       "respond", "steer",
                                   "follow_up",     "cancel_steer", "abort",   "reset",
                                   "abort_pending", "new_agent"};

template <std::size_t N>
bool has(const std::array<const char*, N>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

ToolSpec parse_tool(const Json& form) {
    const JsonObject& object = as_object(form, "tools");
    only_keys(object, "tools",
              {"name", "description", "parameters", "execution_mode", "do", "builtin"});
    ToolSpec tool;
    tool.name = text_or(object, "name", "");
    if (const Json* builtin = object.if_contains("builtin")) {
        if (as_text(*builtin, "builtin") != "ask_user") throw BadFile("tools: unknown builtin");
        tool.ask_user = true;
        return tool;
    }
    tool.description = text_or(object, "description", "");
    tool.parameters = JsonObject{{"type", "object"}, {"properties", JsonObject()}};
    if (const Json* parameters = object.if_contains("parameters")) tool.parameters = *parameters;
    tool.sequential = text_or(object, "execution_mode", "parallel") == "sequential";
    tool.steps = as_array(object.at("do"), "do");
    for (const Json& step : tool.steps) {
        only_keys(as_object(step, "do"), "do",
                  {"sleep_ms", "update", "wait_abort", "throw", "return"});
    }
    return tool;
}

namespace {

HookRule parse_hook(std::string_view name, const Json& form) {
    if (!has(hook_names, name)) throw BadFile("unknown hook \"" + std::string(name) + "\"");
    const JsonObject& rule = as_object(form, name);
    only_keys(rule, name,
              {"tool",         "at",          "times",        "throw",       "set_extra", "window",
               "prepend_user", "append_user", "upper",        "suffix",      "append",    "alias",
               "args",         "block",       "edit",         "edit_append", "content",   "details",
               "is_error",     "terminate",   "replace_text", "inject",      "decision",  "after"});
    return HookRule{std::string(name), rule};
}

MiddlewareSpec parse_middleware(const Json& form) {
    MiddlewareSpec spec;
    for (const auto& [key, value] : as_object(form, "middleware")) {
        if (is_product_middleware(key)) {
            spec.products.push_back(ProductSpec{std::string(key), as_object(value, key)});
        } else {
            spec.hooks.push_back(parse_hook(key, value));
        }
    }
    return spec;
}

}  // namespace

ScriptItem parse_script_item(const Json& form) {
    const JsonObject& object = as_object(form, "script");
    only_keys(object, "script",
              {"content", "stop_reason", "error_message", "throw", "input_tokens"});
    ScriptItem item;
    if (const Json* text = object.if_contains("throw")) {
        item.thrown = as_text(*text, "throw");
        return item;
    }
    item.message.content = parse_assistant_content(object.at("content"));
    item.message.stop_reason = cubepi::stop_reason::shared(text_or(object, "stop_reason", "stop"));
    item.message.error_message = cubepi::SharedString(text_or(object, "error_message", ""));
    if (const Json* tokens = object.if_contains("input_tokens"))
        item.input_tokens = as_number(*tokens, "input_tokens");
    return item;
}

namespace {

std::vector<Action> parse_actions(const Json& form) {
    std::vector<Action> actions;
    const JsonArray one{form};
    for (const Json& each : form.is_array() ? form.get_array() : one) {
        const JsonObject& object = as_object(each, "do");
        if (object.size() != 1) throw BadFile("do: an action has one key");
        Action action;
        action.name = object.begin()->key();
        action.value = object.begin()->value();
        action.waits = has(waiting_actions, action.name);
        if (!action.waits && !has(instant_actions, action.name)) {
            throw BadFile("do: unknown action \"" + action.name + "\"");
        }
        actions.push_back(std::move(action));
    }
    return actions;
}

ActionRule parse_action_rule(const Json& form) {
    const JsonObject& object = as_object(form, "on");
    only_keys(object, "on", {"when", "do"});
    const JsonObject& when = as_object(object.at("when"), "when");
    only_keys(when, "when", {"event", "stream", "role", "id", "nth", "every"});
    ActionRule rule;
    rule.when.event = text_or(when, "event", "");
    rule.when.stream = text_or(when, "stream", "");
    rule.when.role = text_or(when, "role", "");
    rule.when.id = text_or(when, "id", "");
    rule.when.nth = number_or(when, "nth", 1);
    rule.when.every = flag_or(when, "every", false);
    rule.actions = parse_actions(object.at("do"));
    return rule;
}

cubepi::TraceContext parse_context(const JsonObject& form) {
    only_keys(form, "context", {"tags", "metadata"});
    cubepi::TraceContext context;
    if (const Json* tags = form.if_contains("tags")) {
        for (const Json& tag : as_array(*tags, "tags"))
            context.tags.push_back(as_text(tag, "tags"));
    }
    if (const Json* metadata = form.if_contains("metadata"))
        context.metadata = as_object(*metadata, "metadata");
    return context;
}

Step parse_step(const Json& form) {
    const JsonObject& object = as_object(form, "run");
    Step step;
    for (const auto& [key, value] : object) {
        if (key == "question") {
            step.wrong_question = as_text(value, "question") == "wrong";
        } else if (key == "context") {
            step.context = parse_context(as_object(value, "context"));
        } else if (has(step_names, key) && step.name.empty()) {
            step.name = key;
            step.value = value;
        } else {
            throw BadFile("run: unknown key \"" + std::string(key) + "\"");
        }
    }
    if (step.name.empty()) throw BadFile("run: a step has a name");
    return step;
}

cubepi::QueueMode queue_mode(const JsonObject& agent, std::string_view key) {
    const std::string mode = text_or(agent, key, "one-at-a-time");
    if (mode == "all") return cubepi::QueueMode::all;
    if (mode == "one-at-a-time") return cubepi::QueueMode::one_at_a_time;
    throw BadFile(std::string(key) + ": unknown mode \"" + mode + "\"");
}

void parse_store(const Json& form, Scenario& scenario) {
    std::string kind;
    if (form.is_string()) {
        kind = as_text(form, "store");
    } else {
        const JsonObject& object = as_object(form, "store");
        only_keys(object, "store", {"kind", "fail_append"});
        kind = text_or(object, "kind", "none");
        if (const Json* calls = object.if_contains("fail_append")) {
            for (const Json& n : as_array(*calls, "fail_append")) {
                scenario.fail_append.insert(as_number(n, "fail_append"));
            }
        }
    }
    if (kind == "memory") {
        scenario.store = StoreKind::memory;
    } else if (kind == "sqlite") {
        scenario.store = StoreKind::sqlite;
    } else if (kind != "none") {
        throw BadFile("store: unknown kind \"" + kind + "\"");
    }
}

void parse_channel(const Json& form, Scenario& scenario) {
    if (form.is_null()) return;
    if (form.is_string()) {
        scenario.channel = as_text(form, "channel");
    } else {
        const JsonObject& object = as_object(form, "channel");
        only_keys(object, "channel", {"kind", "timeout_ms"});
        scenario.channel = text_or(object, "kind", "");
        if (object.if_contains("timeout_ms"))
            scenario.channel_timeout_ms = number_or(object, "timeout_ms", 0);
    }
    if (scenario.channel != "memory" && scenario.channel != "checkpointed") {
        throw BadFile("channel: unknown kind \"" + scenario.channel + "\"");
    }
}

void parse_agent(const JsonObject& agent, Scenario& scenario) {
    only_keys(agent, "agent",
              {"system_prompt", "tool_execution", "steering_mode", "follow_up_mode"});
    scenario.system_prompt = text_or(agent, "system_prompt", "");
    scenario.sequential_tools = text_or(agent, "tool_execution", "parallel") == "sequential";
    scenario.steering_mode = queue_mode(agent, "steering_mode");
    scenario.follow_up_mode = queue_mode(agent, "follow_up_mode");
}

template <class F>
void for_each_in(const JsonObject& file, std::string_view key, F&& f) {
    if (const Json* list = file.if_contains(key)) {
        for (const Json& item : as_array(*list, key)) f(item);
    }
}

}  // namespace

Scenario parse_scenario(const Json& file) {
    const JsonObject& object = as_object(file, "scenario");
    only_keys(
        object, "scenario",
        {"name",    "about", "origin",       "decisions",  "agent",  "store",         "history",
         "channel", "faux",  "tools",        "middleware", "hooks",  "script",        "on",
         "run",     "count", "late",         "ignore",     "expect", "recorded_with", "kind",
         "note",    "notes", "helper_script"});
    Scenario scenario;
    scenario.name = text_or(object, "name", "");
    if (const Json* agent = object.if_contains("agent"))
        parse_agent(as_object(*agent, "agent"), scenario);
    if (const Json* store = object.if_contains("store")) parse_store(*store, scenario);
    if (const Json* channel = object.if_contains("channel")) parse_channel(*channel, scenario);
    if (const Json* faux = object.if_contains("faux")) {
        only_keys(as_object(*faux, "faux"), "faux", {"token_size", "usage"});
        scenario.token_size = static_cast<int>(number_or(faux->get_object(), "token_size", 100000));
        scenario.usage = flag_or(faux->get_object(), "usage", true);
    }
    for_each_in(object, "history",
                [&](const Json& m) { scenario.history.push_back(parse_message(m)); });
    for_each_in(object, "tools", [&](const Json& t) { scenario.tools.push_back(parse_tool(t)); });
    for_each_in(object, "middleware",
                [&](const Json& m) { scenario.middleware.push_back(parse_middleware(m)); });
    if (const Json* hooks = object.if_contains("hooks")) {
        for (const auto& [key, value] : as_object(*hooks, "hooks")) {
            scenario.hooks.push_back(parse_hook(key, value));
        }
    }
    for_each_in(object, "helper_script",
                [&](const Json& i) { scenario.helper_script.push_back(parse_script_item(i)); });
    for_each_in(object, "script",
                [&](const Json& i) { scenario.script.push_back(parse_script_item(i)); });
    for_each_in(object, "on", [&](const Json& r) { scenario.on.push_back(parse_action_rule(r)); });
    for_each_in(object, "run", [&](const Json& s) { scenario.run.push_back(parse_step(s)); });
    for_each_in(object, "count",
                [&](const Json& t) { scenario.count.push_back(as_text(t, "count")); });
    for_each_in(object, "ignore",
                [&](const Json& p) { scenario.ignore.push_back(as_text(p, "ignore")); });
    scenario.late = flag_or(object, "late", false);
    if (const Json* expect = object.if_contains("expect")) scenario.expect = *expect;
    return scenario;
}

}  // namespace conformance
