// Sandbox confirmation: commands that only read run at once, commands that a rule forbids never run, and the user is asked
// about all others. Answers come from standard input, one line each: "y", "n", or another command to run instead.
#include <cubepi/core/task_scope.hpp>
#include <cubepi/cubepi.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>

#include <iostream>
#include <memory>
#include <optional>
#include <string>

using namespace cubepi;

struct ShellArgs {
    std::string command;
};

// Stands for a shell in a sandbox.
std::string run_in_sandbox(ShellArgs args) { return "ran: " + args.command; }

bool begins_with(const std::string& text, std::string_view prefix) {
    return text.compare(0, prefix.size(), prefix) == 0;
}

Task<ApprovalDecision> by_command(const BeforeToolCallContext& call) {
    const std::string command(call.args.at("command").as_string());
    if (begins_with(command, "ls") || begins_with(command, "cat "))
        co_return ApprovalDecision(Approve());
    if (begins_with(command, "sudo "))
        co_return ApprovalDecision(Deny{"this sandbox has no root user"});
    AskUser ask;
    ask.details = JsonObject{{"reason", "the command can change files"}};
    co_return ApprovalDecision(std::move(ask));
}

ApproveAnswer answer_from(const std::string& line) {
    if (line == "y") return ApproveAnswer();
    if (line.empty() || line == "n") return ApproveAnswer::deny("the user does not want this");
    return ApproveAnswer::edit({{"command", line}});
}

// The host: shows each request and answers it. A program with an event loop reads the terminal asynchronously instead.
Task<> answer_requests(std::shared_ptr<HitlChannel> channel, HitlRequestStream requests) {
    while (std::optional<HitlRequest> request = co_await requests.next()) {
        const auto& call = std::get<ApproveRequest>(request->payload);
        std::cout << "run `" << call.args.at("command").as_string().c_str()
                  << "`? (y, n, or another command) " << std::flush;
        std::string line;
        std::getline(std::cin, line);  // at the end of the input: no
        std::cout << line << '\n';
        Json answer(to_json(answer_from(line)));
        co_await channel->answer(request->request_id, std::move(answer));
    }
}

Task<RunResult> ask_agent(Agent& agent, std::shared_ptr<HitlChannel> channel) {
    BackgroundScope host(co_await this_executor);
    host.spawn(answer_requests(channel, channel->subscribe()));
    RunResult result = co_await agent.prompt("Clean up this directory");
    co_await host.close();
    co_return result;
}

int main() {
    // A model without a network: it calls the tool four times at once.
    FauxProvider faux;
    AssistantMessage calls =
        faux_assistant_message(faux_tool_call("shell", {{"command", "ls"}}), stop_reason::tool_use);
    for (const char* command : {"sudo rm -rf /", "rm build.log", "rm -r old"})
        calls.content.push_back(faux_tool_call("shell", {{"command", command}}));
    faux.set_responses({std::move(calls), "Done."});

    auto channel = std::make_shared<InMemoryChannel>();
    Agent agent(AgentOptions{
        .model = faux.model(),
        .tools = {tool<ShellArgs>("shell", "Runs a command in the sandbox.", run_in_sandbox)},
        .middleware = {ApprovalPolicyMiddleware(channel, by_command)},
        .channel = channel});
    const RunResult result = run(ask_agent(agent, channel));
    for (const Message& message : result.new_messages) {
        const ToolResultMessage* tool_result = message.tool_result();
        if (!tool_result) continue;
        std::cout << (tool_result->is_error ? "error: " : "") << message.text() << '\n';
    }
    return result ? 0 : 1;
}
