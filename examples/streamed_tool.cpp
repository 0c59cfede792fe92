// One typed tool; the answer is streamed.
#include <cubepi/cubepi.hpp>
using namespace cubepi;

int main() {
    FauxProvider faux;  // a model without a network; OpenAIProvider({.api_key = ...}) is a real one
    faux.set_responses({faux_assistant_message(faux_tool_call("weather", {{"city", "Oslo"}})),
                        "Snow in Oslo, for three days."});
    Agent agent(AgentOptions{
        .model = faux.model(),
        .tools = {tool<"city", "days">(
            "weather", "The forecast for a city.", [](std::string city, std::optional<int> days) {
                return city + ": snow for " + std::to_string(days.value_or(3)) + " days";
            })}});
    agent.subscribe(print_text());
    return run(agent.prompt("How is the weather in Oslo?")) ? 0 : 1;
}
