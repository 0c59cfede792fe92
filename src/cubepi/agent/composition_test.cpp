#include <cubepi/agent/loop.hpp>

#include <cubepi/agent/agent_test_support.hpp>

// The notices about middleware hooks that composition replaces.

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

TEST(Composition, D39_ANoticeNamesTheMiddlewareThatAnExplicitHookReplaces) {
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

TEST(Composition, D39_ANoticeNamesTheConvertersThatDoNotRun) {
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

TEST(Composition, D39_ALoopWithoutAnAgentReportsThemToo) {
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

TEST(Composition, D39_NoNoticeWhereEveryHookRuns) {
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

}  // namespace
}  // namespace cubepi
