// Forks of stored threads, and rewinding: D81, D125.

#include <cubepi/agent/agent_test_support.hpp>

#include <string>

#include <gtest/gtest.h>
#include <cubepi/testing/hitl_channels.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

ErrorCode code_of(Task<void> task) {
    try {
        run(std::move(task));
    } catch (const Error& error) {
        return error.code();
    }
    ADD_FAILURE() << "there was no error";
    return ErrorCode::unknown;
}

struct ForkedThread {
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;

    AgentOptions options() const {
        AgentOptions made;
        made.model = faux.model();
        made.tools = {echo_tool()};
        made.checkpointer = store;
        made.thread_id = "t";
        return made;
    }
    /// Writes two runs, "r1" and "r2".
    void write() {
        faux.set_responses({"one", "two"});
        Agent agent(options());
        agent.set_extra("color", "green");
        EXPECT_TRUE(run(agent.prompt("first", PromptOptions().run_id("r1"))));
        EXPECT_TRUE(run(agent.prompt("second", PromptOptions().run_id("r2"))));
    }
};

TEST(Fork, Thread_IsCopiedUpToTheRun) {
    ForkedThread thread;
    thread.write();
    Agent agent(thread.options());
    run(agent.fork("t", "new", "r1", JsonObject{{"why", "test"}}));
    EXPECT_EQ(texts(stored(*thread.store, "new")), (std::vector<std::string>{"first", "one"}));
    EXPECT_EQ(run(thread.store->load("new"))->extra.at("fork").at("why"), Json("test"));
    EXPECT_EQ(agent.thread_id(), "t");
    EXPECT_EQ(code_of(agent.fork("t", "new", "r1")), ErrorCode::thread_exists);
    EXPECT_EQ(code_of(agent.fork("t", "", "r1")), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of(agent.fork("t", "n2", "r3")), ErrorCode::run_not_completed);
    EXPECT_EQ(code_of(agent.fork("none", "n2", "r1")), ErrorCode::thread_not_found);
    Agent without(AgentOptions{.model = thread.faux.model()});
    EXPECT_EQ(code_of(without.fork("t", "n2", "r1")), ErrorCode::invalid_state);
    AgentOptions plain = thread.options();
    plain.checkpointer = std::make_shared<FailingStore>(thread.store, 99);
    Agent unable(std::move(plain));
    EXPECT_EQ(code_of(unable.fork("t", "n2", "r1")), ErrorCode::unsupported);
}

/// A middleware with a tool and state in `extra`.
struct Coloring {
    std::shared_ptr<int> ran = std::make_shared<int>(0);
    std::vector<AgentTool> tools = {
        tool("paint", "Paints.", [ran = ran] { return std::to_string(++*ran); })};

    std::string transform_system_prompt(std::string prompt, HookContext& context) {
        prompt += json_text(context.extra.at("color"));
        context.extra["color"] = "red";
        return prompt;
    }
};

TEST(Fork, ForkOnce_LeavesNothingBehind) {
    ForkedThread thread;
    thread.write();
    const Coloring coloring;
    AgentOptions options = thread.options();
    options.system_prompt = "The color is ";
    options.middleware = {coloring};
    Agent agent(std::move(options));
    Recorder recorder(agent);
    Requests requests;
    thread.faux.set_responses(
        {requests.answer(calling({echo_call("a", "c1"), faux_tool_call("paint", {}, "c2")})),
         requests.answer("probed")});
    const MessageList before = stored(*thread.store, "t");
    Task<RunResult> probing =
        agent.fork_once("t", "what if", "r1", PromptOptions().run_id("probe"));
    const RunResult result = run(std::move(probing));
    EXPECT_EQ(result.text(), "probed");
    EXPECT_EQ(result.run_id, "probe");
    EXPECT_EQ(result.new_messages.size(), 5u);
    EXPECT_EQ(texts(result.new_messages)[2], "echo: a");
    EXPECT_TRUE(result.new_messages[3].tool_result()->is_error);
    EXPECT_EQ(*coloring.ran, 0);
    EXPECT_EQ(texts(requests.seen.at(0).messages),
              (std::vector<std::string>{"first", "one", "what if"}));
    EXPECT_EQ(requests.seen[0].system_prompt.str(), "The color is \"green\"");
    EXPECT_EQ(requests.seen[0].tools->size(), 2u);
    // Neither the store nor the agent has changed.
    EXPECT_EQ(stored(*thread.store, "t"), before);
    EXPECT_EQ(run(thread.store->load("t"))->extra.at("color"), Json("green"));
    EXPECT_EQ(run(thread.store->list_threads()).size(), 1u);
    EXPECT_TRUE(recorder.events.empty());
    EXPECT_TRUE(agent.state().messages.empty());
}

TEST(Fork, D125_ForkOnce_IsNotContinuedByMiddleware) {
    ForkedThread thread;
    thread.write();
    AgentOptions options = thread.options();
    int called = 0;
    options.on_run_end = [&called](HookContext&) {
        MessageList more;
        if (++called < 3) more.push_back(synthetic_user_message("not yet", "goal_continuation"));
        return more;
    };
    options.after_model_response = [&called](AssistantMessage, HookContext&) {
        ++called;
        TurnAction action;
        action.decision = TurnDecision::loop_to_model;
        return std::optional(action);
    };
    options.limits.max_turns = 4;
    Agent agent(std::move(options));
    thread.faux.set_responses({"probed", "continued", "continued", "continued"});
    Task<RunResult> probing = agent.fork_once("t", "what if", "r1");
    EXPECT_EQ(run(std::move(probing)).text(), "probed");
    EXPECT_EQ(called, 0);
}

TEST(Fork, ForkOnceDuringRun_LeavesTheRunAlone) {
    ForkedThread thread;
    thread.write();
    Agent* probed = nullptr;
    AgentOptions options = thread.options();
    options.tools = {tool("probe", "Probes.", [&probed]() -> Task<std::string> {
        Task<RunResult> probing = probed->fork_once("t", "inside", "r2");
        const RunResult result = co_await std::move(probing);
        co_return result.text();
    })};
    Agent agent(std::move(options));
    probed = &agent;
    thread.faux.set_responses({calling({faux_tool_call("probe", {}, "c1")}), "probed", "done"});
    const RunResult result = run(agent.prompt("third"));
    EXPECT_EQ(texts(result.new_messages),
              (std::vector<std::string>{"third", "", "probed", "done"}));
}

TEST(Fork, CancelledForkOnce_AbortsTheProbe) {
    ForkedThread thread;
    thread.write();
    AsyncEvent begun;
    bool ended = false;
    AgentOptions options = thread.options();
    options.tools = {tool("wait", "Waits.", [&]() -> Task<std::string> {
        begun.set();
        AsyncEvent never;
        try {
            co_await never.wait();
        } catch (...) {
            ended = true;
            throw;
        }
        co_return "never";
    })};
    Agent agent(std::move(options));
    thread.faux.set_responses({calling({faux_tool_call("wait", {}, "c1")})});
    auto body = [&](TaskScope& scope) -> Task<void> {
        scope.spawn(agent.fork_once("t", "wait", "r1"));
        co_await begun.wait();
        scope.cancel();
        co_await scope.join();
    };
    run(with_task_scope(body));
    EXPECT_TRUE(ended);
}

TEST(Fork, ForkOnceWithChannel_IsRefused) {
    ForkedThread thread;
    thread.write();
    AgentOptions options = thread.options();
    options.channel = std::make_shared<testing::NoopChannel>();
    Agent agent(std::move(options));
    const auto probe = [&agent]() -> Task<void> {
        Task<RunResult> probing = agent.fork_once("t", "hi", "r1");
        (void)co_await std::move(probing);
    };
    EXPECT_EQ(code_of(probe()), ErrorCode::unsupported);
}

TEST(Rewind, D81_Rewind_CutsTheHistoryInMemory) {
    FauxProvider faux;
    faux.set_responses({"one", calling({echo_call("x")}), "two", "other"});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    EXPECT_TRUE(run(agent.prompt("first")));
    EXPECT_TRUE(run(agent.prompt(user_message("second", "m2"))));
    const std::string result_id = agent.state().messages[4].id();
    EXPECT_EQ(code_of(agent.rewind(result_id)), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of(agent.rewind("none")), ErrorCode::invalid_argument);
    EXPECT_EQ(agent.state().messages.size(), 6u);
    run(agent.rewind("m2"));
    EXPECT_EQ(texts(agent.state().messages), (std::vector<std::string>{"first", "one"}));
    EXPECT_EQ(run(agent.prompt("second, edited")).text(), "other");
    EXPECT_EQ(agent.state().messages.size(), 4u);
}

TEST(Rewind, D81_StoredThread_IsForkedAndUnchanged) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two", "other"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt("first")));
    EXPECT_TRUE(run(agent.prompt(user_message("second", "m2"))));
    EXPECT_EQ(code_of(agent.rewind("m2")), ErrorCode::invalid_argument);
    run(agent.rewind("m2", "t-2"));
    EXPECT_EQ(agent.thread_id(), "t-2");
    EXPECT_EQ(texts(agent.state().messages), (std::vector<std::string>{"first", "one"}));
    EXPECT_TRUE(run(agent.prompt("second, edited")));
    EXPECT_EQ(stored(*store, "t").size(), 4u);
    EXPECT_EQ(texts(stored(*store, "t-2")),
              (std::vector<std::string>{"first", "one", "second, edited", "other"}));
    // Another agent finds the same.
    Agent again({.model = faux.model(), .checkpointer = store, .thread_id = "t-2"});
    faux.set_responses({"more"});
    EXPECT_TRUE(run(again.prompt("third")));
    EXPECT_EQ(again.state().messages.size(), 6u);
}

TEST(Rewind, D81_BeforeTheFirstMessage_NewThreadIsEmpty) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "other", "third"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt(user_message("first", "m1"))));
    EXPECT_THROW(run(agent.rewind("m1", "t")), ThreadAlreadyExistsError);
    EXPECT_EQ(agent.state().messages.size(), 2u);
    run(agent.rewind("m1", "t-2"));
    EXPECT_TRUE(agent.state().messages.empty());
    EXPECT_TRUE(run(agent.prompt("first, edited")));
    EXPECT_EQ(stored(*store, "t-2").size(), 2u);
}

TEST(Rewind, D81_Rewind_LoadsTheThreadFirst) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    {
        Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
        EXPECT_TRUE(run(agent.prompt("first")));
        EXPECT_TRUE(run(agent.prompt(user_message("second", "m2"))));
    }
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    run(agent.rewind("m2", "t-2"));
    EXPECT_EQ(agent.state().messages.size(), 2u);
}

TEST(Rewind, D81_MessageInsideRun_IsRefused) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt("first")));
    const std::string answer = agent.state().messages[1].id();
    EXPECT_EQ(code_of(agent.rewind(answer, "t-2")), ErrorCode::invalid_argument);
    EXPECT_EQ(agent.thread_id(), "t");
}

TEST(Rewind, D81_IncompleteRuns_CannotBeForked) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", faux_failure("down"), "three", "four"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt("first")));
    EXPECT_FALSE(run(agent.prompt("second")));
    EXPECT_TRUE(run(agent.prompt("third")));
    EXPECT_TRUE(run(agent.prompt(user_message("fourth", "m4"))));
    EXPECT_EQ(code_of(agent.rewind("m4", "t-2")), ErrorCode::invalid_argument);
    EXPECT_EQ(agent.thread_id(), "t");
    EXPECT_EQ(agent.state().messages.size(), 8u);
}

TEST(Rewind, D81_StoreWithoutForks_RefusesRewind) {
    auto store = std::make_shared<FailingStore>(std::make_shared<MemoryCheckpointer>(), 1000);
    FauxProvider faux;
    faux.set_responses({"one"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt(user_message("first", "m1"))));
    EXPECT_EQ(code_of(agent.rewind("m1", "t-2")), ErrorCode::unsupported);
}

}  // namespace
}  // namespace cubepi
