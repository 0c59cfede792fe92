// One typed tool; the answer is written as it arrives.
#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

int main() {
    auto weather = [](std::string city, std::optional<int> days) {
        return city + ": snow for " + std::to_string(days.value_or(3)) + " days";
    };
    Agent agent(AgentOptions{
        .model = openai_model("gpt-5.1"),
        .tools = {tool<"city", "days">("weather", "The forecast for a city.", weather)}});
    for (const AgentEvent& event : blocking(agent.start("How is the weather in Oslo?")))
        std::cout << event.text() << std::flush;
}
