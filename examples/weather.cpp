// The program of the README. It needs OPENAI_API_KEY; without it, it fails with an error.
#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

struct WeatherArgs {  // a plain struct is the schema: no macros
    std::string city;
    int days = 3;  // has a default: not required
};

int main() {
    auto openai = OpenAIProvider({.api_key = env("OPENAI_API_KEY")});

    Agent agent(AgentOptions{
        .model = openai.model("gpt-5.1"),
        .system_prompt = "You are a helpful weather assistant.",
        .tools = {tool<WeatherArgs>(
                      "get_weather", "Get the forecast for a city.",
                      [](WeatherArgs args) { return args.city + ": 22 degrees and sunny"; })
                      .describe("city", "City name, e.g. Paris")},
    });
    agent.subscribe([](const AgentEvent& event) { std::cout << event.text() << std::flush; });
    RunResult result = run(agent.prompt("What's the weather in Tokyo?"));
    if (!result) std::cerr << result.error().what() << '\n';
}
