#include <cubepi/middleware/subagents_test_support.hpp>

#include <optional>

#include <cubepi/hitl/ask_user_tool.hpp>

// Questions of sub-agents are asked on the channel of the root (D114).

namespace cubepi {
namespace {

using namespace subagent_test;

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

struct InMemory : ::testing::Test {
    Family family;
    std::shared_ptr<InMemoryChannel> channel = std::make_shared<InMemoryChannel>();
    std::vector<HitlRequest> seen;

    InMemory() {
        family.options.channel = channel;
        family.options.middleware.emplace_back(
            ConfirmToolCallMiddleware(channel, about(family.confirmed)));
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

TEST_F(Stored, D115_ApprovedInAnotherProcess_StartsInTheBackground) {
    family.confirmed = {"subagent"};
    family.subagents.limits.max_background = 1;
    family.parent.set_responses({delegating({{"run_in_background", true}}), "ok", "ok"});
    family.child.set_responses({"done"});
    ASSERT_EQ(Process(store, family, true).suspended().outcome, RunOutcome::suspended);
    EXPECT_EQ(family.child.call_count(), 0u);
    Process second(store, family, true);
    const RunResult result = second.respond(approve());
    EXPECT_EQ(result.text(), "ok");
    EXPECT_TRUE(result_text(result).starts_with("Started task")) << result_text(result);
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

/// A parent whose calls of `rm` are approved by others than its users.
struct OtherChannel : ::testing::Test {
    Family family;
    std::shared_ptr<InMemoryChannel> users = std::make_shared<InMemoryChannel>();
    std::shared_ptr<InMemoryChannel> admins = std::make_shared<InMemoryChannel>();
    std::vector<HitlRequest> seen;

    OtherChannel() {
        family.options.channel = users;
        family.options.middleware.emplace_back(ConfirmToolCallMiddleware(admins, about({"rm"})));
        family.parent.set_responses({delegating(), "ok"});
        family.child.set_responses({removing("/a"), "done"});
    }
    /// Aborts if the users are asked.
    RunResult prompt(Agent& agent) {
        (void)agent.subscribe([this, &agent](const AgentEvent& event) {
            if (event.get_if<HitlRequestEvent>() || !users->pending().empty()) agent.abort();
        });
        return run(prompt_with(&agent, admins, deny(), &seen));
    }
};

TEST_F(OtherChannel, D114_CallOfSubagent_IsApprovedThere) {
    EXPECT_EQ(prompt(*family.agent()).text(), "ok");
    EXPECT_TRUE(family.removed.empty());
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].extra.at("agent_path"), JsonArray{"r"});
    EXPECT_NE(seen[0].question_id, "c1") << "the endpoint uses it for each call";
}

TEST_F(OtherChannel, D114_CallOfNestedSubagent_IsApprovedThere) {
    family.subagents.limits.max_depth = 2;
    family.child.set_responses({delegating({{"name", "inner"}}), removing("/a"), "x", "done"});
    EXPECT_EQ(prompt(*family.agent()).text(), "ok");
    EXPECT_TRUE(family.removed.empty());
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].extra.at("agent_path"), (JsonArray{"r", "inner"}));
}

TEST_F(OtherChannel, D114_CallOfStoredSubagent_IsApprovedThere) {
    family.options.middleware.clear();
    family.options.middleware.emplace_back(ConfirmToolCallMiddleware(admins, about({"rm"})));
    Process process(std::make_shared<MemoryCheckpointer>(), family, true, false);
    EXPECT_EQ(prompt(*process.agent).text(), "ok");
    EXPECT_TRUE(family.removed.empty());
    EXPECT_EQ(seen.size(), 1u);
}

TEST_F(InMemory, D114_NestedQuestion_HasOneId) {
    std::vector<std::string> ids;
    family.subagents.limits.max_depth = 2;
    family.subagents.on_event = [&ids](const AgentEvent& event) {
        if (const auto* asked = event.get_if<HitlRequestEvent>())
            ids.push_back(asked->request.question_id);
    };
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({delegating(), removing("/a"), "x", "done"});
    (void)prompt(approve());
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(ids, std::vector<std::string>(2, seen[0].question_id));
}

/// The channel of a thread whose answers cannot be stored.
class FullDiskChannel final : public HitlChannel {
public:
    explicit FullDiskChannel(std::shared_ptr<HitlChannel> inner) : inner_(std::move(inner)) {}
    Task<Json> request(HitlPayload payload, HitlOptions options) override {
        return inner_->request(std::move(payload), std::move(options));
    }
    std::vector<HitlRequest> pending() const override { return inner_->pending(); }
    HitlRequestStream subscribe() override { return inner_->subscribe(); }
    Task<> answer(std::string, Json, AnswerOrigin) override {
        throw CheckpointerError(ErrorCode::io, "the disk is full", "t");
        co_return;
    }
    Task<> cancel(std::string question_id, std::string reason) override {
        return inner_->cancel(std::move(question_id), std::move(reason));
    }
    bool is_durable() const noexcept override { return true; }
    void connect(std::shared_ptr<HitlRun> run) override {
        inner_->connect(run);
        HitlChannel::connect(std::move(run));
    }

private:
    const std::shared_ptr<HitlChannel> inner_;
};

TEST_F(Stored, D114_AnswerThatIsNotStored_EndsTheSubagent) {
    family.parent.set_responses({delegating(), "ok"});
    family.child.set_responses({removing("/a"), "done"});
    family.subagents.checkpointer = store;
    family.subagents.make_channel = [](std::shared_ptr<Checkpointer> to, std::string thread) {
        return std::make_shared<FullDiskChannel>(
            std::make_shared<CheckpointedChannel>(std::move(to), std::move(thread)));
    };
    Process process(store, family, false);
    std::vector<HitlRequest> seen;
    const RunResult result =
        run(prompt_with(process.agent.get(), process.channel, approve(), &seen));
    EXPECT_EQ(result.text(), "ok");
    EXPECT_NE(result_text(result).find("the disk is full"), std::string::npos)
        << result_text(result);
    EXPECT_TRUE(family.removed.empty());
}

}  // namespace
}  // namespace cubepi
