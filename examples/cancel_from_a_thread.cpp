// A run that another thread cancels: by a stop token, or by abort().
#include <iostream>
#include <thread>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

int main() {
    FauxProvider faux(FauxOptions{.tokens_per_second = 20.0});  // a slow model without a network
    faux.set_responses({std::string(2000, '.').c_str(), std::string(2000, '.').c_str()});
    Agent agent(faux.model());

    std::stop_source stop;
    std::jthread canceller([&] { stop.request_stop(); });
    RunResult first = run(agent.prompt("Talk", PromptOptions().stop_token(stop.get_token())));
    std::cout << "stop token: " << to_string(first.outcome) << '\n';

    std::jthread other;
    agent.subscribe([&](const AgentEvent& event) {
        if (event.text_delta() && !other.joinable()) other = std::jthread([&] { agent.abort(); });
    });
    RunResult second = run(agent.prompt("Talk"));
    std::cout << "abort(): " << to_string(second.outcome) << ", the history has "
              << agent.state().messages.size() << " messages\n";
    return first.outcome == RunOutcome::aborted && second.outcome == RunOutcome::aborted ? 0 : 1;
}
