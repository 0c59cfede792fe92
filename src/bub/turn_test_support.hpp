#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/framework.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>

namespace bub::test {

/// The action of a test's plugin in its hook: throw, wait forever, ...
using Act = std::function<Task<>(Envelope* message)>;

/// The hooks of a turn, in order.
inline const std::vector<std::string> turn_hooks = {
    "resolve_session", "load_state",      "build_prompt",      "run_model", "run_model_stream",
    "save_state",      "render_outbound", "dispatch_outbound", "on_error"};

template <class R>
Task<R> act_then(Act act, Envelope* message, R value) {
    co_await act(message);
    co_return value;
}

/// A stream that performs the action when it is read.
class ActingSource final : public EventSource {
public:
    ActingSource(Act act, Envelope* message) : act_(std::move(act)), message_(message) {}
    Task<std::optional<StreamEvent>> next() override {
        co_await act_(message_);
        co_return std::nullopt;
    }

private:
    Act act_;
    Envelope* message_;
};

/// Returns a plugin that performs the action in one hook, in all ("every"), or while its stream is read ("stream").
inline Plugin acting_plugin(const std::string& hook, const Act& act) {
    const bool all = hook == "every";
    Plugin plugin;
    plugin.name = "acting";
    if (all || hook == "resolve_session") {
        plugin.resolve_session = [act](ResolveSessionCall& call) {
            return act_then<std::optional<std::string>>(act, &call.message, std::nullopt);
        };
    }
    if (all || hook == "load_state") {
        plugin.load_state = [act](LoadStateCall& call) {
            return act_then<std::optional<JsonObject>>(act, &call.message, std::nullopt);
        };
    }
    if (all || hook == "build_prompt") {
        plugin.build_prompt = [act](BuildPromptCall& call) {
            return act_then<std::optional<Prompt>>(act, &call.message, std::nullopt);
        };
    }
    if (all || hook == "run_model") {
        plugin.run_model = [act](RunModelCall& call) {
            return act_then<std::optional<std::string>>(act, &call.message, std::nullopt);
        };
    }
    if (all || hook == "run_model_stream") {
        plugin.run_model_stream = [act](RunModelCall& call) -> Task<EventStream> {
            co_await act(&call.message);
            co_return EventStream();
        };
    }
    if (hook == "stream") {
        plugin.run_model_stream = [act](RunModelCall& call) {
            return EventStream(std::make_unique<ActingSource>(act, &call.message));
        };
    }
    if (all || hook == "save_state") {
        plugin.save_state = [act](SaveStateCall& call) { return act(&call.message); };
    }
    if (all || hook == "render_outbound") {
        plugin.render_outbound = [act](RenderOutboundCall& call) {
            return act_then<EnvelopeBatch>(act, &call.message, EnvelopeBatch());
        };
    }
    if (all || hook == "dispatch_outbound") {
        plugin.dispatch_outbound = [act](DispatchOutboundCall& call) {
            return act_then<std::optional<bool>>(act, &call.message, std::nullopt);
        };
    }
    if (all || hook == "on_error") {
        plugin.on_error = [act](OnErrorCall& call) { return act(call.message); };
    }
    return plugin;
}

/// Returns a plugin that implements the hooks of a turn, records the calls and answers "answer".
inline Plugin noting_plugin(std::string name, std::vector<std::string>& calls) {
    Plugin plugin;
    plugin.name = name;
    const auto note = [name, &calls](std::string_view hook) {
        calls.push_back(name + "." + std::string(hook));
    };
    plugin.load_state = [note](LoadStateCall&) { note("load_state"); };
    plugin.run_model = [note](RunModelCall&) {
        note("run_model");
        return "answer";
    };
    plugin.save_state = [note](SaveStateCall& call) {
        note(std::string("save_state") + (call.error ? ":" + describe(call.error) : ""));
    };
    plugin.on_error = [note](OnErrorCall& call) {
        note("on_error:" + std::string(call.stage) + ":" + describe(call.error));
    };
    return plugin;
}

inline Task<> wait_for_ever(Envelope*) {
    cubepi::AsyncEvent never;
    co_await never.wait();
}

inline Envelope hello(std::string chat = "chat") {
    return Envelope("hello").on("cli", std::move(chat));
}

/// Runs one turn to its end; rethrows its failure.
inline TurnResult play(Framework& framework, Envelope inbound, bool streams = false) {
    return cubepi::run(framework.process_inbound(std::move(inbound), streams));
}

}  // namespace bub::test
