#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

struct WeatherArgs {
    std::string city;
    int days = 3;
};

int main() {
    auto openai = OpenAIProvider({.api_key = env("OPENAI_API_KEY")});

    Agent agent({
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
