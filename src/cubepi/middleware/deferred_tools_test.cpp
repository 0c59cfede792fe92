#include <cubepi/middleware/deferred_tools.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent_test_support.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

struct CityArgs {
    std::string city;
};

/// A group "weather" with the tools "forecast" and "alerts", and a record of what its tools and its loader did.
struct Weather {
    DeferredToolGroup group() {
        DeferredToolGroup made;
        made.group_id = "weather";
        made.display_name = "Weather";
        made.description = "The weather of cities.";
        made.tool_names = {"forecast", "alerts"};
        made.loader = [this]() -> Task<std::vector<AgentTool>> {
            ++loads;
            if (gate) co_await gate->wait();
            if (fails-- > 0) throw Error(ErrorCode::io, "the weather server is down");
            std::vector<AgentTool> tools;
            tools.push_back(tool<CityArgs>("forecast", "Forecasts rain and sun.",
                                           [this](CityArgs args) { return use(args); })
                                .risk(risk)
                                .replay(replay));
            tools.push_back(tool<CityArgs>("alerts", "Warns of storms.",
                                           [this](CityArgs args) { return use(args); }));
            tools.push_back(echo_tool());  // not named by the group
            co_return tools;
        };
        return made;
    }
    std::string use(const CityArgs& args) {
        cities.push_back(args.city);
        return "sun in " + args.city;
    }
    int loads = 0;
    int fails = 0;
    ToolRisk risk = ToolRisk::network;
    ReplayPolicy replay = ReplayPolicy::never;
    std::shared_ptr<AsyncEvent> gate = {};
    std::vector<std::string> cities;
};

ToolCall loading(std::string group = "weather", Json names = nullptr) {
    JsonObject arguments{{"group_id", std::move(group)}};
    if (!names.is_null()) arguments["tool_names"] = std::move(names);
    return faux_tool_call("load_tools", std::move(arguments), "l1");
}

ToolCall dispatching(std::string name, Json arguments, std::string id = "d1") {
    return faux_tool_call("deferred_tool_call",
                          JsonObject{{"tool_name", name}, {"arguments", std::move(arguments)}}, id);
}

ToolCall forecast_of(std::string city, std::string id = "d1") {
    return dispatching("forecast", JsonObject{{"city", std::move(city)}}, std::move(id));
}

struct Deferred {
    explicit Deferred(Weather& weather, DeferredStrategy strategy = DeferredStrategy::dispatch,
                      std::vector<Middleware> more = {}, AgentOptions agent_options = {}) {
        DeferredToolsOptions chosen;
        chosen.strategy = strategy;
        options = std::move(agent_options);
        options.model = faux.model();
        options.system_prompt = "You help.";
        options.middleware.emplace_back(DeferredToolsMiddleware({weather.group()}, chosen));
        for (Middleware& one : more) options.middleware.push_back(std::move(one));
    }
    /// Prompts with an answer for each step, and returns the new messages.
    MessageList answering(std::vector<AssistantMessage> answers, std::string prompt = "hi") {
        std::vector<FauxStep> steps;
        for (AssistantMessage& answer : answers) steps.push_back(requests.answer(answer));
        steps.push_back(requests.answer("done"));
        faux.set_responses(std::move(steps));
        if (!agent) {
            agent = std::make_unique<Agent>(options);
            recorder = std::make_unique<Recorder>(*agent);
        }
        return run(agent->prompt(std::move(prompt))).new_messages;
    }
    std::vector<std::string> advertised(std::size_t request) const {
        std::vector<std::string> names;
        for (const ToolDefinition& tool : *requests.seen.at(request).tools)
            names.push_back(tool.name.str());
        return names;
    }
    FauxProvider faux;
    Requests requests;
    AgentOptions options;
    std::unique_ptr<Agent> agent;
    std::unique_ptr<Recorder> recorder;
};

TEST(DeferredTools, D122_Dispatch_LoadsAndCallsTheTool) {
    Weather weather;
    Deferred it(weather);
    const MessageList messages =
        it.answering({calling({loading()}), calling({forecast_of("Oslo")})});
    const Json loaded = boost::json::parse(messages[2].text());
    EXPECT_EQ(loaded.at("expanded"), Json(true));
    EXPECT_EQ(loaded.at("remaining"), Json(0));
    EXPECT_EQ(loaded.at("tool_names"), (JsonArray{"forecast", "alerts"}));
    EXPECT_EQ(loaded.at("schemas").at(0).at("parameters").at("required"), (JsonArray{"city"}));
    EXPECT_EQ(messages[4].text(), "sun in Oslo");
    EXPECT_EQ(messages[4].tool_result()->tool_name.str(), "forecast");
    EXPECT_EQ(weather.loads, 1);
    EXPECT_EQ(it.agent->state().extra.at("expanded_groups"), (JsonObject{{"weather", nullptr}}));
}

TEST(DeferredTools, D122_LoadedInParts_CountsWhatRemains) {
    for (const DeferredStrategy strategy : {DeferredStrategy::dispatch, DeferredStrategy::inject}) {
        Weather weather;
        Deferred it(weather, strategy);
        const MessageList first =
            it.answering({calling({loading("weather", JsonArray{"alerts"})})});
        EXPECT_EQ(boost::json::parse(first[2].text()).at("remaining"), Json(1));
        const MessageList second =
            it.answering({calling({loading("weather", JsonArray{"forecast"})})});
        EXPECT_EQ(boost::json::parse(second[2].text()).at("remaining"), Json(0));
    }
}

TEST(DeferredTools, D122_Dispatch_NeverChangesThePrefix) {
    Weather weather;
    Deferred it(weather);
    it.answering({calling({loading("weather", JsonArray{"alerts"})}), calling({loading()}),
                  calling({forecast_of("Oslo")})});
    it.answering({calling({forecast_of("Rome")})}, "again");
    EXPECT_EQ(it.recorder->notices(), std::vector<std::string>());
    for (const ModelRequest& request : it.requests.seen) {
        EXPECT_TRUE(request.tools == it.requests.seen[0].tools) << "another list";
        EXPECT_EQ(request.system_prompt.str(), it.requests.seen[0].system_prompt.str());
    }
    EXPECT_EQ(it.advertised(0),
              (std::vector<std::string>{"load_tools", "search_tools", "deferred_tool_call"}));
    EXPECT_NE(it.requests.seen[0].system_prompt.str().find(
                  "- `weather`: Weather. The weather of cities. (2 tools)\n  forecast, alerts"),
              std::string::npos);
}

TEST(DeferredTools, D122_Inject_AddsToolsWithAnAnnouncedBreak) {
    Weather weather;
    Deferred it(weather, DeferredStrategy::inject);
    it.answering({calling({loading("weather", JsonArray{"alerts"})}),
                  calling({faux_tool_call("alerts", {{"city", "Oslo"}}, "c1")})});
    EXPECT_EQ(it.advertised(0), (std::vector<std::string>{"load_tools", "search_tools"}));
    EXPECT_EQ(it.advertised(1), (std::vector<std::string>{"load_tools", "search_tools", "alerts"}));
    EXPECT_NE(it.requests.seen[1].system_prompt.str().find("(1 more tools)\n  forecast"),
              std::string::npos);
    EXPECT_EQ(weather.cities, std::vector<std::string>{"Oslo"});
    it.answering({calling({loading()})}, "more");
    EXPECT_EQ(it.advertised(3), it.advertised(1)) << "the next run has them from the start";
    EXPECT_EQ(it.advertised(4).size(), 4u);
    EXPECT_EQ(it.requests.seen[4].system_prompt.str(), "You help.");
    EXPECT_EQ(it.recorder->notices(), std::vector<std::string>());
}

TEST(DeferredTools, D122_InjectedByACall_IsAnnouncedAndStored) {
    Weather weather;
    Deferred it(weather, DeferredStrategy::inject);
    it.answering({calling({faux_tool_call("alerts", {{"city", "Oslo"}}, "c1")}),
                  calling({faux_tool_call("alerts", {{"city", "Rome"}}, "c2")})});
    EXPECT_EQ(weather.cities, (std::vector<std::string>{"Oslo", "Rome"}));
    EXPECT_EQ(it.advertised(1), (std::vector<std::string>{"load_tools", "search_tools", "alerts"}));
    it.answering({}, "more");
    EXPECT_EQ(it.advertised(3), it.advertised(1)) << "the next run has it from the start";
    EXPECT_EQ(it.recorder->notices(), std::vector<std::string>());
    EXPECT_EQ(it.agent->state().extra.at("expanded_groups"),
              (JsonObject{{"weather", JsonArray{"alerts"}}}));
}

TEST(DeferredTools, ToolsOfPrompt_LeaveOutDeferredTools) {
    for (const DeferredStrategy strategy : {DeferredStrategy::inject, DeferredStrategy::dispatch}) {
        const auto store = std::make_shared<MemoryCheckpointer>();
        run(store->save_extra("t",
                              JsonObject{{"expanded_groups", JsonObject{{"weather", nullptr}}}}));
        AgentOptions stored;
        stored.checkpointer = store;
        stored.thread_id = "t";
        Weather weather;
        Deferred it(weather, strategy, {}, stored);
        it.faux.set_responses(
            {it.requests.answer(calling(
                 {forecast_of("Oslo"), faux_tool_call("forecast", {{"city", "Rome"}}, "c1")})),
             it.requests.answer("done")});
        Agent agent(it.options);
        ToolList few(std::vector<AgentTool>(1, echo_tool()));
        const RunResult result = run(agent.prompt("hi", PromptOptions().tools(std::move(few))));
        EXPECT_EQ(it.advertised(0), std::vector<std::string>{"echo"});
        EXPECT_EQ(it.advertised(1), std::vector<std::string>{"echo"});
        EXPECT_EQ(result.new_messages[2].text(), "Tool deferred_tool_call not found");
        EXPECT_EQ(result.new_messages[3].text(), "Tool forecast not found");
        EXPECT_TRUE(weather.cities.empty());
    }
}

TEST(DeferredTools, D125_Probe_RunsNoDeferredTool) {
    for (const DeferredStrategy strategy : {DeferredStrategy::inject, DeferredStrategy::dispatch}) {
        const bool injects = strategy == DeferredStrategy::inject;
        AgentOptions stored;
        stored.checkpointer = std::make_shared<MemoryCheckpointer>();
        stored.thread_id = "t";
        Weather weather;
        Deferred it(weather, strategy, {}, stored);
        it.answering({calling({loading()})});
        const std::string first = it.agent->state().messages.back().run_id().str();
        const ToolCall by_name = faux_tool_call("forecast", {{"city", "Rome"}}, "c1");
        const ToolCall call = injects ? by_name : forecast_of("Oslo");
        it.faux.set_responses(
            {it.requests.answer(calling({call, by_name})), it.requests.answer("probed")});
        const RunResult probe = run(it.agent->fork_once("t", "try", first));
        EXPECT_EQ(probe.text(), "probed");
        EXPECT_EQ(it.advertised(2), it.advertised(1)) << "the cached prefix";
        for (std::size_t i = 2; i < 4; ++i) {
            EXPECT_NE(probe.new_messages[i].text().find("has no effect here"), std::string::npos)
                << probe.new_messages[i].text();
        }
        EXPECT_TRUE(weather.cities.empty());
        it.answering({calling({call})});
        EXPECT_EQ(weather.cities.size(), 1u) << "the thread itself has the tool";
    }
}

TEST(DeferredTools, D122_AnotherProcess_LoadsWhatWasExpanded) {
    const auto store = std::make_shared<MemoryCheckpointer>();
    for (const DeferredStrategy strategy : {DeferredStrategy::inject, DeferredStrategy::dispatch}) {
        AgentOptions stored;
        stored.checkpointer = store;
        stored.thread_id = strategy == DeferredStrategy::inject ? "inject" : "dispatch";
        Weather first;
        Deferred before(first, strategy, {}, stored);
        before.answering({calling({loading()})});
        Weather second;
        Deferred after(second, strategy, {}, stored);
        const bool injects = strategy == DeferredStrategy::inject;
        after.answering({calling({injects ? faux_tool_call("forecast", {{"city", "Oslo"}}, "c1")
                                          : forecast_of("Oslo")})});
        EXPECT_EQ(second.cities, std::vector<std::string>{"Oslo"});
        EXPECT_EQ(second.loads, 1);
        EXPECT_EQ(after.advertised(0), before.advertised(1));
        EXPECT_EQ(after.recorder->notices(), std::vector<std::string>());
    }
}

TEST(DeferredTools, HostileState_IsIgnored) {
    for (const char* text : {"7", "[]", R"({"weather":5,"other":null})", R"({"weather":[1,"x"]})",
                             R"({"weather":{"a":[]}})"}) {
        const auto store = std::make_shared<MemoryCheckpointer>();
        run(store->save_extra("t", JsonObject{{"expanded_groups", boost::json::parse(text)}}));
        AgentOptions stored;
        stored.checkpointer = store;
        stored.thread_id = "t";
        Weather weather;
        Deferred it(weather, DeferredStrategy::inject, {}, stored);
        const MessageList messages = it.answering({calling({loading()})});
        EXPECT_EQ(it.advertised(0).size(), 2u) << text;
        EXPECT_EQ(messages.back().text(), "done") << text;
        EXPECT_TRUE(it.agent->state().extra.at("expanded_groups").at("weather").is_null());
    }
}

/// A policy that refuses one tool and records the calls about which it is asked.
struct Policy {
    std::shared_ptr<std::vector<std::string>> asked = std::make_shared<std::vector<std::string>>();
    std::string refused = {};
    std::optional<BeforeToolCallResult> before_tool_call(BeforeToolCallContext& call) {
        asked->push_back(call.tool.name.str() + " " + std::string(to_string(call.tool.risk_level)) +
                         " " + json_text(Json(call.args)));
        if (call.tool_call.name.str() != refused) return std::nullopt;
        BeforeToolCallResult result;
        result.block = true;
        result.reason = "not allowed";
        return result;
    }
};

TEST(DeferredTools, D122_Policies_SeeTheResolvedCall) {
    Weather weather;
    Policy policy;
    policy.refused = "forecast";
    Deferred it(weather, DeferredStrategy::dispatch, {policy});
    const MessageList messages =
        it.answering({calling({forecast_of("Oslo")}),
                      calling({faux_tool_call("forecast", {{"city", "Rome"}}, "n1")})});
    EXPECT_EQ(messages[2].text(), "not allowed");
    EXPECT_EQ(messages[4].text(), "not allowed") << "called by its own name";
    EXPECT_TRUE(weather.cities.empty());
    EXPECT_EQ(*policy.asked, (std::vector<std::string>{R"(forecast network {"city":"Oslo"})",
                                                       R"(forecast network {"city":"Rome"})"}));
    std::vector<std::string> started;
    for (const AgentEvent& event : it.recorder->events) {
        if (const auto* start = event.get_if<ToolExecutionStartEvent>())
            started.push_back(start->tool_name.str());
    }
    EXPECT_EQ(started, (std::vector<std::string>{"forecast", "forecast"}));
}

TEST(DeferredTools, D84_Arguments_AreThoseOfTheTool) {
    Weather weather;
    Deferred it(weather);
    ToolCall cut = faux_tool_call("deferred_tool_call", JsonObject(), "d4");
    cut.extra["raw_arguments"] = R"({"tool_name":"forecast","arguments":{"city":"Os)";
    const MessageList messages =
        it.answering({calling({dispatching("forecast", JsonObject{{"town", "Oslo"}}, "d1"),
                               dispatching("forecast", Json("Oslo"), "d2"),
                               dispatching("rain", JsonObject(), "d3"), cut})});
    EXPECT_NE(messages[2].text().find("city"), std::string::npos) << messages[2].text();
    EXPECT_NE(messages[3].text().find("arguments"), std::string::npos) << messages[3].text();
    EXPECT_NE(messages[4].text().find("There is no tool 'rain'"), std::string::npos);
    EXPECT_NE(messages[4].text().find("forecast, alerts"), std::string::npos);
    EXPECT_NE(messages[5].text().find("cut off"), std::string::npos) << messages[5].text();
    for (std::size_t i = 2; i < 6; ++i) EXPECT_TRUE(messages[i].tool_result()->is_error);
    EXPECT_TRUE(weather.cities.empty());
}

TEST(DeferredTools, LoaderThatFails_IsAskedAgain) {
    Weather weather;
    weather.fails = 2;
    Deferred it(weather);
    const MessageList messages = it.answering(
        {calling({loading()}), calling({forecast_of("Oslo")}), calling({forecast_of("Rome")})});
    EXPECT_NE(messages[2].text().find("the weather server is down"), std::string::npos);
    EXPECT_TRUE(messages[2].tool_result()->is_error);
    EXPECT_FALSE(it.agent->state().extra.contains("expanded_groups"));
    EXPECT_NE(messages[4].text().find("the weather server is down"), std::string::npos);
    EXPECT_EQ(messages[6].text(), "sun in Rome");
}

TEST(DeferredTools, FailedLoad_IsNotRepeatedInItsTurn) {
    Weather weather;
    weather.fails = 1;
    Deferred it(weather);
    const MessageList messages =
        it.answering({calling({forecast_of("Oslo", "d1"), forecast_of("Rome", "d2"), loading()}),
                      calling({forecast_of("Bonn")})});
    for (std::size_t i = 2; i < 5; ++i)
        EXPECT_NE(messages[i].text().find("the weather server is down"), std::string::npos) << i;
    EXPECT_EQ(messages[6].text(), "sun in Bonn");
    EXPECT_EQ(weather.loads, 2);
}

TEST(DeferredTools, D122_DeadServerOfThread_DelaysARunOnce) {
    Weather weather;
    weather.fails = 2;
    Deferred it(weather, DeferredStrategy::inject);
    it.options.tools = {echo_tool()};
    it.agent = std::make_unique<Agent>(it.options);
    it.agent->set_extra("expanded_groups", JsonObject{{"weather", nullptr}});
    it.answering({calling({echo_call("a")}), calling({echo_call("b")})});
    EXPECT_EQ(weather.loads, 1);
    // It is listed, so that the model can load it.
    const MessageList messages = it.answering({calling({echo_call("a")}), calling({loading()})});
    EXPECT_EQ(weather.loads, 3);
    EXPECT_FALSE(messages[4].tool_result()->is_error) << messages[4].text();
}

TEST(DeferredTools, CallsAtOnce_ShareOneLoad) {
    Weather weather;
    weather.gate = std::make_shared<AsyncEvent>();
    Deferred it(weather);
    AgentTool opens = tool<EchoArgs>("open", "Opens.", [&weather](EchoArgs) {
        weather.gate->set();
        return std::string("open");
    });
    it.options.tools.push_back(opens);
    ToolCall second = loading();
    second.id = "l2";
    const MessageList messages =
        it.answering({calling({loading(), second, faux_tool_call("open", {{"value", ""}}, "o1")})});
    EXPECT_EQ(weather.loads, 1);
    EXPECT_FALSE(messages[2].tool_result()->is_error);
    EXPECT_FALSE(messages[3].tool_result()->is_error);
}

TEST(DeferredTools, LoaderThatHangs_IsEndedByItsLimit) {
    auto clock = std::make_shared<testing::ManualClock>();
    Weather weather;
    weather.gate = std::make_shared<AsyncEvent>();
    Deferred it(weather);
    auto runtime = std::make_shared<Runtime>(*Runtime::standard());
    runtime->clock = clock;
    it.options.runtime = runtime;
    it.faux.set_responses({calling({forecast_of("Oslo")}), "done"});
    Agent agent(it.options);
    const RunResult result = testing::run_advancing(*clock, agent.prompt("hi"));
    EXPECT_NE(result.new_messages[2].text().find("loader of weather"), std::string::npos)
        << result.new_messages[2].text();
    EXPECT_EQ(result.text(), "done");
}

TEST(DeferredTools, D7_AbortDuringALoad_EndsTheRun) {
    Weather weather;
    weather.gate = std::make_shared<AsyncEvent>();
    Deferred it(weather);
    for (const ToolCall& call : {loading(), forecast_of("Oslo")}) {
        it.faux.set_responses({calling({call}), "never sent"});
        Agent agent(it.options);
        RunResult result;
        const int before = weather.loads;
        const auto body = [&](TaskScope& scope) -> Task<> {
            const auto prompt = [&]() -> Task<> { result = co_await agent.prompt("hi"); };
            scope.spawn(prompt());
            while (weather.loads == before) co_await yield_now();
            agent.abort();
            co_await scope.join();
        };
        run(with_task_scope(body));
        EXPECT_EQ(result.outcome, RunOutcome::aborted);
        EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    }
    weather.gate->set();
    const MessageList messages = it.answering({calling({forecast_of("Rome")})});
    EXPECT_EQ(messages[2].text(), "sun in Rome") << "an aborted load is repeated";
}

TEST(DeferredTools, NameOfAnAdvertisedTool_MeansThatTool) {
    Weather weather;
    Policy policy;
    Deferred it(weather, DeferredStrategy::dispatch, {policy});
    it.options.tools.push_back(tool<CityArgs>("forecast", "The agent's own.", [](CityArgs) {
                                   return std::string("own");
                               }).risk(ToolRisk::irreversible));
    const MessageList messages =
        it.answering({calling({loading()}), calling({forecast_of("Oslo")})});
    EXPECT_EQ(messages[4].text(), "own");
    EXPECT_EQ(policy.asked->back(), R"(forecast irreversible {"city":"Oslo"})");
    // In the other mode the request has one definition of it.
    Deferred injected(weather, DeferredStrategy::inject);
    injected.options.tools = it.options.tools;
    injected.answering({calling({loading()})});
    EXPECT_EQ(injected.advertised(1),
              (std::vector<std::string>{"forecast", "load_tools", "search_tools", "alerts"}));
}

TEST(DeferredTools, InvalidGroups_AreRefused) {
    Weather weather;
    const auto refused = [](std::vector<DeferredToolGroup> groups) {
        try {
            const DeferredToolsMiddleware made(std::move(groups));
        } catch (const Error& error) {
            return error.code() == ErrorCode::invalid_argument;
        }
        return false;
    };
    EXPECT_TRUE(refused({weather.group(), weather.group()}));
    DeferredToolGroup nameless = weather.group();
    nameless.group_id.clear();
    EXPECT_TRUE(refused({nameless}));
    DeferredToolGroup own = weather.group();
    own.tool_names.push_back("load_tools");
    EXPECT_TRUE(refused({own}));
}

TEST(DeferredTools, Search_FindsByNameAndDescription) {
    Weather weather;
    DeferredToolGroup broken = weather.group();
    broken.group_id = "broken";
    broken.tool_names = {"nothing"};
    broken.loader = []() -> Task<std::vector<AgentTool>> {
        throw Error(ErrorCode::io, "no server");
        co_return std::vector<AgentTool>();
    };
    Deferred it(weather);
    it.options.middleware = {DeferredToolsMiddleware({weather.group(), broken})};
    const MessageList messages =
        it.answering({calling({faux_tool_call("search_tools", {{"query", "storm warning"}}, "s1"),
                               faux_tool_call("search_tools", {{"query", "FORECAST"}}, "s2"),
                               faux_tool_call("search_tools", {{"query", "painting"}}, "s3")})});
    const Json storms = boost::json::parse(messages[2].text());
    EXPECT_EQ(storms.at("tools").at(0).at("name"), Json("alerts"));
    EXPECT_EQ(storms.at("tools").at(0).at("group_id"), Json("weather"));
    EXPECT_EQ(storms.at("failed_groups"), (JsonArray{"broken: no server"}));
    EXPECT_EQ(boost::json::parse(messages[3].text()).at("tools").at(0).at("name"),
              Json("forecast"));
    EXPECT_EQ(boost::json::parse(messages[4].text()).at("found"), Json(0));
}

TEST(DeferredTools, ResumedState_HasToolsAndGroups) {
    Weather weather;
    std::vector<DeferredToolGroup> groups{weather.group()};
    ResumedState inject = run(prepare_resumed_state(
        groups, JsonObject{{"weather", JsonArray{"alerts", 7}}}, DeferredStrategy::inject));
    ASSERT_EQ(inject.pre_loaded_tools.size(), 1u);
    EXPECT_TRUE(inject.pre_loaded_tools[0].expose_to_model);
    EXPECT_EQ(inject.remaining_groups.size(), 1u);
    ResumedState dispatch = run(prepare_resumed_state(groups, JsonObject{{"weather", nullptr}}));
    EXPECT_EQ(dispatch.pre_loaded_tools.size(), 2u);
    EXPECT_FALSE(dispatch.pre_loaded_tools[0].expose_to_model);
    ASSERT_EQ(dispatch.remaining_groups.size(), 1u);
    const int loads = weather.loads;
    Deferred it(weather);
    DeferredToolsOptions chosen;
    chosen.loaded = std::move(dispatch.loader_cache);
    it.options.tools = std::move(dispatch.pre_loaded_tools);
    it.options.middleware = {
        DeferredToolsMiddleware(std::move(dispatch.remaining_groups), std::move(chosen))};
    EXPECT_EQ(it.answering({calling({forecast_of("Oslo")})})[2].text(), "sun in Oslo");
    EXPECT_EQ(weather.loads, loads);
}

/// The call of a process that was killed while its tool ran.
MessageList cut_history() {
    MessageList messages{user_message("hi")};
    AssistantMessage answer = calling({forecast_of("Oslo")});
    answer.id = "a1";
    answer.run_id = "r1";
    messages.push_back(Message(std::move(answer)));
    return messages;
}

TEST(DeferredTools, D104_KilledCall_FollowsTheToolsPolicy) {
    for (const ReplayPolicy policy : {ReplayPolicy::idempotent, ReplayPolicy::never}) {
        const auto store = std::make_shared<MemoryCheckpointer>();
        preload(*store, "t", cut_history());
        AgentOptions stored;
        stored.checkpointer = store;
        stored.thread_id = "t";
        Weather weather;
        weather.replay = policy;
        Deferred it(weather, DeferredStrategy::dispatch, {}, stored);
        it.faux.set_responses({"done"});
        Agent agent(it.options);
        const RunResult result = run(agent.resume());
        EXPECT_EQ(result.text(), "done");
        const bool repeats = policy == ReplayPolicy::idempotent;
        EXPECT_EQ(weather.cities.size(), repeats ? 1u : 0u);
        EXPECT_EQ(agent.state().messages[2].text() == "sun in Oslo", repeats);
    }
}

}  // namespace
}  // namespace cubepi
