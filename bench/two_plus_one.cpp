#include "two_plus_one.hpp"

#include <string>
#include <utility>

namespace cubepi::bench {

namespace {

struct EchoArgs {
    std::string value;
};

}  // namespace

AgentTool echo_tool() {
    return tool<EchoArgs>("echo", "Says it again.", [](EchoArgs args) { return args.value; });
}

FauxOptions ten_deltas() {
    FauxOptions options;
    options.token_size_min = options.token_size_max = 1;
    options.prompt_cache = false;
    return options;
}

std::vector<FauxStep> two_plus_one_script() {
    ContentList<AssistantContent> first;
    first.emplace_back(faux_text("Look"));
    first.emplace_back(faux_tool_call("echo", {{"value", "a"}}, "c1"));
    return {faux_assistant_message(std::move(first), stop_reason::tool_use),
            faux_assistant_message("ten short deltas, of four letters each!!")};
}

}  // namespace cubepi::bench
