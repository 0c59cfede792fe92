#include <cubepi/middleware/result_limit.hpp>

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

struct NoArgs {};

AgentTool printing(std::string name, std::string text) {
    return tool<NoArgs>(std::move(name), "Prints.", [text](NoArgs) { return text; });
}

/// A sink that remembers what it was given.
struct Spilled : SpillSink {
    std::string spill(std::string_view tool, std::string_view, std::string_view text) override {
        all.push_back(std::string(tool) + ":" + std::to_string(text.size()));
        return "Read it elsewhere.";
    }
    std::vector<std::string> all;
};

/// The results of one call of each tool.
std::vector<std::string> results(std::vector<Middleware> middleware, std::size_t limit,
                                 std::shared_ptr<SpillSink> spill = {}) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message({faux_tool_call("long", JsonObject(), "a"),
                                                faux_tool_call("read", JsonObject(), "b"),
                                                faux_tool_call("short", JsonObject(), "c")},
                                               stop_reason::tool_use),
                        "done"});
    AgentOptions options;
    options.model = faux.model();
    options.tools = {printing("long", std::string(100, 'l')),
                     printing("read", std::string(100, 'r')), printing("short", "tiny")};
    options.middleware = std::move(middleware);
    options.limits.tool_result_chars = limit;
    options.spill = std::move(spill);
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("hi"));
    std::vector<std::string> texts;
    for (const Message& message : result.new_messages) {
        if (message.tool_result()) texts.push_back(message.text());
    }
    return texts;
}

TEST(ToolResultLimit, ExcludedTools_AreNotShortened) {
    ToolResultLimitMiddleware limit;
    limit.max_chars = 10;
    limit.exclude_tool_names = {"read"};
    const auto sink = std::make_shared<Spilled>();
    // An excluded tool is not subject to the agent's own limit either.
    const std::vector<std::string> texts = results({limit}, 50, sink);
    ASSERT_EQ(texts.size(), 3u);
    EXPECT_EQ(texts[0], std::string(10, 'l') +
                            "\n[Output cut: the first 10 of 100 characters are shown. Read it "
                            "elsewhere.]");
    EXPECT_EQ(texts[1], std::string(100, 'r'));
    EXPECT_EQ(texts[2], "tiny");
    EXPECT_EQ(sink->all, (std::vector<std::string>{"long:100"})) << "shortened and stored once";
}

TEST(ToolResultLimit, LimitOfOneTool_Precedes) {
    ToolResultLimitMiddleware limit;
    limit.max_chars = 10;
    limit.max_chars_by_tool = {{"read", 30}, {"long", 0}};
    const std::vector<std::string> texts = results({limit}, 50);
    EXPECT_EQ(texts[0], std::string(100, 'l'));
    EXPECT_TRUE(texts[1].starts_with(std::string(30, 'r') + "\n[Output cut")) << texts[1];
}

TEST(ToolResultLimit, OtherMiddleware_ShortensWhatItReplaced) {
    struct Doubles {
        std::optional<AfterToolCallResult> after_tool_call(AfterToolCallContext& call) {
            AfterToolCallResult result;
            result.content.emplace();
            result.content->emplace_back(TextContent{call.result.text() + call.result.text()});
            return result;
        }
    };
    ToolResultLimitMiddleware limit;
    limit.max_chars = 150;
    for (const bool first : {true, false}) {
        std::vector<Middleware> both;
        if (first) both.emplace_back(limit);
        both.emplace_back(Doubles());
        if (!first) both.emplace_back(limit);
        const std::vector<std::string> texts = results(std::move(both), 50);
        EXPECT_NE(texts[0].find("the first 150 of 200 characters"), std::string::npos) << texts[0];
        EXPECT_EQ(texts[2], "tinytiny");
    }
}

}  // namespace
}  // namespace cubepi
