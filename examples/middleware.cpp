// Middleware: plain classes with only the hooks they need.
#include <cubepi/cubepi.hpp>

#include <iostream>
#include <string>

using namespace cubepi;

/// Sends the model only the newest messages. The history itself does not change.
struct SlidingWindow {
    std::size_t keep = 20;
    MessageList transform_context(MessageList messages) { return messages.last(keep); }
};

/// Blocks deletions outside of /tmp.
struct OnlyTmp {
    std::optional<BeforeToolCallResult> before_tool_call(BeforeToolCallContext& call) {
        if (call.tool_call.name != "delete") return std::nullopt;
        const std::string path(call.args.at("path").as_string());
        if (path.starts_with("/tmp/")) return std::nullopt;
        BeforeToolCallResult verdict;
        verdict.block = true;
        verdict.reason = "Only files in /tmp may be deleted.";
        return verdict;
    }
};

/// Counts calls, also across restarts: `extra` is stored with the thread.
struct CallCounter {
    std::optional<AfterToolCallResult> after_tool_call(AfterToolCallContext& call) {
        Json& count = call.context.extra["tool_calls"];
        count = (count.is_int64() ? count.as_int64() : 0) + 1;
        return std::nullopt;
    }
};

struct DeleteArgs {
    std::string path;
};

int main() {
    FauxProvider faux;
    faux.set_responses({
        faux_assistant_message({faux_tool_call("delete", {{"path", "/tmp/old.log"}}),
                                faux_tool_call("delete", {{"path", "/etc/passwd"}})},
                               stop_reason::tool_use),
        "One is gone, the other one I may not delete.",
    });
    Agent agent(AgentOptions{
        .model = faux.model(),
        .tools = {tool<DeleteArgs>("delete", "Deletes a file.",
                                   [](DeleteArgs args) { return "deleted " + args.path; })
                      .risk(ToolRisk::irreversible)},
        .middleware = {SlidingWindow(), OnlyTmp(), CallCounter()},
    });
    agent.subscribe([](const AgentEvent& event) {
        if (auto* end = event.get_if<ToolExecutionEndEvent>()) {
            std::cout << (end->blocked_by_hook ? "blocked: " : "done:    ") << end->result.text()
                      << '\n';
        }
    });
    const RunResult result = run(agent.prompt("Clean up"));
    std::cout << result.text() << '\n'
              << agent.state().extra.at("tool_calls").as_int64() << " calls so far\n";
    return result ? 0 : 1;
}
