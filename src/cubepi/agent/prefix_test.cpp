// The prompt-prefix guard in a run. D56.

#include <algorithm>

#include <cubepi/agent/agent_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

std::vector<std::string> breaks(const Recorder& recorder) {
    std::vector<std::string> blocks;
    for (const AgentEvent& event : recorder.events) {
        const NoticeEvent* told = std::get_if<NoticeEvent>(&event.body);
        if (told && told->notice.code == "cache_prefix_break")
            blocks.emplace_back(told->notice.details.at("block").as_string());
    }
    return blocks;
}

TEST(Prefix, D56_RunsThatOnlyAddKeepTheirPrefix) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "one", calling({echo_call("b", "c2")}), "two"});
    Agent agent({.model = faux.model(), .system_prompt = "Be brief.", .tools = {echo_tool()}});
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_TRUE(run(agent.prompt("again")));
    EXPECT_EQ(breaks(recorder), std::vector<std::string>());
}

TEST(Prefix, D56_AThreadThatIsLoadedAgainIsTheSame) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    agent.reset();
    EXPECT_TRUE(run(agent.prompt("again")));
    EXPECT_EQ(breaks(recorder), std::vector<std::string>());
}

TEST(Prefix, D56_AHookThatRewritesThePastIsTold) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    int calls = 0;
    AgentOptions options;
    options.model = faux.model();
    options.tools = {echo_tool()};
    options.transform_system_prompt = [&](std::string prompt,
                                          const HookContext&) -> Task<std::string> {
        co_return prompt + "It is " + std::to_string(++calls) + " o'clock.";
    };
    Agent agent(std::move(options));
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(breaks(recorder), std::vector<std::string>{"system_prompt"});
}

TEST(Prefix, D56_AChangedToolIsTold) {
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    Recorder recorder(agent);
    EXPECT_TRUE(run(agent.prompt("hi")));
    agent.set_tools({});
    EXPECT_TRUE(run(agent.prompt("again")));
    EXPECT_EQ(breaks(recorder), std::vector<std::string>{"tools/0"});
}

}  // namespace
}  // namespace cubepi
