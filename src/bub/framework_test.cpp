#include <bub/framework.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace bub {
namespace {

/// The action of a test's plugin in its hook: throw, wait forever, ...
using Act = std::function<Task<>(Envelope* message)>;

/// The hooks of a turn, in order.
const std::vector<std::string> turn_hooks = {"resolve_session", "load_state",        "build_prompt",
                                             "run_model",       "run_model_stream",  "save_state",
                                             "render_outbound", "dispatch_outbound", "on_error"};

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
Plugin acting_plugin(const std::string& hook, const Act& act) {
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
Plugin noting_plugin(std::string name, std::vector<std::string>& calls) {
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

Task<> wait_for_ever(Envelope*) {
    cubepi::AsyncEvent never;
    co_await never.wait();
}

Envelope hello(std::string chat = "chat") { return Envelope("hello").on("cli", std::move(chat)); }

/// Runs one turn to its end; rethrows its failure.
TurnResult play(Framework& framework, Envelope inbound, bool streams = false) {
    return cubepi::run(framework.process_inbound(std::move(inbound), streams));
}

struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

Task<> throw_broken(Envelope*) {
    throw Broken("broken hook");
    co_return;
}

TEST(Turn, B1_Stages_RunInOrderNewestPluginFirst) {
    Framework framework;
    std::vector<std::string> calls;
    framework.add(noting_plugin("a", calls));
    framework.add(noting_plugin("b", calls));
    const TurnResult result = play(framework, hello());
    EXPECT_EQ(result.session_id, "cli:chat");
    EXPECT_EQ(result.model_output, "answer");
    const std::vector<std::string> order = {"b.load_state", "a.load_state", "b.run_model",
                                            "b.save_state", "a.save_state"};
    EXPECT_EQ(calls, order);
    ASSERT_EQ(result.outbounds.size(), 1u);
    EXPECT_EQ(result.outbounds[0].content, "answer");
    EXPECT_EQ(result.outbounds[0].chat_id, "chat");
}

TEST(Turn, Priority_PrecedesTheOrderOfRegistration) {
    Framework framework;
    std::vector<std::string> calls;
    Plugin first = noting_plugin("first", calls);
    first.priority = 1;
    framework.add(std::move(first));
    framework.add(noting_plugin("second", calls));
    (void)play(framework, hello());
    ASSERT_FALSE(calls.empty());
    EXPECT_EQ(calls.front(), "first.load_state");
}

TEST(Turn, B2_EmptySessionId_FallsBackAndIsStored) {
    Framework framework;
    framework.add(
        Plugin{.name = "none", .resolve_session = [](ResolveSessionCall&) { return ""; }});
    auto inbound = std::make_shared<Envelope>("hi");
    inbound->session_id = "old";
    (void)cubepi::run(framework.process_inbound(inbound));
    EXPECT_EQ(inbound->session_id, "default:default");
}

TEST(Turn, B3_PluginReturningNothing_DoesNotHideLaterOnes) {
    for (const bool streams : {false, true}) {
        Framework framework;
        std::vector<std::string> calls;
        framework.add(noting_plugin("below", calls));
        framework.add(Plugin{.name = "above", .run_model = [](RunModelCall&) {
                                 return std::optional<std::string>();
                             }});
        EXPECT_EQ(play(framework, hello(), streams).model_output, "answer");
    }
}

/// A plugin whose run_model_stream returns no stream.
Plugin null_stream_plugin() {
    return Plugin{.name = "null-stream",
                  .run_model_stream = [](RunModelCall&) { return EventStream(); }};
}

TEST(Turn, B3_NewerPluginWithoutStream_LetsOlderOneAnswer) {
    for (const bool streams : {false, true}) {
        for (const bool older_streams : {false, true}) {
            Framework framework;
            std::vector<std::string> calls;
            Plugin older = noting_plugin("below", calls);
            if (older_streams) {
                older.run_model = {};
                older.run_model_stream = [](RunModelCall&) {
                    return EventStream::of_text("streamed");
                };
            }
            framework.add(std::move(older));
            framework.add(null_stream_plugin());
            const TurnResult result = play(framework, hello(), streams);
            EXPECT_EQ(result.model_output, older_streams ? "streamed" : "answer");
            for (const std::string& call : calls)
                EXPECT_EQ(call.find("on_error"), std::string::npos) << call;
        }
    }
}

TEST(Turn, B1_NoStreamAndNoAnswer_IsAnError) {
    Framework framework;
    std::vector<std::string> calls;
    Plugin older = noting_plugin("older", calls);
    older.run_model = [](RunModelCall&) { return std::optional<std::string>(); };
    framework.add(std::move(older));
    framework.add(null_stream_plugin());
    try {
        (void)play(framework, hello());
        ADD_FAILURE() << "the turn did not fail";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::invalid_state);
        EXPECT_NE(std::string(error.what()).find("plugin 'null-stream'"), std::string::npos)
            << error.what();
    }
    // A streaming caller gets the fallback text (B4).
    EXPECT_EQ(play(framework, hello(), true).model_output, "hello");
}

TEST(Turn, B4_NoAnswer_EchoesAndReportsIt) {
    for (const bool streams : {false, true}) {
        Framework framework;
        std::vector<std::string> calls;
        Plugin plugin = noting_plugin("only", calls);
        plugin.run_model = {};
        framework.add(std::move(plugin));
        EXPECT_EQ(play(framework, hello(), streams).model_output, "hello");
        ASSERT_EQ(calls.size(), 3u);
        EXPECT_TRUE(calls[1].starts_with("only.on_error:run_model:")) << calls[1];
        EXPECT_EQ(calls[2], "only.save_state");
    }
}

TEST(Turn, B6_LaterFailure_ClosesWhatLoadStateOpened) {
    Framework framework;
    std::vector<std::string> closed;
    Plugin plugin;
    plugin.name = "opens";
    plugin.load_state = [&closed](LoadStateCall& call) {
        call.state.at_end([&closed](std::exception_ptr error) -> Task<> {
            closed.push_back(describe(error));
            co_return;
        });
    };
    plugin.build_prompt = [](BuildPromptCall&) -> Prompt { throw Broken("no prompt"); };
    framework.add(std::move(plugin));
    EXPECT_THROW(play(framework, hello()), Broken);
    EXPECT_EQ(closed, std::vector<std::string>{"no prompt"});
}

TEST(Turn, B7_ErrorEventOfAnyForm_ReachesTheObservers) {
    for (const bool streams : {false, true}) {
        Framework framework;
        std::vector<std::string> calls;
        framework.add(noting_plugin("below", calls));
        Plugin plugin;
        plugin.name = "streams";
        plugin.run_model_stream = [](RunModelCall&) {
            JsonObject data;
            data["kind"] = "meteorite";
            data["message"] = "hit";
            data["size"] = 3;
            std::vector<StreamEvent> events;
            events.push_back(StreamEvent::text("a"));
            events.emplace_back("error", std::move(data));
            events.push_back(StreamEvent::text("b"));
            return EventStream::of(std::move(events));
        };
        framework.add(std::move(plugin));
        EXPECT_EQ(play(framework, hello(), streams).model_output, "ab");
        ASSERT_EQ(calls.size(), 3u);
        EXPECT_EQ(calls[1], "below.on_error:run_model:[unknown] hit");
    }
}

TEST(Turn, B13_Warnings_NameTheFailureWithoutItsMessage) {
    for (const std::string& hook : turn_hooks) {
        std::vector<std::string> warnings;
        FrameworkOptions options;
        options.on_warning = [&warnings](std::string text) { warnings.push_back(std::move(text)); };
        const cubepi::testing::MemoryLog log;
        options.runtime =
            std::make_shared<const cubepi::Runtime>(cubepi::Runtime().with_log(log.logger()));
        Framework framework(std::move(options));
        framework.add(acting_plugin(hook, throw_broken));
        framework.add(Plugin{.name = "observer",
                             .on_error = [](OnErrorCall&) { throw Broken("the observer broke"); }});
        try {
            (void)play(framework, Envelope("the password is swordfish").on("cli", "chat"));
        } catch (const std::exception&) {
        }
        EXPECT_FALSE(warnings.empty()) << hook;
        for (const std::string& warning : warnings) {
            EXPECT_EQ(warning.find("swordfish"), std::string::npos) << hook << ": " << warning;
        }
        EXPECT_TRUE(log.contains("<4>pipeline.error stage=")) << hook;
        EXPECT_FALSE(log.contains("swordfish")) << log.text();
    }
}

TEST(Turn, B16_BrokenPlugin_IsReportedAndOthersWork) {
    Framework framework;
    std::vector<std::string> calls;
    framework.note_broken("gone", "no such library");
    EXPECT_FALSE(framework.load("worse", [](Framework&) -> Plugin { throw Broken("no licence"); }));
    EXPECT_TRUE(
        framework.load("good", [&calls](Framework&) { return noting_plugin("good", calls); }));
    EXPECT_FALSE(
        framework.load("good", [&calls](Framework&) { return noting_plugin("good", calls); }));
    ASSERT_EQ(framework.plugin_status().size(), 4u);
    EXPECT_EQ(framework.plugin_status()[1].reason, "no licence");
    EXPECT_TRUE(framework.plugin_status()[2].ok);
    EXPECT_EQ(play(framework, hello()).model_output, "answer");
}

Plugin onboarding(std::string name, JsonObject part, std::vector<JsonObject>& seen) {
    Plugin plugin;
    plugin.name = std::move(name);
    plugin.onboard_config = [part = std::move(part), &seen](OnboardCall& call) {
        seen.push_back(call.config);
        EXPECT_EQ(call.ui, nullptr) << "non-interactive";
        return part;
    };
    return plugin;
}

TEST(Onboard, EachPlugin_SeesOlderResultsBeforeTheMerge) {
    Framework framework;
    std::vector<JsonObject> seen;
    const JsonObject first{{"a", JsonObject{{"x", 1}, {"y", nullptr}}}, {"gone", nullptr}};
    const JsonObject second{{"a", JsonObject{{"z", JsonObject{{"deep", nullptr}, {"d", 2}}}}},
                            {"list", JsonArray{1}}};
    framework.add(onboarding("first", first, seen));
    framework.add(onboarding("second", second, seen));
    const JsonObject before{{"kept", "k"}, {"gone", "g"}, {"a", JsonObject{{"y", 9}, {"w", 8}}}};
    const JsonObject after = cubepi::run(framework.onboard(before));
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0], before);
    EXPECT_EQ(seen[1], (JsonObject{{"kept", "k"}, {"a", JsonObject{{"w", 8}, {"x", 1}}}}));
    EXPECT_EQ(after, (JsonObject{{"kept", "k"},
                                 {"a", JsonObject{{"w", 8}, {"x", 1}, {"z", JsonObject{{"d", 2}}}}},
                                 {"list", JsonArray{1}}}));
}

TEST(Onboard, ThrowingPlugin_EndsTheOnboarding) {
    Framework framework;
    framework.add(Plugin{.name = "torn", .onboard_config = [](OnboardCall&) -> JsonObject {
                             throw Broken("torn");
                         }});
    EXPECT_THROW(cubepi::run(framework.onboard(JsonObject())), Broken);
}

TEST(CliCommands, CliCommands_CarryTheirPlugin) {
    Framework framework;
    framework.add(Plugin{.name = "greeter", .register_cli_commands = [](ProvideCall&) {
                             std::vector<CliCommand> commands(1);
                             commands[0].name = "greet";
                             return commands;
                         }});
    const std::vector<CliCommand> commands = cubepi::run(framework.cli_commands());
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0].plugin, "greeter");
}

TEST(Turn, B5_EverySaver_RunsAndFirstErrorIsRaised) {
    Framework framework;
    std::vector<std::string> calls;
    framework.add(noting_plugin("below", calls));
    framework.add(
        Plugin{.name = "second", .save_state = [](SaveStateCall&) { throw Broken("two"); }});
    framework.add(
        Plugin{.name = "first", .save_state = [](SaveStateCall&) { throw Broken("one"); }});
    try {
        (void)play(framework, hello());
        FAIL() << "nothing was thrown";
    } catch (const Broken& error) {
        EXPECT_STREQ(error.what(), "one");
    }
    const std::vector<std::string> order = {"below.load_state", "below.run_model",
                                            "below.on_error:save_state:two", "below.save_state:one",
                                            "below.on_error:turn:one"};
    EXPECT_EQ(calls, order);
}

class EachHook : public testing::TestWithParam<std::tuple<std::string, bool>> {
protected:
    const std::string& hook() const { return std::get<0>(GetParam()); }
    bool streams() const { return std::get<1>(GetParam()); }
    /// The default answers of a plugin of lower precedence, so that every hook is reached.
    void set_up(const Act& act) {
        Plugin below = noting_plugin("below", calls);
        framework.add(std::move(below));
        framework.add(acting_plugin(hook(), act));
        if (hook() == "on_error") {
            framework.add(Plugin{.name = "fails", .build_prompt = [](BuildPromptCall&) -> Prompt {
                                     throw Broken("no prompt");
                                 }});
        }
    }

    FrameworkOptions options() {
        FrameworkOptions made;
        made.close_grace = std::chrono::milliseconds(20);
        return made;
    }
    std::vector<std::string> calls;
    Framework framework{options()};
};

TEST_P(EachHook, B1_ThrowingHook_FailsOnlyTheTurn) {
    set_up(throw_broken);
    EXPECT_THROW(play(framework, hello(), streams()), Broken);
    const bool saved = std::any_of(calls.begin(), calls.end(), [](const std::string& call) {
        return call.starts_with("below.save_state");
    });
    const bool before_model = hook() == "resolve_session" || hook() == "load_state" ||
                              hook() == "build_prompt" || hook() == "on_error" || hook() == "every";
    EXPECT_EQ(saved, !before_model);
    ASSERT_FALSE(calls.empty());
    EXPECT_TRUE(calls.back().starts_with("below.on_error:turn:")) << calls.back();
}

Task<> hanging_turn(Framework& framework, bool streams, std::stop_token stop, bool& cancelled) {
    std::exception_ptr failure;
    Task<TurnResult> turn = framework.process_inbound(hello("stuck"), streams);
    try {
        (void)co_await cubepi::cancel_on(stop, std::move(turn));
    } catch (...) {
        failure = std::current_exception();
    }
    cancelled = cubepi::is_cancellation(failure);
}

TEST_P(EachHook, D7_HangingHook_EndsOnlyTheAbortedTurn) {
    auto waiting = std::make_shared<cubepi::AsyncEvent>();
    auto hang = [waiting](Envelope* message) -> Task<> {
        if (!message || message->chat_id != "stuck") co_return;
        waiting->set();
        co_await wait_for_ever(message);
    };
    set_up(hang);
    bool cancelled = false;
    std::string other;
    auto scenario = [&](cubepi::TaskScope& scope) -> Task<> {
        std::stop_source stop;
        scope.spawn(hanging_turn(framework, streams(), stop.get_token(), cancelled));
        co_await waiting->wait();
        std::exception_ptr failed;
        try {
            Task<TurnResult> turn = framework.process_inbound(hello("free"), streams());
            const TurnResult result = co_await std::move(turn);
            other = result.model_output;
        } catch (const Broken&) {
            other = "answer";  // every turn fails if on_error is under test
        }
        stop.request_stop();
        co_await scope.join();
    };
    cubepi::run(cubepi::with_task_scope(scenario));
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(other, "answer");
    for (const std::string& call : calls) {
        EXPECT_EQ(call.find("on_error:turn:cancelled"), std::string::npos) << call;
    }
}

std::vector<std::tuple<std::string, bool>> hooks_and_modes() {
    std::vector<std::tuple<std::string, bool>> all;
    for (const std::string& hook : turn_hooks) {
        if (hook != "run_model_stream") all.emplace_back(hook, false);
        if (hook != "run_model") all.emplace_back(hook, true);
    }
    all.emplace_back("every", false);
    all.emplace_back("every", true);
    return all;
}

INSTANTIATE_TEST_SUITE_P(Turn, EachHook, testing::ValuesIn(hooks_and_modes()),
                         [](const auto& info) {
                             return std::get<0>(info.param) +
                                    (std::get<1>(info.param) ? "_streaming" : "_plain");
                         });

TEST(Turn, B5_SaverHangingAfterAbort_LetsTheOthersRun) {
    FrameworkOptions options;
    options.close_grace = std::chrono::milliseconds(20);
    Framework framework(std::move(options));
    std::vector<std::string> calls;
    framework.add(noting_plugin("below", calls));
    framework.add(acting_plugin("save_state", wait_for_ever));
    std::stop_source stop;
    framework.add(
        Plugin{.name = "stuck", .run_model = [stop](RunModelCall&) mutable -> Task<std::string> {
                   stop.request_stop();
                   co_await wait_for_ever(nullptr);
                   co_return std::string();
               }});
    bool cancelled = false;
    cubepi::run(hanging_turn(framework, false, stop.get_token(), cancelled));
    EXPECT_TRUE(cancelled);
    const std::vector<std::string> order = {
        "below.load_state", "below.on_error:save_state:timed out after 0.02 s (save_state)",
        "below.save_state:cancelled"};
    EXPECT_EQ(calls, order);
}

}  // namespace
}  // namespace bub
