#include "kill_support.hpp"

#include <gtest/gtest.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/run.hpp>

#include "gateway/control_server.hpp"

namespace cubepi::gateway_tests {

void wait_until_idle(const GatewayHome& home) {
    const JsonObject request{{"command", "sessions"}};
    while (!app::call_gateway(home.socket(), request).at("sessions").as_array().empty()) {
    }
}

void decide_about_held(const GatewayHome& home, const std::string& answers) {
    const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
    for (const char* kind : {"messages", "answers"}) {
        const std::string command = std::string(kind) == "answers" ? answers : "release";
        for (const Json& one : held.at(kind).as_array())
            (void)app::call_gateway(home.socket(),
                                    JsonObject{{"command", command}, {"id", one.at("id")}});
    }
}

std::map<std::string, int> texts_on_tapes(const GatewayHome& home) {
    bub::FileTapeStore tapes(home.tapes());
    std::map<std::string, int> counts;
    for (const std::string& name : run(tapes.all_tapes())) {
        const auto entries = run(tapes.fetch(name, bub::TapeQuery()));
        for (const Message& message : bub::agent_messages(entries)) {
            const std::string text = message.text();
            ++counts[text.substr(text.rfind('\n') + 1)];
        }
    }
    return counts;
}

void expect_on_tapes_once(const GatewayHome& home, const std::set<std::string>& messages) {
    std::map<std::string, int> counts = texts_on_tapes(home);
    for (const std::string& text : messages) {
        EXPECT_EQ(counts[text], 1) << text;
        EXPECT_EQ(counts["re: " + text], 1) << text;
    }
}

}  // namespace cubepi::gateway_tests
