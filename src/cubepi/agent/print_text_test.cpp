#include <cubepi/agent/print_text.hpp>

#include <sstream>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

TEST(PrintText, writes_the_text_of_each_answer_on_a_line_of_its_own) {
    FauxProvider faux;
    AssistantMessage call = faux_assistant_message(faux_tool_call("wait"));
    call.content.insert(call.content.begin(), TextContent{.text = "Wait a moment."});
    faux.set_responses({call, faux_assistant_message(faux_tool_call("wait")), "Done.\nReally."});
    Agent agent({
        .model = faux.model(),
        .tools = {AgentTool("wait", "Waits.", AgentTool::no_parameters(),
                            [](JsonObject, ToolContext&) -> MaybeTask<AgentToolResult> {
                                return AgentToolResult("ok");
                            })},
    });
    std::ostringstream out;
    agent.subscribe(print_text(out));
    EXPECT_TRUE(run(agent.prompt("Hello")));
    EXPECT_EQ(out.str(), "Wait a moment.\nDone.\nReally.\n");
}

TEST(PrintText, ends_the_line_of_an_answer_that_is_cut_off) {
    FauxProvider faux;
    faux.set_responses({"One. Two. Three."});
    Agent agent({.model = faux.model()});
    std::ostringstream out;
    agent.subscribe(print_text(out));
    agent.subscribe([&](const AgentEvent& event) {
        if (event.text_delta()) agent.abort();
    });
    EXPECT_EQ(run(agent.prompt("Hello")).outcome, RunOutcome::aborted);
    ASSERT_FALSE(out.str().empty());
    EXPECT_EQ(out.str().back(), '\n');
}

}  // namespace
}  // namespace cubepi
