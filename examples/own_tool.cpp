// A long-running tool: it reports progress, and it stops when the run is aborted.
#include <cubepi/cubepi.hpp>

#include <chrono>
#include <iostream>
#include <string>

using namespace cubepi;

struct ConvertArgs {
    int files;
    std::string format = "png";
};

// A tool may be a coroutine. The context outlives the call, so taking it by reference is safe.
Task<std::string> convert(ConvertArgs args, ToolContext& context) {
    for (int done = 0; done < args.files; ++done) {
        // Requested at an abort and at the timeout of the tool. A tool that ignores it is cancelled 2 s later.
        if (context.stop_token().stop_requested()) {
            co_return "stopped after " + std::to_string(done) + " files";
        }
        JsonObject progress;
        progress["done"] = done + 1;
        progress["of"] = args.files;
        co_await context.update(std::move(progress));  // continues after the listeners received it
        // Stands for the work. Time comes from the runtime, so that a test can control it.
        co_await context.runtime().clock->sleep_for(std::chrono::milliseconds(5));
    }
    co_return std::to_string(args.files) + " files are " + args.format + " now";
}

int main() {
    // A model without a network: it calls the tool, and then repeats the result.
    const FauxStep call =
        faux_assistant_message(faux_tool_call("convert", {{"files", 4}}), stop_reason::tool_use);
    const FauxStep repeat = [](const MessageList& messages, const Model&) {
        return faux_assistant_message(messages.back().text());
    };
    FauxProvider faux;
    faux.set_responses({call, repeat, call});

    Agent agent(AgentOptions{
        .model = faux.model(),
        .tools = {tool<ConvertArgs>("convert", "Converts the images of this directory.", convert)
                      .describe("files", "How many of them")
                      .risk(ToolRisk::writes)
                      .timeout(std::chrono::minutes(1))},
    });
    bool impatient = false;
    agent.subscribe([&](const AgentEvent& event) {
        if (auto* update = event.get_if<ToolExecutionUpdateEvent>()) {
            std::cout << "  " << json_text(update->partial_result) << '\n';
            if (impatient) agent.abort();  // may be called from any thread
        }
    });

    RunResult first = run(agent.prompt("Convert the images"));
    std::cout << to_string(first.outcome) << ": " << first.text() << '\n';

    impatient = true;
    RunResult second = run(agent.prompt("And once more"));  // prompt, call, result, aborted answer
    std::cout << to_string(second.outcome) << ": " << second.new_messages[2].text() << '\n';
    return first && second.outcome == RunOutcome::aborted ? 0 : 1;
}
