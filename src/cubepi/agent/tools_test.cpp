// Tool execution: D4, D24, D27, D32, D43, D52.

#include <cubepi/agent/agent_test_support.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <stop_token>

#include <cubepi/agent/loop.hpp>
#include <cubepi/agent/run/tool_output.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

struct Where {
    std::string city;
    int days = 3;
};

TEST(Tools, PlainStructs_BecomeSchemaAndArguments) {
    AgentTool made = tool<Where>("forecast", "Says the weather.", [](Where args) {
                         return args.city + " " + std::to_string(args.days);
                     }).describe("city", "City name");
    const Json& schema = made.parameters.source();
    EXPECT_EQ(schema.at("required"), (JsonArray{"city"}));
    EXPECT_EQ(schema.at("properties").at("city").at("description"), Json("City name"));
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call("forecast", {{"city", "Oslo"}}, "c1")}), "done"});
    Agent agent({.model = faux.model(), .tools = {made}});
    EXPECT_EQ(run(agent.prompt("hi")).new_messages[2].text(), "Oslo 3");
}

TEST(Tools, D27_Schema_ReachesTheModelAsGiven) {
    const Json schema = boost::json::parse(
        R"({"type":"object","properties":{"x":{"type":"string","title":"X"}},"$defs":{"unused":{}}})");
    AgentTool raw("raw", "Any.", JsonSchema(schema),
                  [](JsonObject, ToolContext&) { return AgentToolResult("ok"); });
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("ok")});
    Agent agent({.model = faux.model(), .tools = {raw}});
    run(agent.prompt("hi"));
    EXPECT_EQ(*requests.seen.at(0).tools->at(0).parameters, schema);
}

/// Runs a tool without required parameters with arguments that arrived as `raw`, behind a hook that resolves calls.
/// All members are optional, so that `{}` is valid.
struct Anywhere {
    std::optional<std::string> city;
};

struct UnreadCall {
    int ran = 0;
    std::string result;
    Requests requests;

    void run_with(const char* raw,
                  const std::function<std::optional<ToolCall>(ToolCall)>& resolve) {
        auto optional_only = tool<Anywhere>("forecast", "Runs.", [this](Anywhere) {
            ++ran;
            return std::string("ran");
        });
        ToolCall broken = faux_tool_call("forecast", {}, "c1");
        broken.extra["raw_arguments"] = raw;
        FauxProvider faux;
        faux.set_responses({calling({broken}), requests.answer("done")});
        AgentOptions options{.model = faux.model(), .tools = {optional_only}};
        if (resolve) options.resolve_tool_call = resolve;
        Agent agent(std::move(options));
        result = run(agent.prompt("hi")).new_messages[2].text();
    }
};

TEST(Tools, D84_ArgumentsWithoutOneObject_NeverRunATool) {
    struct Case {
        const char* raw;
        const char* stated;
    };
    const Case cases[] = {{R"({"city": "Os)", "arrived cut off"},
                          {R"({"city": "Oslo"} now)", "not valid JSON"},
                          {R"({"city": "Oslo"}{"city": "Bergen"})", "not valid JSON"},
                          {"null", "not valid JSON"},
                          {R"("{\"city\": \"Oslo\"}")", "not valid JSON"},
                          {R"([{"city": "Oslo"}])", "not valid JSON"}};
    for (const Case& one : cases) {
        for (const bool has_hook : {false, true}) {
            UnreadCall call;
            // The hook of an alias answers every call, and leaves the arguments as they are.
            std::function<std::optional<ToolCall>(ToolCall)> resolve;
            if (has_hook) resolve = [](ToolCall asked) { return asked; };
            call.run_with(one.raw, resolve);
            EXPECT_EQ(call.ran, 0) << one.raw;
            EXPECT_NE(call.result.find(one.stated), std::string::npos)
                << one.raw << ": " << call.result;
            EXPECT_EQ(call.result.find("<root>"), std::string::npos) << call.result;
            const ToolCall* replayed =
                call.requests.seen.at(0).messages[1].assistant()->tool_calls().front();
            EXPECT_TRUE(replayed->arguments.empty());
        }
    }
}

TEST(Tools, D84_HookWithoutTheText_NeverRunsATool) {
    UnreadCall call;
    call.run_with(R"({"city": "Os)", [](const ToolCall& asked) {
        ToolCall made;
        made.name = asked.name;
        made.arguments = asked.arguments;
        return made;
    });
    EXPECT_EQ(call.ran, 0);
}

TEST(Tools, D84_ArgumentsReplacedByHook_Run) {
    UnreadCall call;
    call.run_with(R"({"city": "Os)", [](ToolCall asked) {
        asked.arguments["city"] = "Oslo";
        return asked;
    });
    EXPECT_EQ(call.ran, 1);
    EXPECT_EQ(call.result, "ran");
}

TEST(Tools, D4_InvalidArguments_NamePathAndExpectation) {
    FauxProvider faux;
    faux.set_responses(
        {calling({faux_tool_call("forecast", {{"city", "Oslo"}, {"days", "soon"}}, "c1")}),
         "done"});
    Agent agent(
        {.model = faux.model(), .tools = {tool<Where>("forecast", "", [](Where) { return "x"; })}});
    const RunResult result = run(agent.prompt("hi"));
    const std::string text = result.new_messages[2].text();
    EXPECT_NE(text.find("days"), std::string::npos) << text;
    EXPECT_NE(text.find("integer"), std::string::npos) << text;
}

TEST(Tools, UndeclaredArguments_AreReportedToTheModel) {
    std::string executed;
    const auto result_of = [&executed](const Json& schema, const JsonObject& arguments) {
        auto shell = tool("shell", "", schema, [&executed](JsonObject args) {
            executed = json_text(Json(std::move(args)));
            return std::string("ran");
        });
        FauxProvider faux;
        faux.set_responses({calling({faux_tool_call("shell", arguments, "c1")}), "done"});
        Agent agent({.model = faux.model(), .tools = {shell}});
        const Message message = run(agent.prompt("hi")).new_messages[2];
        std::string text;
        for (const Content& block : message.tool_result()->content)
            text += std::get<TextContent>(block).text + "|";
        return text;
    };
    Json schema = {{"type", "object"},
                   {"properties", {{"command", {{"type", "string"}}}, {"run_in_background", true}}},
                   {"required", JsonArray{"command"}}};
    EXPECT_EQ(result_of(schema, {{"command", "ls"}, {"background", true}}),
              "Note: the tool does not declare \"background\", which it may have ignored. Its "
              "arguments: \"command\", \"run_in_background\".\n|ran|");
    EXPECT_EQ(executed, R"({"command":"ls","background":true})");
    EXPECT_EQ(result_of(schema, {{"command", "ls"}}), "ran|");
    // Many and long names do not fill the context.
    JsonObject many{{"command", "ls"}};
    for (int i = 0; i < 10'000; ++i) many[std::string(1000, 'x') + std::to_string(i)] = i;
    EXPECT_LT(result_of(schema, many).size(), 3000u);
    // The schema decides itself, or the tool takes what it gets.
    schema.as_object()["additionalProperties"] = true;
    EXPECT_EQ(result_of(schema, {{"command", "ls"}, {"more", 1}}), "ran|");
    EXPECT_EQ(result_of({{"type", "object"}, {"properties", JsonObject()}}, {{"more", 1}}), "ran|");
}

/// A tool that waits for its turn: `order` determines which call may end next.
struct Turns {
    std::vector<std::string> ended;
    AsyncEvent changed;
    Task<std::string> wait(std::string name, std::string after) {
        while (!after.empty() && std::find(ended.begin(), ended.end(), after) == ended.end()) {
            changed.reset();
            co_await changed.wait();
        }
        ended.push_back(name);
        changed.set();
        co_return name;
    }
};

struct TurnArgs {
    std::string name;
    std::optional<std::string> after;
};

TEST(Tools, D32_ParallelCalls_StartInOrderAndEndIndependently) {
    Turns turns;
    auto waiting = tool<TurnArgs>("wait", "Waits.", [&](TurnArgs args) {
        return turns.wait(args.name, args.after.value_or(""));
    });
    FauxProvider faux;
    faux.set_responses(
        {calling({faux_tool_call("wait", {{"name", "a"}, {"after", "b"}}, "a"),
                  faux_tool_call("nope", {}, "x"), faux_tool_call("wait", {{"name", "b"}}, "b")}),
         "done"});
    Agent agent({.model = faux.model(), .tools = {waiting}});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    std::vector<std::string> tools;
    for (const std::string& word : recorder.words()) {
        if (word.starts_with("tool_execution")) tools.push_back(word);
    }
    EXPECT_EQ(tools, (std::vector<std::string>{"tool_execution_start:a", "tool_execution_start:x",
                                               "tool_execution_end:x", "tool_execution_start:b",
                                               "tool_execution_end:b", "tool_execution_end:a"}));
    EXPECT_EQ(texts(result.new_messages),
              (std::vector<std::string>{"hi", "", "a", "Tool nope not found", "b", "done"}));
}

TEST(Tools, D24_ManyCalls_RunWithinTheConcurrencyLimit) {
    int running = 0;
    int most = 0;
    auto counting = tool<EchoArgs>("echo", "Counts.", [&](EchoArgs) -> Task<std::string> {
        most = std::max(most, ++running);
        co_await yield_now();
        co_await yield_now();
        --running;
        co_return std::string("ok");
    });
    FauxProvider faux;
    std::vector<ToolCall> calls;
    for (int i = 0; i < 40; ++i) calls.push_back(echo_call("v", "c" + std::to_string(i)));
    faux.set_responses({calling(calls), "done"});
    Agent agent({.model = faux.model(), .tools = {counting}});
    EXPECT_EQ(run(agent.prompt("hi")).new_messages.size(), 43u);
    EXPECT_EQ(most, 16);
}

std::shared_ptr<const Runtime> runtime_with(const std::shared_ptr<testing::ManualClock>& clock) {
    return std::make_shared<const Runtime>(Runtime().with_clock(clock));
}

TEST(Tools, D24_SlowTool_IsStoppedAndReportedToModel) {
    auto clock = std::make_shared<testing::ManualClock>();
    auto stuck = tool<EchoArgs>("echo", "Hangs.", [&](EchoArgs) -> Task<std::string> {
        co_await clock->sleep_for(std::chrono::hours(24));
        co_return std::string("late");
    });
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent({.model = faux.model(), .tools = {stuck}, .runtime = runtime_with(clock)});
    const RunResult result = testing::run_advancing(*clock, agent.prompt("hi"));
    EXPECT_TRUE(result);
    EXPECT_TRUE(result.new_messages[2].tool_result()->is_error);
    EXPECT_NE(result.new_messages[2].text().find("600 s"), std::string::npos);
}

class KeepingSink final : public SpillSink {
public:
    std::string spill(std::string_view, std::string_view tool_call_id,
                      std::string_view text) override {
        retained = std::string(text);
        return "Read " + std::string(tool_call_id) + ".txt for all of it.";
    }
    std::string retained;
};

TEST(Tools, D24_LongResult_IsCutAndSpilled) {
    std::string long_text;
    for (int i = 0; i < 60'000; ++i) long_text += "\xC3\xA4";
    auto talkative = tool<EchoArgs>("echo", "Talks.", [&](EchoArgs) { return long_text; });
    FauxProvider faux;
    faux.set_responses(
        {calling({echo_call("a")}), "done", calling({echo_call("a", "c2")}), "done"});
    Agent without({.model = faux.model(), .tools = {talkative}});
    const std::string cut = run(without.prompt("hi")).new_messages[2].text();
    EXPECT_LT(cut.size(), 100'500u);
    EXPECT_NE(cut.find("the first 50000 of 60000 characters"), std::string::npos);

    auto sink = std::make_shared<KeepingSink>();
    Agent with({.model = faux.model(), .tools = {talkative}, .spill = sink});
    const std::string spilled = run(with.prompt("hi")).new_messages[2].text();
    EXPECT_NE(spilled.find("Read c2.txt"), std::string::npos);
    EXPECT_EQ(sink->retained, long_text);
}

/// A sink that is cancelled while it writes, and ends afterwards.
struct CancelledSink final : SpillSink {
    std::string spill(std::string_view, std::string_view, std::string_view) override {
        cancel.request_stop();
        cancelled.wait();
        return "Read it in /spilled.";
    }
    std::stop_source cancel;
    std::latch cancelled{1};
};

TEST(Tools, CancelledSpill_CancelsTheCut) {
    const auto sink = std::make_shared<CancelledSink>();
    AgentToolResult result(std::string(100, 'x'));
    Task<AgentToolResult> cutting = detail::cut_tool_output(
        Runtime::standard(), sink, SharedString("echo"), "c1", 10, std::move(result));
    EXPECT_THROW((void)run(cancel_on(sink->cancel.get_token(), std::move(cutting))),
                 boost::system::system_error);
    sink->cancelled.count_down();
}

TEST(Tools, D43_Call_RunsTheDefinitionItsRequestAdvertised) {
    FauxProvider faux;
    Agent* self = nullptr;
    auto replaced = tool<EchoArgs>("echo", "New.", [](EchoArgs) { return "new"; });
    faux.set_responses({FauxStep([&](const ModelRequest&) {
                            self->set_tools({replaced});
                            return calling({echo_call("a")});
                        }),
                        calling({echo_call("a", "c2")}), "done", calling({echo_call("a", "c3")}),
                        "done"});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    self = &agent;
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.new_messages[2].text(), "echo: a");
    EXPECT_EQ(result.new_messages[4].text(), "echo: a");
    EXPECT_EQ(run(agent.prompt("again")).new_messages[2].text(), "new");
}

TEST(Tools, D43_SettingsChangedDuringRun_ApplyFromNextRun) {
    FauxProvider faux;
    Requests requests;
    Agent* self = nullptr;
    auto meddling = tool<EchoArgs>("echo", "Changes the state.", [&](EchoArgs) {
        self->set_tools({});
        self->set_system_prompt("new prompt");
        ReasoningControl control;
        control.mode = ReasoningMode::on;
        self->set_reasoning(control);
        return "changed";
    });
    faux.set_responses({requests.answer(calling({echo_call("a")})), requests.answer("done"),
                        requests.answer("done")});
    std::vector<std::string> seen_by_hooks;
    Agent agent({.model = faux.model(),
                 .system_prompt = "old prompt",
                 .tools = {meddling},
                 .should_stop_after_turn = [&](ShouldStopAfterTurnContext& context) {
                     seen_by_hooks.push_back(context.context.system_prompt.str());
                     return false;
                 }});
    self = &agent;
    run(agent.prompt("hi"));
    ASSERT_EQ(requests.seen.size(), 2u);
    EXPECT_EQ(requests.seen[1].system_prompt.str(), "old prompt");
    EXPECT_EQ(requests.seen[1].tools, requests.seen[0].tools);
    EXPECT_FALSE(requests.seen[1].options.reasoning());
    EXPECT_EQ(seen_by_hooks, (std::vector<std::string>{"old prompt", "old prompt"}));
    run(agent.prompt("again"));
    EXPECT_EQ(requests.seen[2].system_prompt.str(), "new prompt");
    EXPECT_FALSE(requests.seen[2].tools);
    EXPECT_TRUE(requests.seen[2].options.reasoning());
}

TEST(Tools, D52_Tool_DeclaresItsRiskLevel) {
    EXPECT_EQ(echo_tool().risk_level, ToolRisk::writes);
    EXPECT_EQ(echo_tool().risk(ToolRisk::read_only).risk_level, ToolRisk::read_only);
}

TEST(Tools, D28_BlockingTools_RunOnTheWorkerPool) {
    const std::thread::id loop = std::this_thread::get_id();
    std::atomic<bool> elsewhere = false;
    auto blocking = blocking_tool<EchoArgs>("echo", "Blocks.", [&](EchoArgs args) {
        elsewhere = std::this_thread::get_id() != loop;
        return args.value;
    });
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent({.model = faux.model(), .tools = {blocking}});
    EXPECT_EQ(run(agent.prompt("hi")).new_messages[2].text(), "a");
    EXPECT_TRUE(elsewhere);
}

TEST(Tools, FailureOfOneCall_IsItsOwnResult) {
    auto failing = tool<EchoArgs>(
        "fail", "Fails.", [](EchoArgs) -> std::string { throw std::runtime_error("boom"); });
    auto failing_later = tool<EchoArgs>("later", "Fails.", [](EchoArgs) -> Task<std::string> {
        co_await yield_now();
        throw std::runtime_error("later boom");
    });
    FauxProvider faux;
    faux.set_responses(
        {calling({faux_tool_call("fail", {{"value", "a"}}, "c1"), echo_call("b", "c2"),
                  faux_tool_call("later", {{"value", "c"}}, "c3")}),
         "done"});
    Agent agent({.model = faux.model(), .tools = {failing, failing_later, echo_tool()}});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(texts(result.new_messages),
              (std::vector<std::string>{"hi", "", "boom", "echo: b", "later boom", "done"}));
}

TEST(Tools, Progress_IsDeliveredBeforeUpdateReturns) {
    std::vector<std::string> seen;
    Agent* self = nullptr;
    std::shared_ptr<ToolContext> retained;
    auto reporting =
        tool<EchoArgs>("echo", "Reports.", [&](EchoArgs, ToolContext& ctx) -> Task<std::string> {
            retained = std::make_shared<ToolContext>(ctx);
            co_await ctx.update("half");
            seen.push_back("after update");
            co_return std::string("ok");
        });
    FauxProvider faux;
    faux.set_responses(
        {calling({echo_call("a")}), FauxStep([&](ModelRequest) -> Task<AssistantMessage> {
             co_return faux_assistant_message("done");
         })});
    Agent agent({.model = faux.model(), .tools = {reporting}});
    self = &agent;
    self->subscribe([&](const AgentEvent& event) {
        if (event.get_if<ToolExecutionUpdateEvent>()) seen.push_back("event");
    });
    run(agent.prompt("hi"));
    EXPECT_EQ(seen, (std::vector<std::string>{"event", "after update"}));
}

TEST(Tools, D8_EventsOfParallelTools_ReachListenerInOrder) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("1", "c1"), echo_call("2", "c2"), echo_call("3", "c3"),
                                 echo_call("4", "c4")}),
                        "done"});
    auto report = [](EchoArgs args, ToolContext& ctx) -> Task<std::string> {
        for (int i = 0; i < 6; ++i) {
            for (int k = 0; k < (std::stoi(args.value) * 3 + i) % 4; ++k) co_await yield_now();
            co_await ctx.update(i);
        }
        co_return "ok";
    };
    Agent agent({.model = faux.model(), .tools = {tool<EchoArgs>("echo", "Reports.", report)}});
    std::vector<std::uint64_t> seen;
    agent.subscribe([&](const AgentEvent& event) -> Task<void> {
        for (std::uint64_t k = 0; k < event.seq % 3; ++k) co_await yield_now();
        seen.push_back(event.seq);
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_GT(seen.size(), 40u);
    for (std::size_t i = 0; i < seen.size(); ++i) {
        ASSERT_EQ(seen[i], i + 1);
    }
}

TEST(Tools, SequentialTool_MakesTheBatchSequential) {
    Turns turns;
    auto waiting = tool<TurnArgs>("wait", "Waits.", [&](TurnArgs args) -> Task<std::string> {
        co_await yield_now();
        turns.ended.push_back(args.name);
        co_return args.name;
    });
    FauxProvider faux;
    faux.set_responses(
        {calling({faux_tool_call("wait", {{"name", "a"}}, "a"), echo_call("b", "b")}), "done"});
    Agent agent({.model = faux.model(), .tools = {waiting, echo_tool().sequential()}});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    std::vector<std::string> words;
    for (const std::string& word : recorder.words()) {
        if (word.starts_with("tool_execution") || word == "message_end:tool_result")
            words.push_back(word);
    }
    EXPECT_EQ(words, (std::vector<std::string>{"tool_execution_start:a", "tool_execution_end:a",
                                               "message_end:tool_result", "tool_execution_start:b",
                                               "tool_execution_end:b", "message_end:tool_result"}));
}

TEST(Tools, InstantAndWaitingCalls_KeepTheirOrder) {
    auto instant = tool<Where>("instant", "Answers at once.",
                               [](Where args) { return "instant " + args.city; });
    auto waiting =
        tool<Where>("waiting", "Lets others go first.", [](Where args) -> Task<std::string> {
            co_await yield_now();
            co_return "waited " + args.city;
        });
    const auto call = [](const char* name, const char* id) {
        return faux_tool_call(name, {{"city", id}}, id);
    };
    FauxProvider faux;
    faux.set_responses({calling({call("instant", "a"), call("waiting", "b"), call("instant", "c"),
                                 call("waiting", "d")}),
                        calling({call("waiting", "e")}), "done"});
    Agent agent({.model = faux.model(), .tools = {instant, waiting}});
    std::vector<std::string> ended;
    agent.subscribe([&](const AgentEvent& event) {
        if (const auto* end = event.get_if<ToolExecutionEndEvent>()) {
            ended.push_back(end->tool_call_id);
        }
    });
    const RunResult result = run(agent.prompt("hi"));
    ASSERT_EQ(result.new_messages.size(), 9U);
    const std::vector<std::string> texts{"instant a", "waited b", "instant c", "waited d"};
    for (std::size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(result.new_messages[i + 2].text(), texts[i]);
    }
    EXPECT_EQ(result.new_messages[7].text(), "waited e");
    EXPECT_EQ(ended, (std::vector<std::string>{"a", "c", "b", "d", "e"}));
}

TEST(Tools, CallMadeSequentialByHook_IsAskedOnce) {
    AgentTool echo = tool<Where>("echo", "Echo.", [](Where args) { return args.city; });
    AgentTool alone =
        tool<Where>("alone", "Echo, alone.", [](Where args) { return args.city; }).sequential();
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call("echo", {{"city", "Oslo"}}, "c1")}), "done"});
    int asked = 0;
    AgentOptions options;
    options.model = faux.model();
    options.tools = {echo, alone};
    options.resolve_tool_call = [](ToolCall call) {
        call.name = "alone";
        return std::optional<ToolCall>(std::move(call));
    };
    options.before_tool_call = [&](BeforeToolCallContext&) {
        ++asked;
        return std::optional<BeforeToolCallResult>();
    };
    Agent agent(std::move(options));
    EXPECT_EQ(run(agent.prompt("hi")).new_messages[2].text(), "Oslo");
    EXPECT_EQ(asked, 1);
}

TEST(Tools, D4_ArgumentErrors_NameEveryFieldWithoutTheSchema) {
    struct Span {
        std::string path;
        int count;
    };
    AgentTool read = tool<Span>("read", "Reads.", [](Span args) { return args.path; });
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call("fs.read", {{"count", "many"}}, "c1")}), "done"});
    AgentOptions options;
    options.model = faux.model();
    options.tools = {read};
    options.resolve_tool_call = [](ToolCall call) {
        call.name = "read";
        return std::optional<ToolCall>(std::move(call));
    };
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("hi"));
    const Message& answer = result.new_messages[2];
    EXPECT_EQ(answer.text(),
              "Invalid arguments for tool 'read':\n- path: field required\n"
              "- count: expected integer, found string \"many\"");
}

TEST(Tools, ToolResults_HaveDecimalNumbers) {
    struct Height {
        double metres = 1.5;
    };
    AgentTool height = tool<Where>("height", "Says it.", [](Where) { return Height(); });
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call("height", {{"city", "Oslo"}}, "c1")}), "done"});
    Agent agent({.model = faux.model(), .tools = {height}});
    EXPECT_EQ(run(agent.prompt("hi")).new_messages[2].text(), "{\"metres\":1.5}");
}

std::string name_problem(std::vector<std::string> names) {
    std::vector<AgentTool> tools;
    for (std::string& name : names) {
        tools.push_back(
            tool<Where>(std::move(name), "Echo.", [](Where args) { return args.city; }));
    }
    try {
        const ToolList list(std::move(tools));
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
    }
    return "accepted";
}

// A batch of calls without a loop.

struct BatchRun {
    AgentContext context;
    LoopOptions options;
    std::vector<std::string> words;

    Task<ToolCallBatch> start(std::vector<ToolCall> calls) {
        AgentListener record = [this](const AgentEvent& event) {
            words.push_back(Recorder::word(event));
        };
        return execute_tool_calls(context, calling(std::move(calls)), options, std::move(record));
    }
};

TEST(ExecuteToolCalls, D83_AnswersWithoutId_HaveDistinctCallKeys) {
    BatchRun batch;
    std::vector<std::string> keys;
    batch.context.tools = {tool<EchoArgs>("echo", "", [&keys](EchoArgs, ToolContext& context) {
        keys.push_back(context.call_key());
        return std::string("ok");
    })};
    (void)run(batch.start({echo_call("a", "c1"), echo_call("b", "c2")}));
    (void)run(batch.start({echo_call("a", "c1")}));
    ASSERT_EQ(keys.size(), 3u);
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
    EXPECT_FALSE(keys.front().empty());
}

TEST(ExecuteToolCalls, Batch_RunsLikeThatOfARun) {
    BatchRun batch;
    batch.context.tools = {echo_tool()};
    batch.context.extra["before"] = 1;
    batch.options.hooks.before_tool_call =
        [](BeforeToolCallContext& call) -> std::optional<BeforeToolCallResult> {
        call.context.extra["seen"] = true;
        call.context.charge(Usage{.input_tokens = 7}, 0.5);
        if (call.args.at("value") != "no") return std::nullopt;
        BeforeToolCallResult blocked;
        blocked.block = true;
        blocked.reason = "not allowed";
        return blocked;
    };
    batch.options.limits.tool_result_chars = 200;
    const std::vector<ToolCall> calls = {
        echo_call("a", "c1"), echo_call("no", "c2"), echo_call(std::string(400, 'x'), "c3"),
        faux_tool_call("echo", {}, "c4"), faux_tool_call("unknown", {}, "c5")};
    const ToolCallBatch done = run(batch.start(calls));
    const std::vector<std::string> results = texts(done.messages);
    ASSERT_EQ(results.size(), 5u);
    EXPECT_EQ(results[1], "not allowed");
    EXPECT_LT(results[2].size(), 400u);
    EXPECT_NE(results[3].find("value"), std::string::npos);
    EXPECT_EQ(results[4], "Tool unknown not found");
    EXPECT_FALSE(done.terminate);
    EXPECT_EQ(done.usage.input_tokens, TokenCount(21));
    EXPECT_EQ(done.cost, 1.5);
    EXPECT_EQ(batch.context.extra.at("seen"), Json(true));
    EXPECT_EQ(batch.context.extra.at("before"), Json(1));
    EXPECT_TRUE(batch.context.messages.empty());

    // The same calls in a run have the same results and events.
    FauxProvider faux;
    faux.set_responses({calling(calls), "done"});
    Agent agent({.model = faux.model(),
                 .tools = batch.context.tools,
                 .before_tool_call = batch.options.hooks.before_tool_call,
                 .limits = batch.options.limits});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    for (std::size_t i = 0; i < results.size(); ++i)
        EXPECT_EQ(texts(result.new_messages)[2 + i], results[i]);
    std::vector<std::string> words = recorder.words();
    const auto first = std::find(words.begin(), words.end(), batch.words.front());
    ASSERT_NE(first, words.end());
    EXPECT_TRUE(std::equal(batch.words.begin(), batch.words.end(), first));
}

TEST(ExecuteToolCalls, ResultsThatRequestTheEnd_TerminateTheBatch) {
    BatchRun batch;
    batch.context.tools = {tool("stop", "Stops.", []() {
        AgentToolResult result("stopped");
        result.terminate = true;
        return result;
    })};
    EXPECT_TRUE(run(batch.start({faux_tool_call("stop", {}, "c1")})).terminate);
    EXPECT_FALSE(run(batch.start({})).terminate);
}

TEST(ExecuteToolCalls, Abort_LeavesNoCallWithoutResult) {
    for (const bool by_cancellation : {false, true}) {
        BatchRun batch;
        std::stop_source stop;
        batch.options.stop_token = stop.get_token();
        batch.options.tool_execution = ExecutionMode::sequential;
        AsyncEvent begun;
        batch.context.tools = {tool("wait", "Waits.", [&begun]() -> Task<std::string> {
            begun.set();
            AsyncEvent never;
            co_await never.wait();
            co_return "never";
        })};
        MessageList results;
        bool cancelled = false;
        auto parent = [&]() -> Task<void> {
            auto children = [&](TaskScope& scope) -> Task<void> {
                auto work = [&]() -> Task<void> {
                    Task<ToolCallBatch> calls = batch.start(
                        {faux_tool_call("wait", {}, "c1"), faux_tool_call("wait", {}, "c2")});
                    Outcome<ToolCallBatch> ended = co_await outcome_of(std::move(calls));
                    cancelled = ended.cancelled();
                    if (ended.ok()) results = std::move(ended).value().messages;
                };
                scope.spawn(work());
                co_await begun.wait();
                if (by_cancellation) {
                    scope.cancel();
                } else {
                    stop.request_stop();
                }
                co_await scope.join();
            };
            co_await with_task_scope(children);
        };
        run(parent());
        EXPECT_EQ(cancelled, by_cancellation);
        EXPECT_EQ(results.size(), by_cancellation ? 0u : 2u);
        EXPECT_EQ(std::count(batch.words.begin(), batch.words.end(), "message_end:tool_result"), 2);
    }
}

TEST(ExecuteToolCalls, ThrowingListener_EndsTheBatchAfterItsResults) {
    AgentContext context;
    context.tools = {echo_tool()};
    int results = 0;
    AgentListener fail = [&results](const AgentEvent& event) {
        if (event.type() == AgentEventType::message_end) ++results;
        if (event.type() == AgentEventType::tool_execution_start) throw std::logic_error("mine");
    };
    AssistantMessage answer = calling({echo_call("a", "c1"), echo_call("b", "c2")});
    EXPECT_THROW(run(execute_tool_calls(context, answer, LoopOptions(), fail)), std::logic_error);
    EXPECT_EQ(results, 2);
}

TEST(ToolList, DuplicateOrInvalidNames_AreRejected) {
    EXPECT_EQ(name_problem({"a", "B-2", "c_3", std::string(64, 'x')}), "accepted");
    EXPECT_EQ(name_problem({"a", "b", "a"}),
              "duplicate tool name 'a': each tool of an agent needs a name of its own");
    for (const char* name : {"", "two words", "fs.read", "\xC3\xA9", "a/b"}) {
        EXPECT_EQ(name_problem({"a", name}),
                  "invalid tool name '" + std::string(name) +
                      "': a tool name has 1 to 64 characters of A-Z, a-z, 0-9, _ and -");
    }
    EXPECT_LT(name_problem({std::string(100000, 'x')}).size(), 300u);
}

TEST(ToolList, FailedPushBack_LeavesTheListUnchanged) {
    AgentTool echo = tool<Where>("echo", "Echo.", [](Where args) { return args.city; });
    ToolList list{echo};
    EXPECT_THROW(list.push_back(echo), Error);
    EXPECT_EQ(list.size(), 1u);
    FauxProvider faux;
    EXPECT_THROW(Agent({.model = faux.model(), .tools = {echo, echo}}), Error);
}

}  // namespace
}  // namespace cubepi
