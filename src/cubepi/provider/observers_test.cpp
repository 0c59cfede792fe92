#include <cubepi/provider/observers.hpp>

#include <gtest/gtest.h>

#include <cubepi/provider/faux.hpp>

#include "test_streams.hpp"

namespace cubepi {
namespace {

MessageList hello() { return MessageList{user_message("hello")}; }

FauxProvider faux_with(const char* text) {
    FauxOptions options;
    options.token_size_min = options.token_size_max = 1000;
    FauxProvider faux(options);
    faux.set_responses({text, text});
    return faux;
}

TEST(Observers, SeeRequestEventsAndAnswer) {
    FauxProvider faux = faux_with("Hi");
    std::string log;
    faux.subscribe_request([&](const JsonObject& payload, const Model&) {
        log += "request:" + std::string(payload.at("model").as_string()) + " ";
    });
    faux.subscribe_chunk([&](const StreamEvent& event, const Model&) {
        log += std::string(to_string(event.type)) + " ";
    });
    faux.subscribe_response([&](const ProviderOutcome& told, const Model&) -> Task<> {
        co_await yield_now();
        log += "response:" + told.message.text() + (told.body.is_object() ? " body" : "");
    });
    all_events(faux.model("m").stream(hello()));
    EXPECT_EQ(log, "request:m start text_start text_delta text_end done response:Hi body");
}

TEST(Observers, D39_WhatTheyThrowIsANotice) {
    FauxProvider faux = faux_with("Hi");
    faux.subscribe_request(
        [](const JsonObject&, const Model&) { throw std::runtime_error("one"); });
    faux.subscribe_response(
        [](const ProviderOutcome&, const Model&) { throw std::runtime_error("two"); });
    const std::vector<StreamEvent> events = all_events(faux.model("m").stream(hello()));
    EXPECT_EQ(spelled(events),
              "notice(observer_failed) start text_start text_delta(Hi) text_end "
              "notice(observer_failed) done");
    EXPECT_NE(events[0].notice->text.find("one"), std::string::npos);
}

TEST(Observers, MayDetachThemselves) {
    FauxProvider faux = faux_with("Hi");
    int seen = 0;
    ObserverHandle handle;
    handle = faux.subscribe_chunk([&](const StreamEvent&, const Model&) {
        ++seen;
        handle.detach();
        handle.detach();
    });
    all_events(faux.model("m").stream(hello()));
    EXPECT_EQ(seen, 1);
}

TEST(Observers, ADroppedStreamIsAnsweredOnce) {
    FauxProvider faux = faux_with("Hi");
    int answers = 0;
    faux.subscribe_response([&](const ProviderOutcome& told, const Model&) {
        ++answers;
        EXPECT_FALSE(told.message);
    });
    {
        MessageStream stream = faux.model("m").stream(hello());
        run(stream.next());
    }
    EXPECT_EQ(answers, 1);
}

}  // namespace
}  // namespace cubepi
