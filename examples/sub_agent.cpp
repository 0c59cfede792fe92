// A sub-agent as a tool: it is aborted with its caller, charged to it, and returns a typed answer.
#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

struct ReviewArgs {
    std::string text;
};
struct Review {
    int score;
    std::string reason;
    static void describe_fields(FieldNotes& fields) {
        fields.constrain("score", Constraints().minimum(1).maximum(5));
    }
};

Task<Review> review(BoundModel model, ReviewArgs args, ToolContext& context) {
    Agent reviewer(AgentOptions{.model = std::move(model), .system_prompt = "You review texts."});
    // The run of the sub-agent names its caller in traces, and ends with it.
    PromptOptions options = PromptOptions()
                                .parent(context)
                                .stop_token(context.stop_token())
                                .max_duration(std::chrono::minutes(1));
    auto result = co_await reviewer.prompt<Review>(std::move(args.text), std::move(options));
    context.charge(result.usage, result.cost);
    co_return *result;  // throws if there is no review: the model sees the reason
}

AgentTool reviewer(BoundModel model) {
    return tool<ReviewArgs>("review", "Reviews a text.",
                            [model](ReviewArgs args, ToolContext& context) {
                                return review(model, std::move(args), context);
                            })
        .risk(ToolRisk::read_only);
}

int main() {
    FauxProvider small;
    const JsonObject too_high{{"score", 9}, {"reason", "It is short."}};
    const JsonObject valid{{"score", 4}, {"reason", "It is short."}};
    small.set_responses({faux_assistant_message(faux_tool_call("structured_output", too_high)),
                         faux_assistant_message(faux_tool_call("structured_output", valid))});
    FauxProvider large;
    large.set_responses({faux_assistant_message(faux_tool_call("review", {{"text", "Hello."}})),
                         [](const MessageList& messages, const Model&) {
                             return faux_assistant_message("The review: " + messages.back().text());
                         }});
    Agent agent(AgentOptions{.model = large.model(), .tools = {reviewer(small.model())}});
    const RunResult result = run(agent.prompt("Write a greeting and have it reviewed."));
    std::cout << result.text() << '\n';
    return result.text().find("4") != std::string::npos ? 0 : 1;
}
