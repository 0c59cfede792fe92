// Another thread cancels a run. PromptOptions().stop_token(token) does the same by a std::stop_token.
#include <thread>
#include <cubepi/cubepi.hpp>
using namespace std::literals;

int main() {
    cubepi::Agent agent(cubepi::openai_model("gpt-5.1"));
    std::jthread other([&] {
        std::this_thread::sleep_for(1s);
        agent.abort();
    });
    return run(agent.prompt("Talk")) ? 0 : 1;
}
