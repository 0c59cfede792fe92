// A user's program that links CubePi and a static library with its own use of Asio. Both allocate coroutine frames and run event
// loops on the same thread, alternating and nested, so a difference in Asio's types corrupts the stack or the heap.
#include "asio_library.hpp"

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include <iostream>
#include <string>

struct WorkArgs {
    int rounds = 3;
};

int main() {
    int completed = asio_library_work(100);
    for (int i = 0; i < 20; ++i) {
        cubepi::FauxProvider faux;
        cubepi::JsonObject arguments;
        arguments["rounds"] = 50;
        faux.append_responses({cubepi::faux_assistant_message(
            cubepi::faux_tool_call("work", std::move(arguments)), cubepi::stop_reason::tool_use)});
        faux.append_responses({"done"});
        cubepi::Agent agent(
            {.model = faux.model(),
             .tools = {cubepi::tool<WorkArgs>("work", "Run the other library.", [](WorkArgs args) {
                 return std::to_string(asio_library_work(args.rounds));
             })}});
        cubepi::RunResult result = cubepi::run(agent.prompt("Work."));
        if (!result || result.text() != "done") return 1;
        completed += asio_library_work(100);
    }
    std::cout << "Both libraries work: " << completed << '\n';
}
