// Sub-agents: a reviewer with a model and a tool of its own. The parent's hook decides about its calls, too.
#include <iostream>
#include <cubepi/cubepi.hpp>
#include <cubepi/middleware/subagents.hpp>
using namespace cubepi;

struct PathArgs {
    std::string path;
};

AssistantMessage calls(const char* tool, JsonObject arguments) {
    return faux_assistant_message(faux_tool_call(tool, std::move(arguments)),
                                  stop_reason::tool_use);
}

int main() {
    FauxProvider small;
    small.set_responses(
        {calls("read", {{"path", "/etc/shadow"}}), [](const MessageList& messages, const Model&) {
             return faux_assistant_message("I could not: " + messages.back().text());
         }});
    SubagentOptions subagents;
    subagents.default_model = small.model();
    subagents.subagents.push_back({.name = "reviewer",
                                   .description = "Reviews files.",
                                   .system_prompt = "You review files.",
                                   .limits = {.max_turns = 10}});
    subagents.shared_tools.push_back(tool<PathArgs>(
        "read", "Reads a file.", [](PathArgs args) { return "the content of " + args.path; }));
    subagents.on_event = [](const AgentEvent& event) {
        if (event.get_if<AgentStartEvent>())
            std::cout << "started by run " << event.run->origin.parent_run_id << '\n';
    };

    FauxProvider large;
    large.set_responses(
        {calls("subagent",
               {{"name", "rev"}, {"prompt", "Review /etc/shadow."}, {"subagent_type", "reviewer"}}),
         [](const MessageList& messages, const Model&) {
             return faux_assistant_message("The reviewer: " + messages.back().text());
         }});
    AgentOptions options{.model = large.model(),
                         .middleware = {SubagentMiddleware(std::move(subagents))}};
    options.before_tool_call = [](BeforeToolCallContext& call) {
        BeforeToolCallResult decision;
        const Json* path = call.args.if_contains("path");
        decision.block = path && path->is_string() && path->get_string().starts_with("/etc/");
        if (decision.block) decision.reason = "files in /etc are not read";
        return decision;
    };
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("Have the file reviewed."));
    std::cout << result.text() << '\n';
    return result.text().find("not read") != std::string::npos ? 0 : 1;
}
