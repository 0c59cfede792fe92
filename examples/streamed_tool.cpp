// One typed tool; the answer is streamed.
#include <cubepi/cubepi.hpp>
using namespace cubepi;

struct WeatherArgs {
    std::string city;
    int days = 3;
};

int main() {
    FauxProvider faux;  // a model without a network; OpenAIProvider({.api_key = ...}) is a real one
    faux.set_responses({faux_assistant_message(faux_tool_call("weather", {{"city", "Oslo"}})),
                        "Snow in Oslo, for three days."});
    Agent agent(AgentOptions{
        .model = faux.model(),
        .tools = {tool<WeatherArgs>("weather", "The forecast for a city.", [](WeatherArgs args) {
                      return args.city + ": snow for " + std::to_string(args.days) + " days";
                  }).constrain("days", Constraints().minimum(1).maximum(7))}});
    agent.subscribe(print_text());
    return run(agent.prompt("How is the weather in Oslo?")) ? 0 : 1;
}
