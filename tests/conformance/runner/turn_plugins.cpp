#include "turn_plugins.hpp"

#include <map>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>

#include "support.hpp"

namespace conformance {

namespace {

using bub::Task;
using cubepi::MaybeTask;

/// The arguments of a call that behaviours and the trace refer to.
struct Arguments {
    const bub::Envelope* message = nullptr;
    const std::string* session_id = nullptr;
    const bub::Prompt* prompt = nullptr;
    const std::string* model_output = nullptr;
    bub::TurnState* state = nullptr;
};

/// The hooks of one plugin, and the number of calls of each.
class Script {
public:
    Script(const JsonObject& spec, std::shared_ptr<TurnLog> log)
        : name(text_or(spec, "name", "")), log_(std::move(log)) {
        for (const auto& [hook, behaviours] : as_object(spec.at("hooks"), "hooks")) {
            std::vector<JsonObject>& list = hooks_[std::string(hook)];
            if (const JsonArray* many = behaviours.if_array()) {
                for (const Json& one : *many) list.push_back(as_object(one, hook));
            } else {
                list.push_back(as_object(behaviours, hook));
            }
            for (const JsonObject& behaviour : list) {
                only_keys(behaviour, hook, {"return", "throw", "cancel", "events", "set_state"});
            }
        }
    }

    bool has(std::string_view hook) const { return hooks_.contains(std::string(hook)); }

    /// The behaviour of this call; null beyond the end of the list.
    const JsonObject* next(std::string_view hook) {
        const std::string key(hook);
        const std::size_t call = calls_[key]++;
        const std::vector<JsonObject>& list = hooks_.at(key);
        return call < list.size() ? &list[call] : nullptr;
    }

    /// Records the call, and changes the state as the behaviour defines.
    const JsonObject* begin(std::string_view hook, JsonObject entry, const Arguments& given) {
        const JsonObject* behaviour = next(hook);
        entry["call"] = name + "." + std::string(hook);
        log_->trace.push_back(std::move(entry));
        if (given.state) {
            const Json* changes = behaviour ? behaviour->if_contains("set_state") : nullptr;
            if (changes) {
                for (const auto& [key, value] : as_object(*changes, "set_state")) {
                    given.state->values[key] = value;
                }
            }
            log_->state = state_form(given.state->values, log_->workspace);
        }
        return behaviour;
    }

    const std::shared_ptr<TurnLog>& log() const { return log_; }
    const std::string name;

private:
    std::shared_ptr<TurnLog> log_;
    std::map<std::string, std::vector<JsonObject>> hooks_;
    std::map<std::string, std::size_t> calls_;
};

void substitute(Json& value, const Arguments& given) {
    if (JsonArray* list = value.if_array()) {
        for (Json& item : *list) substitute(item, given);
    } else if (JsonObject* object = value.if_object()) {
        for (auto& [key, item] : *object) substitute(item, given);
    } else if (const auto* text = value.if_string()) {
        if (*text == "$content" && given.message) {
            value = given.message->content_text();
        } else if (*text == "$prompt" && given.prompt) {
            value = to_json(*given.prompt);
        } else if (*text == "$session_id" && given.session_id) {
            value = *given.session_id;
        } else if (*text == "$model_output" && given.model_output) {
            value = *given.model_output;
        }
    }
}

/// Returns the value of a behaviour, null if it has none, or throws its error.
Json returned(const JsonObject* behaviour, const Arguments& given) {
    if (!behaviour) return nullptr;
    if (const Json* text = behaviour->if_contains("throw")) {
        throw HookError(as_text(*text, "throw"));
    }
    const Json* value = behaviour->if_contains("return");
    if (!value) return nullptr;
    Json copy = *value;
    substitute(copy, given);
    return copy;
}

template <class R, class Convert>
Task<R> give_later(std::shared_ptr<TurnLog> log, const JsonObject* behaviour, Arguments given,
                   Convert convert) {
    if (behaviour && behaviour->contains("cancel")) co_await cancel_turn(log);
    co_await cubepi::yield_now();
    Json value = returned(behaviour, given);
    co_return convert(std::move(value));
}

/// Performs the behaviour, in the form of the run.
template <class R, class Convert>
MaybeTask<R> give(const std::shared_ptr<TurnLog>& log, const JsonObject* behaviour,
                  const Arguments& given, Convert convert) {
    const bool cancels = behaviour && behaviour->contains("cancel");
    if (log->form == HookForm::task || cancels) {
        return MaybeTask<R>(give_later<R>(log, behaviour, given, std::move(convert)));
    }
    return MaybeTask<R>(convert(returned(behaviour, given)));
}

std::optional<std::string> text_value(Json value) {
    if (value.is_null()) return std::nullopt;
    return as_text(value, "return");
}

std::optional<JsonObject> object_value(Json value) {
    if (value.is_null()) return std::nullopt;
    return as_object(value, "return");
}

std::optional<bub::Prompt> prompt_value(Json value) {
    if (value.is_null()) return std::nullopt;
    if (value.is_array()) return bub::Prompt(std::move(value.get_array()));
    return bub::Prompt(as_text(value, "return"));
}

bub::EnvelopeBatch batch_value(Json value) {
    bub::EnvelopeBatch batch;
    if (value.is_null()) return batch;
    if (value.is_object()) {
        batch.items.emplace_back(std::move(value.get_object()));
        return batch;
    }
    for (const Json& item : as_array(value, "return")) {
        batch.items.emplace_back(as_object(item, "return"));
    }
    return batch;
}

Json slot_of(const bub::Envelope* message) {
    if (!message) return nullptr;
    const JsonObject form = bub::to_json(*message);
    const Json* slot = form.if_contains("session_id");
    return slot ? *slot : Json(nullptr);
}

bub::Done nothing(Json) { return bub::Done(); }

class ScriptedSource final : public bub::EventSource {
public:
    ScriptedSource(JsonArray items, std::shared_ptr<TurnLog> log)
        : items_(std::move(items)), log_(std::move(log)) {}

    Task<std::optional<bub::StreamEvent>> next() override {
        if (position_ == items_.size()) co_return std::nullopt;
        const JsonObject& item = as_object(items_[position_++], "events");
        if (item.contains("cancel")) co_await cancel_turn(log_);
        co_return event_of(item);
    }

    std::optional<bub::StreamEvent> ready() override {
        if (log_->form == HookForm::task || position_ == items_.size()) return std::nullopt;
        const JsonObject& item = as_object(items_[position_], "events");
        if (item.contains("cancel")) return std::nullopt;
        ++position_;
        return event_of(item);
    }

private:
    static std::optional<bub::StreamEvent> event_of(const JsonObject& item) {
        only_keys(item, "events", {"kind", "data", "throw"});
        if (const Json* text = item.if_contains("throw")) {
            throw HookError(as_text(*text, "throw"));
        }
        JsonObject data;
        if (const Json* given = item.if_contains("data")) data = as_object(*given, "data");
        return bub::StreamEvent(text_or(item, "kind", ""), std::move(data));
    }

    JsonArray items_;
    std::size_t position_ = 0;
    std::shared_ptr<TurnLog> log_;
};

class NamedChannel final : public bub::Channel {
public:
    explicit NamedChannel(std::string name) : name_(std::move(name)) {}
    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token) override { co_return; }
    Task<> stop() override { co_return; }

private:
    std::string name_;
};

void add_first_stages(bub::Plugin& plugin, const std::shared_ptr<Script>& script) {
    if (script->has("resolve_session")) {
        plugin.resolve_session = [script](bub::ResolveSessionCall& call) {
            Arguments given;
            given.message = &call.message;
            JsonObject entry;
            entry["slot"] = slot_of(&call.message);
            const JsonObject* does = script->begin("resolve_session", std::move(entry), given);
            return give<std::optional<std::string>>(script->log(), does, given, text_value);
        };
    }
    if (script->has("load_state")) {
        plugin.load_state = [script](bub::LoadStateCall& call) {
            Arguments given;
            given.message = &call.message;
            given.session_id = &call.session_id;
            JsonObject entry;
            entry["slot"] = slot_of(&call.message);
            entry["session_id"] = call.session_id;
            const JsonObject* does = script->begin("load_state", std::move(entry), given);
            return give<std::optional<JsonObject>>(script->log(), does, given, object_value);
        };
    }
    if (script->has("build_prompt")) {
        plugin.build_prompt = [script](bub::BuildPromptCall& call) {
            Arguments given;
            given.message = &call.message;
            given.session_id = &call.session_id;
            given.state = &call.state;
            JsonObject entry;
            entry["session_id"] = call.session_id;
            entry["state"] = state_form(call.state.values, script->log()->workspace);
            const JsonObject* does = script->begin("build_prompt", std::move(entry), given);
            return give<std::optional<bub::Prompt>>(script->log(), does, given, prompt_value);
        };
    }
}

JsonObject model_entry(const bub::RunModelCall& call) {
    JsonObject entry;
    entry["session_id"] = call.session_id;
    entry["prompt"] = to_json(call.prompt);
    return entry;
}

Arguments model_arguments(bub::RunModelCall& call) {
    Arguments given;
    given.message = &call.message;
    given.session_id = &call.session_id;
    given.prompt = &call.prompt;
    given.state = &call.state;
    return given;
}

void add_model_stages(bub::Plugin& plugin, const std::shared_ptr<Script>& script) {
    if (script->has("run_model")) {
        plugin.run_model = [script](bub::RunModelCall& call) {
            const Arguments given = model_arguments(call);
            const JsonObject* does = script->begin("run_model", model_entry(call), given);
            return give<std::optional<std::string>>(script->log(), does, given, text_value);
        };
    }
    if (script->has("run_model_stream")) {
        plugin.run_model_stream = [script](bub::RunModelCall& call) {
            const Arguments given = model_arguments(call);
            const JsonObject* does = script->begin("run_model_stream", model_entry(call), given);
            auto to_stream = [script, does](Json) {
                const Json* events = does ? does->if_contains("events") : nullptr;
                if (!events) return bub::EventStream();
                return scripted_stream(as_array(*events, "events"), script->log());
            };
            return give<bub::EventStream>(script->log(), does, given, to_stream);
        };
    }
}

void add_last_stages(bub::Plugin& plugin, const std::shared_ptr<Script>& script) {
    if (script->has("save_state")) {
        plugin.save_state = [script](bub::SaveStateCall& call) {
            Arguments given;
            given.message = &call.message;
            given.session_id = &call.session_id;
            given.model_output = &call.model_output;
            given.state = &call.state;
            JsonObject entry = error_form(call.error);
            entry.erase("details");
            entry["session_id"] = call.session_id;
            entry["state"] = state_form(call.state.values, script->log()->workspace);
            entry["model_output"] = call.model_output;
            const JsonObject* does = script->begin("save_state", std::move(entry), given);
            return give<bub::Done>(script->log(), does, given, nothing);
        };
    }
    if (script->has("render_outbound")) {
        plugin.render_outbound = [script](bub::RenderOutboundCall& call) {
            Arguments given;
            given.message = &call.message;
            given.session_id = &call.session_id;
            given.model_output = &call.model_output;
            given.state = &call.state;
            JsonObject entry;
            entry["session_id"] = call.session_id;
            entry["model_output"] = call.model_output;
            const JsonObject* does = script->begin("render_outbound", std::move(entry), given);
            return give<bub::EnvelopeBatch>(script->log(), does, given, batch_value);
        };
    }
    if (script->has("dispatch_outbound")) {
        plugin.dispatch_outbound = [script](bub::DispatchOutboundCall& call) {
            Arguments given;
            given.message = &call.message;
            JsonObject entry;
            entry["message"] = bub::to_json(call.message);
            const JsonObject* does = script->begin("dispatch_outbound", std::move(entry), given);
            auto flag = [](Json value) -> std::optional<bool> {
                if (value.is_null()) return std::nullopt;
                return as_flag(value, "return");
            };
            return give<std::optional<bool>>(script->log(), does, given, flag);
        };
    }
    if (script->has("on_error")) {
        plugin.on_error = [script](bub::OnErrorCall& call) {
            Arguments given;
            given.message = call.message;
            JsonObject entry = error_form(call.error);
            entry["slot"] = slot_of(call.message);
            entry["stage"] = call.stage;
            const JsonObject* does = script->begin("on_error", std::move(entry), given);
            return give<bub::Done>(script->log(), does, given, nothing);
        };
    }
}

void add_untraced(bub::Plugin& plugin, const std::shared_ptr<Script>& script) {
    if (script->has("system_prompt")) {
        plugin.system_prompt = [script](bub::SystemPromptCall& call) {
            Arguments given;
            given.prompt = &call.prompt;
            given.state = &call.state;
            const JsonObject* does = script->next("system_prompt");
            return give<std::optional<std::string>>(script->log(), does, given, text_value);
        };
    }
    if (script->has("provide_channels")) {
        plugin.provide_channels = [script](bub::ProvideChannelsCall&) {
            std::vector<std::shared_ptr<bub::Channel>> channels;
            const Json names = returned(script->next("provide_channels"), Arguments());
            if (names.is_null()) return channels;
            for (const Json& name : as_array(names, "return")) {
                channels.push_back(std::make_shared<NamedChannel>(as_text(name, "return")));
            }
            return channels;
        };
    }
}

}  // namespace

JsonObject error_form(const std::exception_ptr& error) {
    JsonObject form;
    form["error"] = nullptr;
    if (!error) return form;
    if (cubepi::is_cancellation(error)) {
        form["error"] = "cancelled";
        return form;
    }
    try {
        std::rethrow_exception(error);
    } catch (const HookError& failure) {
        form["error"] = std::string("hook: ") + failure.what();
    } catch (const bub::TurnError& failure) {
        form["error"] = std::string("event: ") + failure.what();
        if (!failure.details().empty()) form["details"] = failure.details();
    } catch (...) {
        form["error"] = "framework";
    }
    return form;
}

JsonObject state_form(const JsonObject& values, const std::string& workspace) {
    JsonObject shown;
    for (const auto& [key, value] : values) {
        if (key == bub::TurnState::workspace_key) {
            shown[key] = value == Json(workspace) ? Json("<workspace>") : value;
        } else if (!key.starts_with("_runtime_")) {
            shown[key] = value;
        }
    }
    return shown;
}

bub::Task<> cancel_turn(std::shared_ptr<TurnLog> log) {
    log->abort.request_stop();
    cubepi::AsyncEvent never;
    co_await never.wait();
}

bub::EventStream scripted_stream(const JsonArray& items, std::shared_ptr<TurnLog> log) {
    return bub::EventStream(std::make_unique<ScriptedSource>(items, std::move(log)));
}

bub::Plugin scripted_plugin(const JsonObject& spec, std::shared_ptr<TurnLog> log) {
    auto script = std::make_shared<Script>(spec, std::move(log));
    for (const auto& [hook, behaviour] : as_object(spec.at("hooks"), "hooks")) {
        bool known = false;
        for (const std::string_view name :
             {"resolve_session", "load_state", "build_prompt", "run_model", "run_model_stream",
              "save_state", "render_outbound", "dispatch_outbound", "on_error", "system_prompt",
              "provide_channels"}) {
            known = known || name == std::string_view(hook);
        }
        if (!known) throw BadFile("unknown hook \"" + std::string(hook) + "\"");
    }
    bub::Plugin plugin;
    plugin.name = script->name;
    add_first_stages(plugin, script);
    add_model_stages(plugin, script);
    add_last_stages(plugin, script);
    add_untraced(plugin, script);
    return plugin;
}

bub::Plugin observer_plugin(std::shared_ptr<TurnLog> log) {
    bub::Plugin plugin;
    plugin.name = "observer";
    plugin.on_error = [log](bub::OnErrorCall& call) {
        JsonObject entry = error_form(call.error);
        entry["stage"] = call.stage;
        log->errors.push_back(std::move(entry));
    };
    return plugin;
}

}  // namespace conformance
