// Composition: requirements/middleware-composition, D11, D25, D29, D33, D44.

#include <cubepi/agent/agent_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

struct Tag {
    std::string name;
    std::vector<std::string>* log = nullptr;
    std::string transform_system_prompt(std::string prompt) { return prompt + name; }
    MessageList transform_context(MessageList messages, HookContext&) {
        if (log) log->push_back(name);
        messages.push_back(user_message(name));
        return messages;
    }
};

TEST(Middleware, TransformsChainInListOrder) {
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("ok")});
    Agent agent({.model = faux.model(), .system_prompt = "p", .middleware = {Tag{"1"}, Tag{"2"}}});
    run(agent.prompt("hi"));
    EXPECT_EQ(requests.seen.at(0).system_prompt, "p12");
    EXPECT_EQ(texts(requests.seen.at(0).messages), (std::vector<std::string>{"hi", "1", "2"}));
    EXPECT_EQ(agent.state().messages.size(), 2u);
}

struct Upper {
    std::string suffix;
    Task<MessageList> convert_to_llm(MessageList) {
        MessageList list;
        list.push_back(user_message(suffix));
        co_return list;
    }
};

TEST(Middleware, TheLastConvertToLlmWins) {
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("ok")});
    Agent agent({.model = faux.model(), .middleware = {Upper{"first"}, Upper{"second"}}});
    run(agent.prompt("hi"));
    EXPECT_EQ(texts(requests.seen.at(0).messages), std::vector<std::string>{"second"});
}

struct Gate {
    std::string reason;
    int* asked = nullptr;
    std::optional<BeforeToolCallResult> before_tool_call(BeforeToolCallContext&) {
        if (asked) ++*asked;
        BeforeToolCallResult result;
        result.block = !reason.empty();
        result.reason = reason;
        return result;
    }
};

struct Audit {
    std::vector<std::string>* seen;
    std::optional<AfterToolCallResult> after_tool_call(AfterToolCallContext& ctx) {
        seen->push_back(ctx.result.text() + (ctx.blocked ? "!" : ""));
        return std::nullopt;
    }
};

TEST(Middleware, D29_TheFirstBlockStopsTheRestAndAfterToolCallStillFires) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    int later = 0;
    std::vector<std::string> audited;
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .middleware = {Gate{"no"}, Gate{"never", &later}, Audit{&audited}}});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(later, 0);
    EXPECT_EQ(result.new_messages[2].text(), "no");
    EXPECT_TRUE(result.new_messages[2].tool_result()->is_error);
    EXPECT_EQ(audited, std::vector<std::string>{"no!"});
    for (const AgentEvent& event : recorder.events) {
        if (const auto* end = event.get_if<ToolExecutionEndEvent>()) {
            EXPECT_TRUE(end->blocked_by_hook);
            EXPECT_EQ(end->block_reason, "no");
        }
    }
}

TEST(Middleware, D29_AfterToolCallDoesNotFireForUnknownToolsAndInvalidArguments) {
    FauxProvider faux;
    ToolCall unknown = faux_tool_call("nope", {}, "c1");
    ToolCall invalid = faux_tool_call("echo", {}, "c2");
    faux.set_responses({calling({unknown, invalid}), "done"});
    std::vector<std::string> audited;
    Agent agent({.model = faux.model(), .tools = {echo_tool()}, .middleware = {Audit{&audited}}});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_TRUE(audited.empty());
    EXPECT_EQ(result.new_messages[2].text(), "Tool nope not found");
    EXPECT_NE(result.new_messages[3].text().find("value"), std::string::npos);
}

struct SetDetails {
    Json details;
    std::optional<AfterToolCallResult> after_tool_call(AfterToolCallContext&) {
        AfterToolCallResult result;
        result.details = details;
        return result;
    }
};

struct AppendText {
    std::string text;
    std::vector<std::string>* seen = nullptr;
    Task<std::optional<AfterToolCallResult>> after_tool_call(AfterToolCallContext& ctx) {
        if (seen) seen->push_back(ctx.result.text());
        ContentList<Content> content;
        content.emplace_back(TextContent{ctx.result.text() + text});
        AfterToolCallResult result;
        result.content = std::move(content);
        std::optional<AfterToolCallResult> made(std::move(result));
        co_return made;
    }
};

TEST(Middleware, D11_AfterToolCallResultsMergeFieldByFieldAndEachSeesTheMerged) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    std::vector<std::string> seen;
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .middleware = {SetDetails{"d"}, AppendText{"+1"}, AppendText{"+2", &seen}}});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(seen, std::vector<std::string>{"echo: a+1"});
    EXPECT_EQ(result.new_messages[2].text(), "echo: a+1+2");
    EXPECT_EQ(result.new_messages[2].tool_result()->details, Json("d"));
}

struct Decide {
    std::optional<TurnDecision> decision;
    std::string inject;
    std::string rewrite;
    std::optional<TurnAction> after_model_response(AssistantMessage response) {
        TurnAction action;
        action.decision = decision;
        if (!inject.empty()) action.inject_messages.push_back(user_message(inject));
        if (!rewrite.empty()) {
            response.content.clear();
            response.content.emplace_back(TextContent{rewrite});
            action.response = std::move(response);
        }
        return action;
    }
};

TEST(Middleware, D11_ResponsesChainInjectionsConcatenateAndTheLastDecisionWins) {
    FauxProvider faux;
    faux.set_responses({"secret", "unused"});
    Agent agent(
        {.model = faux.model(),
         .middleware = {Decide{TurnDecision::loop_to_model, "a", "redacted"},
                        Decide{TurnDecision::stop, "b", ""}, Decide{std::nullopt, "", ""}}});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(texts(result.new_messages), (std::vector<std::string>{"hi", "redacted", "a", "b"}));
    EXPECT_EQ(faux.call_count(), 1u);
}

struct StopAfter {
    int turns;
    int* asked = nullptr;
    bool should_stop_after_turn(ShouldStopAfterTurnContext&) {
        if (asked) ++*asked;
        return --turns <= 0;
    }
};

TEST(Middleware, D33_AnyTrueStopsAndARunThatWasStoppedAsksNoRunEnd) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "unused"});
    int second = 0;
    int run_ends = 0;
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .middleware = {StopAfter{1}, StopAfter{9, &second}},
                 .on_run_end = [&](HookContext&) {
                     ++run_ends;
                     return MessageList();
                 }});
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(second, 0);
    EXPECT_EQ(run_ends, 0);
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST(Middleware, D33_OnRunEndIsCalledAfterANaturalEndAndMayContinue) {
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    int asked = 0;
    Agent agent({.model = faux.model(), .on_run_end = [&](HookContext&) {
                     MessageList more;
                     if (++asked == 1) more.push_back(user_message("continue"));
                     return more;
                 }});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(asked, 2);
    EXPECT_EQ(texts(result.new_messages),
              (std::vector<std::string>{"hi", "one", "continue", "two"}));
}

TEST(Middleware, AnExplicitCallableReplacesTheComposedHook) {
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("ok")});
    Agent agent({.model = faux.model(),
                 .system_prompt = "p",
                 .middleware = {Tag{"1"}},
                 .transform_system_prompt = [](std::string prompt) { return prompt + "!"; }});
    run(agent.prompt("hi"));
    EXPECT_EQ(requests.seen.at(0).system_prompt, "p!");
}

TEST(Middleware, AnExplicitResolverIsAskedBeforeTheMiddleware) {
    struct Alias {
        std::optional<ToolCall> resolve_tool_call(ToolCall call) {
            call.name = "echo";
            call.id = "changed";
            return call;
        }
    };
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call("x", {{"value", "a"}}, "c1"),
                                 faux_tool_call("y", {{"value", "b"}}, "c2")}),
                        "done"});
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .middleware = {Alias{}},
                 .resolve_tool_call = [](ToolCall call) -> std::optional<ToolCall> {
                     if (call.name != "y") return std::nullopt;
                     call.name = "echo";
                     call.arguments["value"] = "explicit";
                     return call;
                 }});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.new_messages[2].text(), "echo: a");
    EXPECT_EQ(result.new_messages[2].tool_result()->tool_call_id, "c1");
    EXPECT_EQ(result.new_messages[3].text(), "echo: explicit");
}

struct Cache {
    std::string name;
    std::vector<std::string>* log;
    Task<MessageStream> around_model_call(ModelRequest request, ModelCallNext next) {
        log->push_back(name);
        MessageStream stream = co_await next(std::move(request));
        co_return stream;
    }
};

TEST(Middleware, D44_AroundModelCallNestsWithTheFirstOutermost) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    std::vector<std::string> log;
    Agent agent(
        {.model = faux.model(), .middleware = {Cache{"outer", &log}, Cache{"inner", &log}}});
    EXPECT_EQ(run(agent.prompt("hi")).text(), "ok");
    EXPECT_EQ(log, (std::vector<std::string>{"outer", "inner"}));
}

TEST(Middleware, D44_AroundModelCallMayAnswerWithoutTheModel) {
    FauxProvider faux;
    FauxProvider cached;
    cached.set_responses({"from the cache"});
    Agent agent(
        {.model = faux.model(), .around_model_call = [&](ModelRequest request, ModelCallNext) {
             return cached.stream(std::move(request));
         }});
    EXPECT_EQ(run(agent.prompt("hi")).text(), "from the cache");
    EXPECT_EQ(faux.call_count(), 0u);
}

TEST(Middleware, D44_BeforeToolCallMayGiveAResultInsteadOfTheExecution) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    std::vector<std::string> audited;
    Agent agent(
        {.model = faux.model(),
         .tools = {echo_tool()},
         .middleware = {Audit{&audited}},
         .before_tool_call = [](BeforeToolCallContext&) -> std::optional<BeforeToolCallResult> {
             BeforeToolCallResult result;
             result.result = AgentToolResult("replayed");
             return result;
         }});
    EXPECT_EQ(run(agent.prompt("hi")).new_messages[2].text(), "replayed");
    EXPECT_EQ(audited, std::vector<std::string>{"replayed"});
}

TEST(Middleware, EditedArgumentsAreValidatedAgain) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent(
        {.model = faux.model(),
         .tools = {echo_tool()},
         .before_tool_call = [](BeforeToolCallContext&) -> std::optional<BeforeToolCallResult> {
             BeforeToolCallResult result;
             result.edited_args = JsonObject{{"value", JsonArray{1}}};
             return result;
         }});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_TRUE(result.new_messages[2].tool_result()->is_error);
    EXPECT_NE(result.new_messages[2].text().find("value"), std::string::npos);
}

TEST(Middleware, D54_AnApprovalLeavesItsTraceInTheResult) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent(
        {.model = faux.model(),
         .tools = {echo_tool()},
         .before_tool_call = [](BeforeToolCallContext&) -> std::optional<BeforeToolCallResult> {
             BeforeToolCallResult result;
             result.hitl_trace = JsonObject{{"decision", "human_approve"}};
             return result;
         }});
    const RunResult result = run(agent.prompt("hi"));
    const Json& details = result.new_messages[2].tool_result()->details;
    EXPECT_EQ(details.at("hitl").at("decision"), Json("human_approve"));
}

struct WithTools {
    std::vector<AgentTool> tools = {echo_tool()};
};

TEST(Middleware, ItsToolsAreTheAgents) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent({.model = faux.model(), .middleware = {WithTools{}}});
    EXPECT_EQ(run(agent.prompt("hi")).new_messages[2].text(), "echo: a");
}

// D25: a member with a hook's name but not its signature is detected, however it is declared.
struct Overloaded {
    MessageList transform_context(MessageList messages) { return messages; }
    MessageList transform_context(MessageList messages, HookContext&) { return messages; }
};
struct Templated {
    template <class T>
    T transform_context(T messages) {
        return messages;
    }
};
struct FinalOverloaded final {
    MessageList transform_context(MessageList messages) { return messages; }
    MessageList transform_context(MessageList messages, HookContext&) { return messages; }
    MessageList convert_to_llm(MessageList messages) { return messages; }
};
struct FinalTemplated final {
    template <class C>
    std::optional<BeforeToolCallResult> before_tool_call(C&) {
        return std::nullopt;
    }
    bool should_stop_after_turn(ShouldStopAfterTurnContext&) { return false; }
};
struct Unrelated {
    void transform() {}
};
static_assert(detail::Has_transform_context<Overloaded>);
static_assert(detail::Has_transform_context<Templated>);
static_assert(detail::Has_transform_context<FinalOverloaded>);
static_assert(!detail::Has_before_tool_call<FinalOverloaded>);
static_assert(detail::Has_before_tool_call<FinalTemplated>);
static_assert(!detail::Has_transform_context<Unrelated>);

TEST(Middleware, D25_CompositionSeesOverloadedAndTemplatedHooks) {
    EXPECT_TRUE(Middleware(Overloaded{}).hooks().transform_context);
    EXPECT_TRUE(Middleware(Templated{}).hooks().transform_context);
    EXPECT_TRUE(Middleware(FinalOverloaded{}).hooks().transform_context);
    EXPECT_TRUE(Middleware(FinalTemplated{}).hooks().before_tool_call);
}

}  // namespace
}  // namespace cubepi
