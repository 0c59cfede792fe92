// A game or a GUI: each frame does a little work, then polls the agent without waiting.
#include <cubepi/cubepi.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

using namespace cubepi;

int main() {
    FauxProvider faux({.tokens_per_second = 300});
    faux.set_responses({"Turn left at the old mill, and mind the goose."});

    boost::asio::io_context context(1);
    Agent npc(AgentOptions{.model = faux.model(),
                           .system_prompt = "You are the miller of this village."});
    std::string speech;  // the text of the speech bubble
    npc.subscribe([&](const AgentEvent& event) {
        if (auto* delta = event.text_delta()) speech += *delta;
    });

    std::optional<RunResult> answer;
    boost::asio::co_spawn(context, npc.prompt("Which way to the castle?"),
                          [&](std::exception_ptr failure, RunResult result) {
                              if (failure) std::rethrow_exception(failure);
                              answer = std::move(result);
                          });

    int frames = 0;
    std::size_t shown = 0;
    while (!answer) {
        context.poll();  // runs the ready handlers, and returns
        ++frames;
        if (shown != speech.size()) {  // draw
            std::cout << std::string_view(speech).substr(shown) << std::flush;
            shown = speech.size();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(4));  // the rest of the frame
    }
    std::cout << '\n' << (frames > 1 ? "drawn meanwhile\n" : "never drawn\n");
    return *answer && frames > 1 ? 0 : 1;
}
