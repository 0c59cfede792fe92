#include "plugin_tool.hpp"

#include <string>

namespace {

struct GreetingArgs {
    std::string name;
};

std::string greet(GreetingArgs args) { return "Hello, " + args.name; }

}  // namespace

cubepi::AgentTool greeting_tool() {
    return cubepi::tool<GreetingArgs>("greet", "Greet by name.", greet);
}
