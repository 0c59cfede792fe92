// Events pulled one by one instead of pushed to a listener: the run waits while the program handles one.
#include <cubepi/cubepi.hpp>

#include <iostream>

using namespace cubepi;

Task<bool> talk() {
    FauxProvider faux;
    faux.set_responses({"Streams are pulled here."});
    Agent agent(faux.model());

    AgentRun answer = agent.start("How does this work?");
    while (auto event = co_await answer.next()) {
        if (auto* delta = event->text_delta()) {
            std::cout << *delta << '|';
        } else if (auto* end = event->get_if<MessageEndEvent>()) {
            std::cout << "\n-- a message of the " << to_string(end->message.role()) << " ended\n";
        }
    }
    const RunResult result = co_await answer.result();
    co_return static_cast<bool>(result);
}

int main() { return run(talk()) ? 0 : 1; }
