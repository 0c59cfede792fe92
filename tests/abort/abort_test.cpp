#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include "round.hpp"

namespace cubepi::abort_tests {

namespace {

struct NoArgs {};

AssistantContent call(std::string name, std::string id) {
    return faux_tool_call(name, JsonObject(), std::move(id));
}

FauxStep calls(std::vector<std::string> names) {
    ContentList<AssistantContent> blocks;
    blocks.emplace_back(faux_text("Let me see"));
    for (std::size_t i = 0; i < names.size(); ++i) {
        blocks.push_back(call(names[i], "c" + std::to_string(i + 1)));
    }
    return FauxStep(faux_assistant_message(std::move(blocks), stop_reason::tool_use));
}

Task<std::string> honoring_body(Points& points, ToolContext& context) {
    co_await context.update("begun");
    co_await points.wait_for_stop(*context.runtime().clock, context.stop_token());
    co_await context.update("nearly done");
    co_return "stopped";
}

Task<std::string> deaf_body(Points& points, ToolContext& context) {
    co_await points.wait(*context.runtime().clock);
    co_await points.wait(*context.runtime().clock);
    co_return "deaf";
}

Task<std::string> failing_body(Points& points, ToolContext& context) {
    co_await points.wait_for_stop(*context.runtime().clock, context.stop_token());
    throw std::runtime_error("no such luck");
}

/// Ends on request; never by an external interruption.
AgentTool stoppable(Points& points) {
    return tool<NoArgs>(
        "stoppable", "Ends when it is asked to stop.",
        [&points](NoArgs, ToolContext& context) { return honoring_body(points, context); });
}

/// Ignores its stop token: the coroutine is cancelled.
AgentTool deaf(Points& points) {
    return tool<NoArgs>(
        "deaf", "Ends when it is cancelled.",
        [&points](NoArgs, ToolContext& context) { return deaf_body(points, context); });
}

AgentTool failing(Points& points) {
    return tool<NoArgs>("failing", "Throws.", [&points](NoArgs, ToolContext& context) {
        return failing_body(points, context);
    });
}

AgentTool quick() {
    return tool<NoArgs>("quick", "Is done at once.", [](NoArgs) { return std::string("quick"); });
}

/// Holds a thread of the pool until it is asked to stop.
AgentTool blocking() {
    return blocking_tool<NoArgs>(
        "blocking", "Blocks a thread for a moment.", [](NoArgs, ToolContext& context) {
            for (int i = 0; i < 3 && !context.stop_token().stop_requested(); ++i) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            return std::string("blocked");
        });
}

Situation text_turn() {
    Situation situation;
    situation.name = "text turn";
    situation.script = [] {
        std::vector<FauxStep> steps;
        steps.emplace_back(faux_assistant_message("Hello there, how are you"));
        return steps;
    };
    return situation;
}

Situation thinking_turn() {
    Situation situation;
    situation.name = "thinking";
    situation.script = [] {
        ContentList<AssistantContent> blocks;
        blocks.emplace_back(faux_thinking("Hm, what to say"));
        blocks.emplace_back(faux_text("Hello there"));
        std::vector<FauxStep> steps;
        steps.emplace_back(faux_assistant_message(std::move(blocks)));
        return steps;
    };
    return situation;
}

Situation tool_turn(std::string name, std::vector<std::string> names,
                    ExecutionMode mode = ExecutionMode::parallel) {
    Situation situation;
    situation.name = std::move(name);
    situation.script = [names] {
        std::vector<FauxStep> steps;
        steps.push_back(calls(names));
        steps.emplace_back(faux_assistant_message("All done"));
        return steps;
    };
    situation.equip = [mode](AgentOptions& options, Points& points) {
        options.tools = {stoppable(points), deaf(points), failing(points), quick(), blocking()};
        options.tool_execution = mode;
    };
    return situation;
}

/// Every hook waits.
struct WaitingHooks {
    Points& points;

    Task<> wait(HookContext& context) { co_await points.wait(*context.runtime->clock); }
    Task<MessageList> transform_context(MessageList messages, HookContext& context) {
        co_await wait(context);
        co_return messages;
    }
    Task<MessageList> convert_to_llm(MessageList messages, HookContext& context) {
        co_await wait(context);
        co_return messages;
    }
    Task<std::string> transform_system_prompt(std::string prompt, HookContext& context) {
        co_await wait(context);
        co_return prompt;
    }
    Task<std::optional<ToolCall>> resolve_tool_call(ToolCall, HookContext& context) {
        co_await wait(context);
        co_return std::nullopt;
    }
    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext& context) {
        co_await points.wait(*context.context.runtime->clock);
        co_return std::nullopt;
    }
    Task<std::optional<AfterToolCallResult>> after_tool_call(AfterToolCallContext& context) {
        co_await points.wait(*context.context.runtime->clock);
        co_return std::nullopt;
    }
    Task<std::optional<TurnAction>> after_model_response(AssistantMessage, HookContext& context) {
        co_await wait(context);
        co_return std::nullopt;
    }
    Task<bool> should_stop_after_turn(ShouldStopAfterTurnContext& context) {
        co_await points.wait(*context.context.runtime->clock);
        co_return false;
    }
    Task<MessageList> on_run_end(HookContext& context) {
        co_await wait(context);
        co_return MessageList();
    }
    Task<MessageStream> around_model_call(ModelRequest request, ModelCallNext next) {
        auto clock = request.options.runtime()->clock;
        co_await points.wait(*clock);
        Task<MessageStream> rest = next(std::move(request));
        co_return co_await std::move(rest);
    }
};

Situation waiting_hooks() {
    Situation situation = tool_turn("hooks that wait", {"quick", "deaf"});
    const auto equip = situation.equip;
    situation.equip = [equip](AgentOptions& options, Points& points) {
        equip(options, points);
        options.middleware.emplace_back(WaitingHooks{points});
    };
    return situation;
}

Situation steered() {
    Situation situation = tool_turn("steering and follow-ups", {"quick", "stoppable"});
    const auto script = situation.script;
    situation.script = [script] {
        std::vector<FauxStep> steps = script();
        for (const char* text : {"Steered", "Followed", "Followed again"}) steps.emplace_back(text);
        return steps;
    };
    situation.at_event = [](Agent& agent, const AgentEvent& event) {
        const auto* end = event.get_if<MessageEndEvent>();
        if (!end || !end->message.user() || end->message.text() != "hi") return;
        (void)agent.steer("faster");
        (void)agent.follow_up("and then?");
        (void)agent.follow_up("and after that?");
    };
    return situation;
}

/// A database in a temporary directory.
struct OwnDatabase {
    std::filesystem::path directory;
    std::unique_ptr<SQLiteCheckpointer> store;
    OwnDatabase() {
        std::string name =
            (std::filesystem::temp_directory_path() / "cubepi-abort-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
        directory = name;
        SQLiteOptions options;
        options.path = (directory / "t.db").string();
        options.synchronous = SQLiteSynchronous::off;
        store = std::make_unique<SQLiteCheckpointer>(options);
    }
    ~OwnDatabase() {
        store.reset();
        std::filesystem::remove_all(directory);
    }
};

std::shared_ptr<Checkpointer> make_sqlite_store() {
    auto own = std::make_shared<OwnDatabase>();
    Checkpointer* store = own->store.get();
    return std::shared_ptr<Checkpointer>(std::move(own), store);
}

Situation with_store(Situation situation, std::string name,
                     std::function<std::shared_ptr<Checkpointer>(Points&)> store) {
    situation.name += ", " + std::move(name);
    situation.store = std::move(store);
    return situation;
}

}  // namespace

TEST(Abort, D7_TextTurn_CanBeAbortedAnywhere) { abort_everywhere(text_turn()); }

TEST(Abort, D7_ThinkingTurn_CanBeAbortedAnywhere) { abort_everywhere(thinking_turn()); }

TEST(Abort, D7_ToolTurn_CanBeAbortedAnywhere) {
    abort_everywhere(tool_turn("tool turn", {"stoppable"}));
}

TEST(Abort, D7_ToolIgnoringTheAbort_CanBeAbortedAnywhere) {
    abort_everywhere(tool_turn("deaf tool", {"deaf"}));
}

TEST(Abort, D7_ParallelTools_CanBeAbortedAnywhere) {
    abort_everywhere(
        tool_turn("parallel tools", {"stoppable", "deaf", "quick", "failing", "unknown"}));
}

TEST(Abort, D7_SequentialTools_CanBeAbortedAnywhere) {
    abort_everywhere(tool_turn("sequential tools", {"quick", "stoppable", "deaf", "failing"},
                               ExecutionMode::sequential));
}

TEST(Abort, D7_BlockingTools_CanBeAbortedAnywhere) {
    abort_everywhere(tool_turn("blocking tools", {"blocking", "blocking"}));
}

TEST(Abort, D7_WaitingHooks_CanBeAbortedAnywhere) { abort_everywhere(waiting_hooks()); }

TEST(Abort, D7_SteeringAndFollowUps_CanBeAbortedAnywhere) { abort_everywhere(steered()); }

TEST(Abort, D51_ClaimingLoadingAndStoring_CanBeAbortedAnywhere) {
    abort_everywhere(with_store(tool_turn("tool turn", {"quick", "stoppable"}), "slow store",
                                make_waiting_store));
}

TEST(Abort, D51_SearchForIdentifiedInput_CanBeAbortedAnywhere) {
    Situation situation =
        with_store(tool_turn("tool turn", {"quick"}), "identified input", make_waiting_store);
    situation.input = [] { return PromptInput(user_message("hi", "input-1")); };
    abort_everywhere(situation);
}

TEST(Abort, D7_SqliteStore_CanBeAbortedAnywhere) {
    abort_everywhere(with_store(tool_turn("tool turn", {"quick", "stoppable"}), "SQLite",
                                [](Points&) { return make_sqlite_store(); }));
}

}  // namespace cubepi::abort_tests
