// Options of one prompt: another model, temperature, tools, limits, a stop token and facts for traces.
#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

int main() {
    FauxProvider faux;  // a model without a network
    faux.set_responses({[](const MessageList&, const Model& model) {
                            return faux_assistant_message("I am " + model.id);
                        },
                        [](const MessageList&, const Model& model) {
                            return faux_assistant_message("I am " + model.id);
                        }});
    Agent agent(AgentOptions{.model = faux.model("small")});

    std::stop_source stop;                             // any thread may request the stop
    RunResult once = run(agent.prompt("Who are you?",  //
                                      PromptOptions()
                                          .model(faux.model("large"))
                                          .temperature(0.2)
                                          .tools({})
                                          .max_duration(std::chrono::seconds(30))
                                          .stop_token(stop.get_token())
                                          .metadata({{"customer", "c-17"}})));
    RunResult next = run(agent.prompt("And now?"));
    std::cout << once.text() << '\n' << next.text() << '\n';
    return once.text() == "I am large" && next.text() == "I am small" ? 0 : 1;
}
