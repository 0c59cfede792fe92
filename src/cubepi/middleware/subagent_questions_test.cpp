#include <cubepi/middleware/subagents_test_support.hpp>

#include <optional>

#include <cubepi/hitl/ask_user_tool.hpp>

// Questions of sub-agents are asked on the channel of the root (D114).

namespace cubepi {
namespace {

using namespace subagent_test;

ConfirmToolCallOptions about_rm() {
    ConfirmToolCallOptions options;
    options.require_confirm = {"rm"};
    return options;
}

/// Answers the questions of a channel as they come.
Task<> answer_all(std::shared_ptr<HitlChannel> channel, Json value,
                  std::vector<HitlRequest>* seen) {
    HitlRequestStream requests = channel->subscribe();
    while (std::optional<HitlRequest> request = co_await requests.next()) {
        seen->push_back(*request);
        co_await channel->answer(
            request->request_id.empty() ? request->question_id : request->request_id, value);
    }
}

Task<RunResult> prompt_with(Agent* agent, std::shared_ptr<HitlChannel> channel, Json value,
                            std::vector<HitlRequest>* seen) {
    const Executor executor = co_await this_executor;
    BackgroundScope host(executor);
    host.spawn(answer_all(std::move(channel), std::move(value), seen));
    RunResult result = co_await agent->prompt("go");
    co_await host.close();
    co_return result;
}

Json approve() { return Json(to_json(ApproveAnswer())); }
Json deny() { return Json(to_json(ApproveAnswer::deny("no"))); }

struct InMemory : ::testing::Test {
    Family family;
    std::shared_ptr<InMemoryChannel> channel = std::make_shared<InMemoryChannel>();
    std::vector<HitlRequest> seen;

    InMemory() {
        family.options.channel = channel;
        family.options.middleware.emplace_back(ConfirmToolCallMiddleware(channel, about_rm()));
    }
    RunResult prompt(Json value) {
        const std::unique_ptr<Agent> agent = family.agent();
        return run(prompt_with(agent.get(), channel, std::move(value), &seen));
    }
};

TEST_F(InMemory, D114_QuestionOfSubagent_IsAskedAtTheRoot) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), "done"});
    EXPECT_EQ(result_text(prompt(approve())), "done");
    EXPECT_EQ(family.removed, std::vector<std::string>{"/a"});
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].extra.at("agent_path"), JsonArray{"r"});
    EXPECT_NE(seen[0].question_id, "c1") << "the endpoint uses it for each call";
}

TEST_F(InMemory, D114_DenialAtTheRoot_ReachesTheSubagent) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), "done"});
    (void)prompt(deny());
    EXPECT_TRUE(family.removed.empty());
    EXPECT_EQ(family.child.call_count(), 2u);
}

TEST_F(InMemory, D114_NestedQuestion_HasThePathOfItsAgents) {
    family.subagents.limits.max_depth = 2;
    family.parent.set_responses({delegating({{"name", "outer\x1b[31m"}}), "ok"});
    family.child.set_responses({delegating({{"name", "inner"}}), removing("/a"), "x", "done"});
    EXPECT_EQ(result_text(prompt(approve())), "done");
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].extra.at("agent_path"), (JsonArray{"outer[31m", "inner"}));
}

TEST_F(InMemory, D114_SharedQuestionTool_AsksAtTheRoot) {
    family.subagents.shared_tools.push_back(ask_user_tool(channel));
    family.parent.set_responses({delegating(), "ok"});
    const Json questions = JsonArray{JsonObject{{"key", "color"}, {"prompt", "Which?"}}};
    family.child.set_responses({calling("ask_user", {{"questions", questions}}), "done"});
    EXPECT_EQ(result_text(prompt(JsonObject{{"color", "blue"}})), "done");
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].extra.at("agent_path"), JsonArray{"r"});
}

/// One process: a parent with a stored conversation. `stores_children`: those of its sub-agents are stored too.
struct Process {
    Process(std::shared_ptr<Checkpointer> store, Family& family, bool stores_children) {
        SubagentOptions subagents = family.subagents;
        if (stores_children) {
            subagents.checkpointer = store;
            subagents.make_channel = [](std::shared_ptr<Checkpointer> to, std::string thread) {
                return std::make_shared<CheckpointedChannel>(std::move(to), std::move(thread));
            };
        }
        channel = std::make_shared<CheckpointedChannel>(store, "t");
        AgentOptions options = family.options;
        options.channel = channel;
        options.checkpointer = std::move(store);
        options.thread_id = "t";
        options.middleware.emplace_back(ConfirmToolCallMiddleware(channel, about_rm()));
        options.middleware.emplace_back(SubagentMiddleware(std::move(subagents)));
        agent = std::make_unique<Agent>(std::move(options));
    }
    /// Suspends the run at its first question.
    RunResult suspended() { return run(with_detach(agent->prompt("go"))); }
    RunResult respond(Json answer) {
        return run(with_detach(agent->respond("", std::move(answer))));
    }

    std::shared_ptr<HitlChannel> channel;
    std::unique_ptr<Agent> agent;

private:
    static Task<> detach_at_question(Agent* agent, std::shared_ptr<HitlChannel> channel) {
        HitlRequestStream requests = channel->subscribe();
        while (std::optional<HitlRequest> request = co_await requests.next()) {
            for (int i = 0; i < 10; ++i) co_await yield_now();
            (void)agent->detach();
        }
    }
    Task<RunResult> with_detach(Task<RunResult> work) {
        const Executor executor = co_await this_executor;
        BackgroundScope host(executor);
        host.spawn(detach_at_question(agent.get(), channel));
        RunResult result = co_await std::move(work);
        co_await host.close();
        co_return result;
    }
};

struct Stored : ::testing::Test {
    Family family;
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
};

TEST_F(Stored, D114_AnswerInAnotherProcess_ContinuesTheSubagent) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), removing("/b"), "done"});
    for (int i = 0; i < 3; ++i) {
        Process process(store, family, true);
        const RunResult result = i == 0 ? process.suspended() : process.respond(approve());
        if (i < 2) {
            ASSERT_EQ(result.outcome, RunOutcome::suspended);
            ASSERT_EQ(result.pending_requests.size(), 1u);
            EXPECT_EQ(result.pending_requests[0].extra.at("agent_path"), JsonArray{"r"});
            EXPECT_EQ(family.removed.size(), static_cast<std::size_t>(i));
            continue;
        }
        EXPECT_EQ(result.outcome, RunOutcome::completed);
        EXPECT_EQ(result.text(), "ok");
        EXPECT_EQ(result_text(result), "done");
    }
    EXPECT_EQ(family.removed, (std::vector<std::string>{"/a", "/b"}));
    EXPECT_EQ(family.child.call_count(), 3u);
}

TEST_F(Stored, D114_DenialInAnotherProcess_ReachesTheSubagent) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), "done"});
    ASSERT_EQ(Process(store, family, true).suspended().outcome, RunOutcome::suspended);
    EXPECT_EQ(Process(store, family, true).respond(deny()).outcome, RunOutcome::completed);
    EXPECT_TRUE(family.removed.empty());
}

TEST_F(Stored, D114_NestedSubagent_ContinuesInAnotherProcess) {
    family.subagents.limits.max_depth = 2;
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({delegating({{"name", "inner"}}), removing("/a"), "x", "done"});
    const RunResult first = Process(store, family, true).suspended();
    ASSERT_EQ(first.outcome, RunOutcome::suspended);
    EXPECT_EQ(first.pending_requests.at(0).extra.at("agent_path"), (JsonArray{"r", "inner"}));
    const RunResult result = Process(store, family, true).respond(approve());
    EXPECT_EQ(result.text(), "ok");
    EXPECT_EQ(result_text(result), "done");
    EXPECT_EQ(family.removed, std::vector<std::string>{"/a"});
}

TEST_F(Stored, D114_SubagentWithoutStore_IsInterruptedAndNotRepeated) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), "done", "again"});
    ASSERT_EQ(Process(store, family, false).suspended().outcome, RunOutcome::suspended);
    const RunResult result = Process(store, family, false).respond(approve());
    EXPECT_EQ(result.text(), "ok");
    EXPECT_NE(result_text(result).find("interrupted"), std::string::npos) << result_text(result);
    EXPECT_TRUE(family.removed.empty());
}

TEST_F(Stored, D114_AbortWhileSubagentWaits_ClosesBoth) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), "done"});
    Process process(store, family, true);
    (void)process.agent->subscribe([&process](const AgentEvent& event) {
        if (event.get_if<HitlRequestEvent>()) process.agent->abort();
    });
    EXPECT_EQ(run(process.agent->prompt("go")).outcome, RunOutcome::aborted);
    EXPECT_TRUE(family.removed.empty());
    EXPECT_TRUE(run(store->load_pending_requests("t")).empty());
}

}  // namespace
}  // namespace cubepi
