#include <cubepi/provider/observers.hpp>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/stream_from.hpp>

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

TEST(Observers, Observers_SeeRequestEventsAndAnswer) {
    FauxProvider faux = faux_with("Hi");
    std::string log;
    faux.subscribe_request([&](const RequestPayload& payload, const ProviderCall&) {
        EXPECT_EQ(payload.built(), nullptr);
        log += "request:" + std::string(payload.json().at("model").as_string()) + " ";
    });
    faux.subscribe_chunk([&](const StreamEvent& event, const ProviderCall&) {
        log += std::string(to_string(event.type)) + " ";
    });
    faux.subscribe_response([&](const ProviderOutcome& told, const ProviderCall&) -> Task<> {
        co_await yield_now();
        log += "response:" + told.message.text() + (told.body().is_object() ? " body" : "");
    });
    all_events(faux.model("m").stream(hello()));
    EXPECT_EQ(log, "request:m start text_start text_delta text_end done response:Hi body");
}

TEST(Observers, D39_ObserverException_IsANotice) {
    FauxProvider faux = faux_with("Hi");
    faux.subscribe_request(
        [](const RequestPayload&, const ProviderCall&) { throw std::runtime_error("one"); });
    faux.subscribe_response(
        [](const ProviderOutcome&, const ProviderCall&) { throw std::runtime_error("two"); });
    const std::vector<StreamEvent> events = all_events(faux.model("m").stream(hello()));
    EXPECT_EQ(spelled(events),
              "notice(observer_failed) start text_start text_delta(Hi) text_end "
              "notice(observer_failed) done");
    EXPECT_NE(events[0].notice->text.find("one"), std::string::npos);
}

TEST(Observers, Observers_MayDetachThemselves) {
    FauxProvider faux = faux_with("Hi");
    int seen = 0;
    ObserverHandle handle;
    handle = faux.subscribe_chunk([&](const StreamEvent&, const ProviderCall&) {
        ++seen;
        handle();
        handle.detach();
    });
    all_events(faux.model("m").stream(hello()));
    EXPECT_EQ(seen, 1);
}

TEST(Observers, DroppedStream_IsAnsweredOnce) {
    FauxProvider faux = faux_with("Hi");
    int answers = 0;
    faux.subscribe_response([&](const ProviderOutcome& told, const ProviderCall&) {
        ++answers;
        EXPECT_FALSE(told.message);
    });
    {
        MessageStream stream = faux.model("m").stream(hello());
        run(stream.next());
    }
    EXPECT_EQ(answers, 1);
}

TEST(Observers, D70_Call_NamesItsRunMessageAndPurpose) {
    FauxProvider faux = faux_with("Hi");
    std::vector<std::string> ids;
    faux.subscribe_request([&](const RequestPayload&, const ProviderCall& call) {
        ids.push_back(call.id());
        EXPECT_EQ(call.run_id(), "r1");
        EXPECT_EQ(call.message_id(), "m1");
        EXPECT_EQ(call.purpose(), "title");
        EXPECT_EQ(call.attempt(), 1u);
        EXPECT_EQ(call.model().id, "m");
        EXPECT_EQ(call.request.messages.size(), 1u);
    });
    faux.subscribe_chunk(
        [&](const StreamEvent&, const ProviderCall& call) { ids.push_back(call.id()); });
    faux.subscribe_response([&](const ProviderOutcome& told, const ProviderCall& call) {
        ids.push_back(call.id());
        ASSERT_TRUE(told.first_chunk);
        EXPECT_GE(*told.first_chunk, told.started);
    });
    const auto options = [] {
        return StreamOptions().run_id("r1").message_id("m1").purpose("title");
    };
    all_events(faux.model("m").stream(hello(), {}, {}, options()));
    EXPECT_GT(ids.size(), 3u);
    EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u);
    const std::string first = ids.front();
    all_events(faux.model("m").stream(hello(), {}, {}, options()));
    EXPECT_NE(ids.back(), first);
}

/// A provider that sends no payload, and so does not announce its requests.
class Silent final : public BaseProvider {
public:
    Silent() : BaseProvider("silent") {}
    MessageStream stream(ModelRequest request) override {
        std::shared_ptr<ObservedCall> call = observe(request);
        auto source = source_from(std::move(request), answer);
        return observed(std::move(source), std::move(call));
    }

private:
    static Task<> answer(StreamWriter& out) { co_await out.text("Hi"); }
};

TEST(Observers, UnannouncedRequest_IsReceivedAnyway) {
    for (const bool async : {false, true}) {
        const auto silent = std::make_shared<Silent>();
        std::string log;
        silent->subscribe_request([&](const RequestPayload& payload, const ProviderCall& call) {
            EXPECT_TRUE(payload.json().empty());
            log += "request:" + call.model().id + " ";
        });
        if (async) {
            silent->subscribe_chunk([&](const StreamEvent& event, const ProviderCall&) -> Task<> {
                log += std::string(to_string(event.type)) + " ";
                co_await yield_now();
            });
        } else {
            silent->subscribe_chunk([&](const StreamEvent& event, const ProviderCall&) {
                log += std::string(to_string(event.type)) + " ";
            });
        }
        Model model;
        model.id = "s";
        all_events(BoundModel(silent, model).stream(hello()));
        EXPECT_EQ(log, "request:s start text_start text_delta text_end done ");
    }
}

TEST(Observers, D70_Model_NamesEachProviderOnce) {
    const FauxProvider first = faux_with("a");
    const FauxProvider second = faux_with("b");
    const FallbackBoundModel inner({first.model("x"), second.model("y")});
    const FallbackBoundModel chain({first.model("z"), inner});
    EXPECT_EQ(chain_providers(chain).size(), 2u);
    EXPECT_EQ(chain_providers(first.model("x")).size(), 1u);
    EXPECT_TRUE(chain_providers(BoundModel()).empty());
}

TEST(Observers, D70_CallsOfAChain_AreNumbered) {
    FauxProvider broken = faux_with("unused");
    ErrorInfo info;
    info.code = ErrorCode::unavailable;
    broken.set_responses({faux_failure("down", info)});
    FauxProvider healthy = faux_with("Hi");
    const FallbackBoundModel chain({broken.model("a"), healthy.model("b")});
    std::string log;
    for (const std::shared_ptr<Provider>& provider : chain_providers(chain)) {
        auto& base = dynamic_cast<BaseProvider&>(*provider);
        base.subscribe_request([&](const RequestPayload&, const ProviderCall& call) {
            log += call.model().id + std::to_string(call.attempt()) + " ";
        });
    }
    all_events(chain.stream(hello()));
    EXPECT_EQ(log, "a1 b2 ");
}

}  // namespace
}  // namespace cubepi
