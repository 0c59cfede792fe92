// The events of a run as a range, for a program without an event loop. Leaving the loop aborts the run; its end throws the
// error of a failed run.
#include <iostream>
#include <cubepi/cubepi.hpp>

int main() {
    cubepi::Agent agent(cubepi::openai_model("gpt-5.1"));
    for (const auto& event : blocking(agent.start("How does this work?")))
        std::cout << event.text();
}
