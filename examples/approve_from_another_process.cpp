// Approve from another process: the first process prompts and ends at the first question, the second one lists what waits,
// and the third one answers and finishes the run.
//
//   approve_from_another_process FILE start
//   approve_from_another_process FILE list
//   approve_from_another_process FILE approve|deny REQUEST
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/cubepi.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <string_view>

using namespace cubepi;

struct DeployArgs {
    std::string version;
};

std::string deploy(DeployArgs args) {
    std::cout << "deploying " << args.version << '\n';
    return "deployed " + args.version;
}

/// A model without a network: it deploys, and then repeats the result of the tool.
BoundModel model(FauxProvider& faux) {
    faux.set_responses({[](const MessageList& messages, const Model&) {
                            if (messages.back().tool_result())
                                return faux_assistant_message(messages.back().text());
                            return faux_assistant_message(
                                faux_tool_call("deploy", {{"version", "1.4"}}),
                                stop_reason::tool_use);
                        },
                        [](const MessageList& messages, const Model&) {
                            return faux_assistant_message(messages.back().text());
                        }});
    return faux.model();
}

/// The agent of a thread; every process creates it in the same way.
std::unique_ptr<Agent> make_agent(FauxProvider& faux, std::shared_ptr<Checkpointer> store) {
    auto channel = std::make_shared<CheckpointedChannel>(store, "deployment");
    return std::make_unique<Agent>(
        AgentOptions{.model = model(faux),
                     .tools = {tool<DeployArgs>("deploy", "Deploys a version.", deploy)},
                     .middleware = {ConfirmToolCallMiddleware(channel)},
                     .checkpointer = store,
                     .thread_id = "deployment",
                     .channel = channel});
}

int start(Agent& agent) {
    agent.subscribe([&agent](const AgentEvent& event) {
        if (event.type() == AgentEventType::hitl_request) (void)agent.detach();  // do not wait here
    });
    const RunResult result = run(agent.prompt("Deploy the new version"));
    std::cout << to_string(result.outcome) << '\n';
    return result.outcome == RunOutcome::suspended ? 0 : 1;
}

int list(Agent& agent) {
    for (const HitlRequest& request : run(agent.load_pending_hitl_requests())) {
        const auto& call = std::get<ApproveRequest>(request.payload);
        std::cout << request.request_id << ' ' << call.tool_name << ' ' << json_text(call.args)
                  << '\n';
    }
    return 0;
}

int answer(Agent& agent, std::string request_id, ApproveAnswer decision) {
    AnswerOrigin origin;
    origin.user = "operator";  // as the program knows its users
    origin.channel = "command line";
    Json value(to_json(decision));
    const RunResult result =
        run(agent.respond(std::move(request_id), std::move(value), std::move(origin)));
    std::cout << to_string(result.outcome) << ": " << result.text() << '\n';
    return result ? 0 : 1;
}

int main(int argc, char** argv) {
    const std::string_view verb = argc > 2 ? argv[2] : "";
    const bool answers = verb == "approve" || verb == "deny";
    if (argc != (answers ? 4 : 3) || (!answers && verb != "start" && verb != "list")) {
        std::cerr << "usage: " << argv[0] << " FILE start|list\n       " << argv[0]
                  << " FILE approve|deny REQUEST\n";
        return 2;
    }
    try {
        FauxProvider faux;
        const auto agent = make_agent(faux, std::make_shared<SQLiteCheckpointer>(argv[1]));
        if (verb == "start") return start(*agent);
        if (verb == "list") return list(*agent);
        return answer(*agent, argv[3],
                      verb == "approve" ? ApproveAnswer() : ApproveAnswer::deny("not today"));
    } catch (const Error& failure) {  // such as stale_answer: another process answered first
        std::cerr << failure.what() << '\n';
        return 1;
    }
}
