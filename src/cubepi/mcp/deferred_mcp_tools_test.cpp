#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/mcp/deferred_mcp_tools.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> names_of(const std::vector<AgentTool>& tools) {
    std::vector<std::string> names;
    for (const AgentTool& tool : tools) names.push_back(tool.name.str());
    return names;
}

McpTools tools_of(const std::string& server, std::size_t count) {
    McpTools made;
    made.server = server;
    for (std::size_t i = 0; i < count; ++i) {
        AgentTool tool;
        tool.name = SharedString(mcp_tool_name("mcp__", server, "t" + std::to_string(i)));
        tool.label = server + ": t";
        made.tools.push_back(std::move(tool));
    }
    return made;
}

TEST(DeferredMcpTools, D164_FewTools_StayInTheRequests) {
    const OfferedMcpTools offered = offer_mcp_tools({tools_of("a", 20), tools_of("b", 20)});
    EXPECT_EQ(offered.tools.size(), 40U);
    EXPECT_FALSE(offered.deferred);
}

TEST(DeferredMcpTools, D164_ManyTools_AreDeferredTogether) {
    const OfferedMcpTools offered = offer_mcp_tools({tools_of("a", 20), tools_of("b", 21)});
    EXPECT_TRUE(offered.tools.empty());
    ASSERT_TRUE(offered.deferred);
    EXPECT_THAT(names_of(offered.deferred->tools),
                ElementsAre("load_tools", "search_tools", "deferred_tool_call"));
}

TEST(DeferredMcpTools, OtherTools_StayInTheList) {
    std::vector<AgentTool> tools = tools_of("a", 3).tools;
    AgentTool own;
    own.name = SharedString("read");
    own.label = "mcp: not a server";
    tools.insert(tools.begin() + 1, own);
    EXPECT_FALSE(defer_mcp_tools(tools, 3));
    EXPECT_EQ(tools.size(), 4U);
    EXPECT_TRUE(defer_mcp_tools(tools, 2));
    EXPECT_THAT(names_of(tools), ElementsAre("read"));
}

/// Calls a tool through the dispatcher, and notes what a hook saw.
TEST(DeferredMcpTools, D164_Hooks_SeeTheToolOfTheServer) {
    const auto client = FakeServer("modern,fifty").start();
    std::vector<McpTools> servers;
    servers.push_back(run(mcp_tools(client)));
    OfferedMcpTools offered = offer_mcp_tools(std::move(servers));
    ASSERT_TRUE(offered.deferred);
    FauxProvider faux;
    std::string system_prompt;
    std::size_t advertised = 0;
    JsonObject inner;
    inner["text"] = "hi";
    JsonObject arguments;
    arguments["tool_name"] = "mcp__fake__echo";
    arguments["arguments"] = std::move(inner);
    faux.set_responses({FauxStep([&](const ModelRequest& request) {
                            system_prompt = request.system_prompt.str();
                            advertised = request.tools->size();
                            return faux_assistant_message(
                                faux_tool_call("deferred_tool_call", arguments), "tool_use");
                        }),
                        "done"});
    std::vector<std::string> seen;
    AgentOptions options{.model = faux.model()};
    options.middleware.emplace_back(std::move(*offered.deferred));
    options.before_tool_call = [&seen](BeforeToolCallContext& call) {
        seen.push_back(call.tool_call.name.str() + " " + call.tool.label);
        return std::optional<BeforeToolCallResult>();
    };
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("Go"));
    EXPECT_THAT(seen, ElementsAre("mcp__fake__echo fake: echo"));
    EXPECT_EQ(result.new_messages[2].text(), "echo: hi");
    EXPECT_EQ(advertised, 3U);
    // The server's words are in results and definitions only.
    EXPECT_THAT(system_prompt, HasSubstr("`fake`: The MCP server fake"));
    EXPECT_THAT(system_prompt, Not(HasSubstr("echo")));
}

}  // namespace
}  // namespace cubepi
