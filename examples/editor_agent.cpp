// An agent for editors (Agent Client Protocol, both versions): it reads files as the editor has them, and asks before it does. An editor
// starts the program and speaks over standard input and output; here the model is offline.
#include <cubepi/acp/agent_host.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/provider/faux.hpp>

using namespace cubepi;

struct ReadArgs {
    std::string path;
};

AgentOptions make_agent(std::shared_ptr<AcpEditor> editor, std::string session) {
    FauxProvider model;
    model.set_responses(
        {faux_assistant_message(faux_tool_call("read", {{"path", "/project/a.txt"}}), "tool_use"),
         "I have read it."});
    AgentOptions options;
    options.model = model.model("offline");
    auto read = [editor, session](ReadArgs args) {
        return editor->read_text_file(session, args.path);
    };
    options.tools.push_back(tool<ReadArgs>("read", "Reads a file.", read));
    options.channel = std::make_shared<InMemoryChannel>();
    options.middleware.emplace_back(std::make_shared<ConfirmToolCallMiddleware>(options.channel));
    return options;
}

Task<> serve_editor() {
    AcpAgentHostOptions options;
    options.abilities.name = "example";
    options.abilities.version = "1";
    options.abilities.protocol = 2;
    options.make_agent = [](const std::shared_ptr<AcpEditor>& editor, const std::string& session,
                            const AcpSetup&) { return make_agent(editor, session); };
    const Executor executor = co_await this_executor;
    co_await serve_acp(acp_agent_host(std::move(options)), mcp_standard_streams(executor));
}

int main() { run(serve_editor()); }
