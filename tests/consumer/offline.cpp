// A user's program without a network: a scripted model calls a tool of the user's. It includes single headers, as a
// project that takes only some modules does.
#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include <iostream>
#include <string>

struct WeatherArgs {
    std::string city;
    int days = 3;
};

cubepi::Task<int> conversation() {
    cubepi::JsonObject arguments;
    arguments["city"] = "Tokyo";
    cubepi::FauxProvider faux;
    faux.append_responses(
        {cubepi::faux_assistant_message(cubepi::faux_tool_call("get_weather", std::move(arguments)),
                                        cubepi::stop_reason::tool_use)});
    faux.append_responses({[](const cubepi::MessageList& messages, const cubepi::Model&) {
        return cubepi::faux_assistant_message(messages.back().text());
    }});

    cubepi::Agent agent({
        .model = faux.model(),
        .tools = {cubepi::tool<WeatherArgs>(
                      "get_weather", "Get the forecast for a city.",
                      [](WeatherArgs args) { return args.city + ": 22 degrees and sunny"; })
                      .describe("city", "City name, e.g. Paris")},
    });
    agent.subscribe(
        [](const cubepi::AgentEvent& event) { std::cout << event.text() << std::flush; });
    cubepi::RunResult result = co_await agent.prompt("What's the weather in Tokyo?");
    std::cout << '\n';
    if (!result) std::cerr << result.error().what() << '\n';
    co_return result ? 0 : 1;
}

int main() { return cubepi::run(conversation()); }
