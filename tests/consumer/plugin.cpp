// A plugin of a user's program: a shared library that uses CubePi inside and exports one C function. Its two sources are one file in
// a unity build.
#include "plugin_tool.hpp"

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include <cstdio>

namespace {

constexpr const char* task = "Ask the host.";

}  // namespace

extern "C" [[gnu::visibility("default")]] int ask_agent(const char* name, char* answer,
                                                        unsigned size) {
    cubepi::JsonObject arguments;
    arguments["name"] = name;
    cubepi::FauxProvider faux;
    faux.append_responses({cubepi::faux_assistant_message(
        cubepi::faux_tool_call("greet", std::move(arguments)), cubepi::stop_reason::tool_use)});
    faux.append_responses({[](const cubepi::MessageList& messages, const cubepi::Model&) {
        return cubepi::faux_assistant_message(messages.back().text());
    }});
    cubepi::Agent agent({.model = faux.model(), .tools = {greeting_tool()}});
    cubepi::RunResult result = cubepi::run(agent.prompt(task));
    std::snprintf(answer, size, "%s", result.text().c_str());
    return result ? 0 : 1;
}
