// The tests, and the program that they start: `cubepi` with a plugin whose model echoes.

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <bub/framework.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/runtime.hpp>

#include "program.hpp"
#include "scaled_clock.hpp"

namespace {

/// Spreads the ends of turns that begin together.
constexpr std::size_t longest_turn_ms = 500;

/// Answers "re: TEXT" with the last line of the prompt, after a time that depends on it. A text that begins with "wait" is never
/// answered.
cubepi::Task<std::string> echo(bub::RunModelCall& call) {
    std::string text = call.prompt.text();
    text.erase(0, text.rfind('\n') + 1);
    if (text.starts_with("wait")) {
        cubepi::AsyncEvent never;
        co_await never.wait();
    }
    if (std::getenv("CUBEPI_TEST_SPREAD")) {
        const std::chrono::milliseconds time(std::hash<std::string>()(text) % longest_turn_ms);
        co_await cubepi::Runtime::standard()->clock->sleep_for(time);
    }
    co_return "re: " + text;
}

void add_echo(bub::Framework& framework) {
    if (!std::getenv("CUBEPI_TEST_ECHO")) return;
    bub::Plugin plugin;
    plugin.name = "echo";
    plugin.run_model = echo;
    framework.add(std::move(plugin));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "--program") {
        argv[1] = argv[0];
        if (const char* const factor = std::getenv("CUBEPI_TEST_CLOCK"))
            cubepi::detail::set_standard_clock(
                std::make_shared<cubepi::gateway_tests::ScaledClock>(std::atoi(factor)));
        return cubepi::app::run_program(argc - 1, argv + 1, add_echo);
    }
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
