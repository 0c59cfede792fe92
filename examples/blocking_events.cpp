// The events of a run as a range, for a program without an event loop.
#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

int main() {
    FauxProvider faux({.tokens_per_second = 400});  // a model without a network
    faux.set_responses(
        {"Events are pulled by a loop.", "One. Two. Three. Four. Five. Six. Seven."});
    Agent agent(faux.model());

    auto events = blocking(agent.start("How does this work?"));
    for (const AgentEvent& event : events) {
        if (auto* delta = event.text_delta()) std::cout << *delta << std::flush;
    }
    RunResult result = events.result();
    std::cout << " (" << to_string(result.outcome) << ")\n";

    // Leaving the loop aborts the run.
    auto counting = blocking(agent.start("Count to seven."));
    for (const AgentEvent& event : counting) {
        if (auto* delta = event.text_delta()) {
            std::cout << *delta;
            if (delta->find("Three") != std::string_view::npos) break;
        }
    }
    RunResult aborted = counting.result();
    std::cout << " (" << to_string(aborted.outcome) << ")\n";
    return result && aborted.outcome == RunOutcome::aborted ? 0 : 1;
}
