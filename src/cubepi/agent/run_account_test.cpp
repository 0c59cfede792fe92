// The part of a run that its tools and hooks may use: its identity, and the account for model calls that they make (D67, D70).

#include <cubepi/agent/agent_test_support.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/provider/observers.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

struct NoArgs {};

Usage tokens(std::int64_t output) {
    Usage usage;
    usage.output_tokens = output;
    return usage;
}

/// A free model that calls the tool "work" once and then answers.
FauxProvider working_model() {
    FauxProvider faux;
    faux.set_responses(
        {faux_assistant_message(faux_tool_call("work", JsonObject()), stop_reason::tool_use),
         "done"});
    return faux;
}

Model free_of_charge() {
    Model model;
    model.id = "free";
    ModelCost& cost = model.cost.emplace();
    cost.input = cost.output = cost.cache_read = cost.cache_write = 0.0;
    return model;
}

AgentOptions options_with(const FauxProvider& faux, AgentTool tool) {
    AgentOptions options;
    options.model = faux.model(free_of_charge());
    options.tools = {std::move(tool)};
    return options;
}

TEST(RunAccount, D67_AToolsChargeIsPartOfTheResult) {
    FauxProvider faux = working_model();
    AgentTool work = tool<NoArgs>("work", "Works.", [](NoArgs, ToolContext& context) {
        context.charge(tokens(1000), 0.25);
        return std::string("worked");
    });
    Agent agent(options_with(faux, std::move(work)));
    const RunResult result = run(agent.prompt("go"));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_GT(result.usage.output_tokens.value_or(0), 1000);
    EXPECT_DOUBLE_EQ(result.cost.value_or(-1), 0.25);
}

TEST(RunAccount, D67_AnUnknownPriceMakesTheCostOfTheRunUnknown) {
    FauxProvider faux = working_model();
    AgentTool work = tool<NoArgs>("work", "Works.", [](NoArgs, ToolContext& context) {
        context.charge(tokens(5), std::nullopt);
        context.charge(tokens(5), 1.0);
        return std::string("worked");
    });
    Agent agent(options_with(faux, std::move(work)));
    const RunResult result = run(agent.prompt("go"));
    EXPECT_FALSE(result.cost);
}

TEST(RunAccount, D67_AChargeCountsTowardTheSpendLimit) {
    FauxProvider faux = working_model();
    AgentTool work = tool<NoArgs>("work", "Works.", [](NoArgs, ToolContext& context) {
        context.charge(tokens(5), 2.0);
        return std::string("worked");
    });
    AgentOptions options = options_with(faux, std::move(work));
    options.limits.max_spend = 1.0;
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("go"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_EQ(faux.call_count(), 1u);
}

/// Calls a model of its own when a run ends, for example to judge the answer.
struct Judge {
    BoundModel model;
    std::vector<BoundModel> models = {model};
    int calls = 0;

    Task<MessageList> on_run_end(HookContext& context) {
        if (calls++ != 0) co_return MessageList();
        StreamOptions options = context.call_options("judge");
        MessageList question{user_message("good?")};
        Task<AssistantMessage> asking =
            model.generate(std::move(question), {}, {}, std::move(options));
        const AssistantMessage answer = co_await std::move(asking);
        context.charge(answer.usage.value_or(Usage()), 0.5);
        co_return MessageList();
    }
};

TEST(RunAccount, D70_AHookNamesItsModelsAndItsCalls) {
    FauxProvider faux;
    faux.set_responses({"answer"});
    FauxProvider helper;
    helper.set_responses({"yes"});
    AgentOptions options;
    options.model = faux.model(free_of_charge());
    options.middleware = {Judge{helper.model("helper")}};
    Agent agent(std::move(options));
    ASSERT_EQ(agent.models().size(), 2u);
    EXPECT_EQ(agent.models()[1].spec().id, "helper");
    std::string seen;
    helper.subscribe_request([&](const RequestPayload&, const ProviderCall& call) {
        seen = call.run_id().str() + " " + call.purpose().str();
    });
    const RunResult result = run(agent.prompt("hi", PromptOptions().run_id("r1")));
    EXPECT_EQ(seen, "r1 judge");
    EXPECT_DOUBLE_EQ(result.cost.value_or(-1), 0.5);
}

TEST(RunAccount, D70_ANestedRunNamesItsParent) {
    FauxProvider faux = working_model();
    FauxProvider inner_faux;
    inner_faux.set_responses({"inner"});
    JsonObject inner_start;
    std::string call_of_tool;
    AgentTool work =
        tool<NoArgs>("work", "Works.", [&](NoArgs, ToolContext& context) -> Task<std::string> {
            EXPECT_EQ(context.run().run_id, "outer");
            call_of_tool = context.tool_call_id().str();
            AgentOptions options;
            options.model = inner_faux.model("inner");
            Agent inner(std::move(options));
            inner.subscribe([&](const AgentEvent& event) {
                if (event.get_if<AgentStartEvent>()) inner_start = to_json(event);
            });
            PromptOptions prompt = PromptOptions().parent(context);
            Task<RunResult> running = inner.prompt("sub", std::move(prompt));
            const RunResult result = co_await std::move(running);
            context.charge(result.usage, result.cost);
            co_return result.text();
        });
    Agent agent(options_with(faux, std::move(work)));
    const RunResult result = run(agent.prompt("go", PromptOptions().run_id("outer")));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(inner_start.at("parent_run_id").as_string(), "outer");
    EXPECT_EQ(inner_start.at("parent_tool_call_id").as_string(), call_of_tool);
    // The inner model has no price.
    EXPECT_FALSE(result.cost);
}

TEST(RunAccount, TheTraceContextOfAPromptReachesItsEvents) {
    FauxProvider faux;
    faux.set_responses({"answer"});
    AgentOptions options;
    options.model = faux.model("m");
    Agent agent(std::move(options));
    std::shared_ptr<const RunInfo> info;
    agent.subscribe([&](const AgentEvent& event) { info = event.run; });
    run(agent.prompt("hi", PromptOptions().traceparent("00-x").tags({"a"}).metadata({{"k", 1}})));
    ASSERT_TRUE(info && info->origin.trace);
    EXPECT_EQ(info->origin.trace->traceparent, "00-x");
    EXPECT_EQ(info->origin.trace->tags, std::vector<std::string>{"a"});
    EXPECT_EQ(info->origin.trace->metadata.at("k").as_int64(), 1);
}

TEST(RunAccount, AToolOutsideOfARunHasNoIdentity) {
    ToolContext context("c", "t", std::stop_token(), Runtime::standard(),
                        [](Json) -> Task<> { co_return; });
    EXPECT_EQ(context.run().run_id, "");
    context.charge(tokens(1), 1.0);
    EXPECT_EQ(context.call_options("x").purpose(), "x");
}

}  // namespace
}  // namespace cubepi
