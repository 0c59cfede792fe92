// The events of a run as a range, for a program without an event loop. Leaving the loop aborts the run.
#include <iostream>
#include <cubepi/cubepi.hpp>

int main() {
    cubepi::Agent agent(cubepi::openai_model("gpt-5.1"));
    auto events = blocking(agent.start("How does this work?"));
    for (const auto& event : events) std::cout << event.text();
    if (auto result = events.result(); !result) std::cerr << result.error().what() << '\n';
}
