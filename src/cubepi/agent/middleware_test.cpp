// Composition: requirements/middleware-composition, D11, D25, D29, D33, D44.

#include <cubepi/agent/agent_test_support.hpp>

#include <stdexcept>

#include <cubepi/agent/loop.hpp>
#include <cubepi/provider/fallback.hpp>

namespace cubepi {

using namespace agent_test;

/// Outside of the anonymous namespace, because the notices contain its name.
struct SafetyFilter {
    std::optional<BeforeToolCallResult> before_tool_call(BeforeToolCallContext&) {
        BeforeToolCallResult verdict;
        verdict.block = true;
        std::optional<BeforeToolCallResult> result(std::move(verdict));
        return result;
    }
};
struct FirstConverter {
    MessageList convert_to_llm(MessageList messages) { return messages; }
};
struct SecondConverter {
    MessageList convert_to_llm(MessageList messages) { return messages; }
};

namespace {

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

TEST(Middleware, Transforms_ChainInListOrder) {
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

TEST(Middleware, SeveralConvertToLlmHooks_UseTheLast) {
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

TEST(Middleware, D29_FirstBlock_StopsOthersExceptAfterToolCall) {
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

TEST(Middleware, D29_InvalidCall_DoesNotFireAfterToolCall) {
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

TEST(Middleware, D11_AfterToolCallResults_MergeFieldByField) {
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

TEST(Middleware, D11_TurnDecisions_ConcatenateInjectionsAndUseTheLast) {
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

TEST(Middleware, D33_FirstStop_EndsRunWithoutOnRunEnd) {
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

TEST(Middleware, D33_NaturalEnd_LetsOnRunEndContinue) {
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

TEST(Middleware, ExplicitCallable_ReplacesTheComposedHook) {
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

TEST(Middleware, ExplicitResolver_IsAskedBeforeTheMiddleware) {
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

TEST(Middleware, D44_AroundModelCall_NestsWithFirstOutermost) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    std::vector<std::string> log;
    Agent agent(
        {.model = faux.model(), .middleware = {Cache{"outer", &log}, Cache{"inner", &log}}});
    EXPECT_EQ(run(agent.prompt("hi")).text(), "ok");
    EXPECT_EQ(log, (std::vector<std::string>{"outer", "inner"}));
}

TEST(Middleware, D44_AroundModelCall_MayAnswerWithoutTheModel) {
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

TEST(Middleware, D44_BeforeToolCall_MayReplaceTheExecution) {
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

TEST(Middleware, EditedArguments_AreValidatedAgain) {
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

TEST(Middleware, D54_Approval_LeavesItsTraceInTheResult) {
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

TEST(Middleware, ToolsOfMiddleware_AreAvailableToTheAgent) {
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

TEST(Middleware, D25_OverloadedAndTemplatedHooks_AreComposed) {
    EXPECT_TRUE(Middleware(Overloaded{}).hooks().transform_context);
    EXPECT_TRUE(Middleware(Templated{}).hooks().transform_context);
    EXPECT_TRUE(Middleware(FinalOverloaded{}).hooks().transform_context);
    EXPECT_TRUE(Middleware(FinalTemplated{}).hooks().before_tool_call);
}

// The notices about middleware hooks that composition replaces.

std::optional<BeforeToolCallResult> allow(BeforeToolCallContext&) { return std::nullopt; }

Notice only_notice(const Recorder& recorder) {
    Notice found;
    std::size_t count = 0;
    for (const AgentEvent& event : recorder.events) {
        if (const auto* notice = event.get_if<NoticeEvent>()) {
            found = notice->notice;
            ++count;
        }
    }
    EXPECT_EQ(count, 1U);
    return found;
}

TEST(Composition, D39_ExplicitHook_NamesReplacedMiddlewareInNotice) {
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    Agent agent({.model = faux.model(), .middleware = {SafetyFilter()}, .before_tool_call = allow});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    const Notice notice = only_notice(recorder);
    EXPECT_EQ(notice.code, "hook_replaced");
    EXPECT_EQ(notice.text,
              "The hook before_tool_call of middleware cubepi::SafetyFilter does not run: the "
              "explicit callable AgentOptions::before_tool_call replaces it.");
    EXPECT_EQ(notice.details.at("hook"), Json("before_tool_call"));
    EXPECT_EQ(notice.details.at("replaced"), Json(JsonArray{"cubepi::SafetyFilter"}));
    EXPECT_EQ(notice.details.at("by"), Json("explicit"));
    run(agent.prompt("again"));
    EXPECT_EQ(recorder.notices().size(), 1U) << "only at the first run";
}

TEST(Composition, D39_SeveralConverters_AreNamedInNotice) {
    FauxProvider faux;
    faux.set_responses({"one"});
    Agent agent({.model = faux.model(), .middleware = {FirstConverter(), SecondConverter()}});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    const Notice notice = only_notice(recorder);
    EXPECT_EQ(notice.text,
              "The hook convert_to_llm of middleware cubepi::FirstConverter does not run: of "
              "several, only the last runs, which is that of cubepi::SecondConverter.");
    EXPECT_EQ(notice.details.at("by"), Json("cubepi::SecondConverter"));
}

TEST(Composition, D39_LoopWithoutAgent_ReportsReplacedConverters) {
    FauxProvider faux;
    faux.set_responses({"one"});
    HookSet explicit_hooks;
    explicit_hooks.convert_to_llm = [](MessageList messages) { return messages; };
    LoopOptions options;
    options.model = faux.model();
    options.hooks =
        compose_middleware({FirstConverter(), SecondConverter()}, std::move(explicit_hooks));
    ASSERT_EQ(options.hooks.replaced.size(), 1U);
    EXPECT_EQ(options.hooks.replaced[0].middleware.size(), 2U);
    AgentContext context;
    MessageList prompts;
    prompts.push_back(user_message("hi"));
    std::vector<std::string> codes;
    run(run_agent_loop(std::move(prompts), context, std::move(options),
                       [&codes](const AgentEvent& event) {
                           const auto* notice = event.get_if<NoticeEvent>();
                           if (notice) codes.push_back(notice->notice.code);
                       }));
    EXPECT_EQ(codes, (std::vector<std::string>{"hook_replaced"}));
}

TEST(Composition, D39_EveryHookRuns_ThereIsNoNotice) {
    FauxProvider faux;
    faux.set_responses({"one"});
    Agent agent({.model = faux.model(),
                 .middleware = {SafetyFilter(), FirstConverter()},
                 .resolve_tool_call = [](ToolCall) { return std::optional<ToolCall>(); },
                 .after_tool_call =
                     [](AfterToolCallContext&) { return std::optional<AfterToolCallResult>(); }});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    EXPECT_TRUE(recorder.notices().empty());
}

// Exceptions of hooks: code, type, text.

class OwnError final : public Error {
public:
    OwnError() : Error(ErrorCode::not_found, "own") {}
    int detail = 7;
};

RateLimited rate_limited() {
    ErrorInfo info;
    info.code = ErrorCode::rate_limited;
    info.type = "RateLimited";
    info.retry_after = 3.0;
    return RateLimited(std::move(info), "boom");
}

/// Returns options with a hook that throws `error`, by the hook's name.
template <class E>
std::vector<std::pair<std::string, AgentOptions>> throwing_hooks(const FauxProvider& faux,
                                                                 const E& error) {
    std::vector<std::pair<std::string, AgentOptions>> all;
    const auto add = [&](std::string name, auto member) {
        AgentOptions options{.model = faux.model()};
        member(options);
        all.emplace_back(std::move(name), std::move(options));
    };
    add("transform_context", [&](AgentOptions& options) {
        options.transform_context = [error](MessageList) -> MessageList { throw error; };
    });
    add("convert_to_llm", [&](AgentOptions& options) {
        options.convert_to_llm = [error](MessageList) -> MessageList { throw error; };
    });
    add("transform_system_prompt", [&](AgentOptions& options) {
        options.transform_system_prompt = [error](std::string) -> std::string { throw error; };
    });
    add("around_model_call", [&](AgentOptions& options) {
        options.around_model_call = [error](ModelRequest, ModelCallNext) -> Task<MessageStream> {
            throw error;
        };
    });
    add("after_model_response", [&](AgentOptions& options) {
        options.after_model_response = [error](AssistantMessage) -> std::optional<TurnAction> {
            throw error;
        };
    });
    add("should_stop_after_turn", [&](AgentOptions& options) {
        options.should_stop_after_turn = [error](ShouldStopAfterTurnContext&) -> bool {
            throw error;
        };
    });
    add("on_run_end", [&](AgentOptions& options) {
        options.on_run_end = [error](HookContext&) -> MessageList { throw error; };
    });
    add("on_payload", [&](AgentOptions& options) {
        options.on_payload = [error](JsonObject, Model) -> Task<std::optional<JsonObject>> {
            throw error;
        };
    });
    return all;
}

/// Runs an agent with each throwing hook; `check` receives the hook's name and the result.
template <class E, class Check>
void with_each_hook(const E& error, Check check) {
    FauxProvider faux;
    for (auto& [name, options] : throwing_hooks(faux, error)) {
        faux.set_responses({"fine"});
        Agent agent(std::move(options));
        const RunResult result = run(agent.prompt("hi"));
        EXPECT_EQ(result.outcome, RunOutcome::failed) << name;
        ASSERT_TRUE(result.failure) << name;
        const std::string text = agent.state().error_message.str();
        EXPECT_NE(text.find("hook " + name + " failed: "), std::string::npos) << text;
        EXPECT_EQ(text.find('@'), std::string::npos) << text;
        check(name, result);
    }
}

TEST(HookFailure, D40_Error_KeepsItsCodeAndNamesTheHook) {
    with_each_hook(Error(ErrorCode::permission_denied, "boom"), [](const std::string& name,
                                                                   const RunResult& result) {
        EXPECT_EQ(result.error().code(), ErrorCode::permission_denied) << name;
        EXPECT_EQ(std::string(result.error().what()), "hook " + name + " failed: boom");
    });
}

TEST(HookFailure, D40_ProviderError_KeepsItsTypeAndInfo) {
    with_each_hook(rate_limited(), [](const std::string& name, const RunResult& result) {
        const auto* error = dynamic_cast<const RateLimited*>(result.failure.get());
        ASSERT_TRUE(error) << name;
        EXPECT_EQ(error->info().retry_after, 3.0) << name;
        EXPECT_EQ(std::string(error->what()), "hook " + name + " failed: boom");
    });
}

TEST(HookFailure, D40_CheckpointerError_IsAnOutcome) {
    with_each_hook(StaleAppendError(ErrorCode::stale_append, "boom", "other"),
                   [](const std::string& name, const RunResult& result) {
                       const auto* error =
                           dynamic_cast<const StaleAppendError*>(result.failure.get());
                       ASSERT_TRUE(error) << name;
                       EXPECT_EQ(error->thread_id(), "other") << name;
                   });
}

TEST(HookFailure, D40_UserErrorType_IsReturnedAsThrown) {
    with_each_hook(OwnError(), [](const std::string& name, const RunResult& result) {
        const auto* error = dynamic_cast<const OwnError*>(result.failure.get());
        ASSERT_TRUE(error) << name;
        EXPECT_EQ(error->code(), ErrorCode::not_found) << name;
        EXPECT_EQ(error->detail, 7) << name;
        EXPECT_STREQ(error->what(), "own") << name;
    });
}

TEST(HookFailure, D40_OtherException_HasCodeUnknown) {
    with_each_hook(
        std::runtime_error("boom"), [](const std::string& name, const RunResult& result) {
            EXPECT_EQ(result.error().code(), ErrorCode::unknown) << name;
            EXPECT_EQ(std::string(result.error().what()), "hook " + name + " failed: boom");
        });
}

TEST(HookFailure, ProviderException_IsNotAttributedToHook) {
    class Throwing final : public Provider {
    public:
        MessageStream stream(ModelRequest) override { throw Error(ErrorCode::connect, "no route"); }
    };
    auto provider = std::make_shared<Throwing>();
    Model model;
    model.id = "m";
    Agent agent({.model = BoundModel(provider, model),
                 .around_model_call = [](ModelRequest request, ModelCallNext next) {
                     return next(std::move(request));
                 }});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.error().code(), ErrorCode::connect);
    EXPECT_STREQ(result.error().what(), "no route");
}

TEST(HookFailure, D23_ExceptionOfUserHook_DoesNotTriggerFallback) {
    FauxProvider first;
    FauxProvider second;
    first.set_responses({"fine"});
    second.set_responses({"fine"});
    Agent agent({.model = FallbackBoundModel({first.model(), second.model()}),
                 .on_payload = [](JsonObject, Model) -> Task<std::optional<JsonObject>> {
                     throw rate_limited();
                 }});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_TRUE(dynamic_cast<const RateLimited*>(result.failure.get()));
    EXPECT_EQ(second.call_count(), 0u);
    EXPECT_TRUE(recorder.notices().empty());
}

TEST(TurnRequest, Hooks_SeeWhatTheTurnRanWith) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    std::vector<std::shared_ptr<const ModelRequest>> records;
    std::vector<bool> before;
    AgentOptions options;
    options.model = faux.model("m");
    options.system_prompt = "Be brief.";
    options.tools = {echo_tool()};
    options.reasoning = ReasoningControl{.mode = ReasoningMode::on};
    options.transform_system_prompt = [&](std::string prompt, HookContext& context) {
        before.push_back(context.request != nullptr);
        return prompt + " Turn " + std::to_string(context.turn);
    };
    options.before_tool_call =
        [&](BeforeToolCallContext& call) -> std::optional<BeforeToolCallResult> {
        records.push_back(call.context.request);
        return std::nullopt;
    };
    options.on_run_end = [&](HookContext& context) {
        records.push_back(context.request);
        return MessageList();
    };
    Agent agent(std::move(options));
    agent.subscribe([&](const AgentEvent& event) {
        if (event.get_if<ToolExecutionStartEvent>()) agent.set_model(faux.model("other"));
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(before, (std::vector<bool>{false, false}));
    ASSERT_EQ(records.size(), 2u);
    ASSERT_TRUE(records[0] && records[1]);
    EXPECT_EQ(records[0]->model.id, "m");
    EXPECT_EQ(records[0]->system_prompt.str(), "Be brief. Turn 1");
    EXPECT_EQ(records[0]->messages.size(), 1u);
    EXPECT_EQ(records[0]->tools->at(0).name, "echo");
    EXPECT_TRUE(records[0]->options.reasoning());
    EXPECT_EQ(records[1]->model.id, "other");
    EXPECT_EQ(records[1]->system_prompt.str(), "Be brief. Turn 2");
    EXPECT_EQ(records[1]->messages.size(), 3u);
}

}  // namespace
}  // namespace cubepi
