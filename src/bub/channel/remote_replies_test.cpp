// Replies to messages that other gateways process (D254), with records that the test returns.

#include <bub/channel/http/remote_replies.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {
namespace {

using detail::HttpExchange;
using detail::RemoteReplies;
using ExchangePtr = std::shared_ptr<HttpExchange>;

class Records final : public HttpSessions {
public:
    Task<std::optional<JsonObject>> message(std::string) override {
        ++reads;
        if (on_read) on_read();
        co_return record;
    }
    Task<std::optional<JsonObject>> session(std::string, std::size_t, std::int64_t) override {
        std::optional<JsonObject> none;
        co_return none;
    }
    Task<StopOutcome> stop(Envelope) override { co_return StopOutcome::idle; }
    Task<bool> wait_for_end(std::string id, std::string session,
                            std::chrono::milliseconds limit) override {
        ++waits;
        if (waits_before_end == 0) return HttpSessions::wait_for_end(std::move(id), session, limit);
        return wait_briefly();
    }
    bool is_shared() const override { return true; }
    Task<std::optional<JsonObject>> ask_elsewhere(JsonObject, std::string gateway) override {
        asked.push_back(std::move(gateway));
        std::optional<JsonObject> answer;
        if (!owner.empty()) answer = JsonObject{{"turn", 0}, {"position", 0}, {"gateway", owner}};
        co_return answer;
    }

    std::optional<JsonObject> record = JsonObject{{"session", "s1"}, {"state", "running"}};
    JsonObject record_at_end{{"session", "s1"}, {"state", "answered"}};
    std::function<void()> on_read;
    std::string owner;
    std::vector<std::string> asked;
    int reads = 0;
    int waits = 0;
    int waits_before_end = 0;  ///< 0: the end is not announced

private:
    Task<bool> wait_briefly() {
        co_await cubepi::yield_now();
        const bool is_over = waits >= waits_before_end;
        if (is_over) record = record_at_end;
        co_return is_over;
    }
};

class RemoteRepliesTest : public testing::Test {
protected:
    RemoteRepliesTest() {
        options.sessions = records;
        message.content = "Hi";
        message.chat_id = "s1";
        message.inbound_id = "k1";
        exchange = exchanges->add(message);
    }
    Task<> follow(std::stop_token draining = {}) { return remote.follow(exchange, draining); }
    /// Waits until the follower has left the exchange.
    static Task<> until_left(ExchangePtr exchange) {
        while (!exchange->elsewhere) {
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
        }
    }

    const std::shared_ptr<Records> records = std::make_shared<Records>();
    HttpChannelOptions options;
    const std::shared_ptr<detail::HttpExchanges> exchanges =
        std::make_shared<detail::HttpExchanges>(10, 1 << 20);
    RemoteReplies remote{options, exchanges};
    Envelope message;
    ExchangePtr exchange;
};

Task<> follow_and_close(RemoteReplies& remote, ExchangePtr exchange, std::stop_token draining) {
    co_await remote.follow(std::move(exchange), std::move(draining));
    co_await remote.close();
}

TEST_F(RemoteRepliesTest, D254_FollowAfterClose_BeginsNothing) {
    exchange->waiting = 1;
    cubepi::run(remote.close());
    cubepi::run(follow());
    EXPECT_TRUE(exchange->elsewhere);
    EXPECT_TRUE(exchange->recorded) << "its client reads the answer later";
    EXPECT_FALSE(exchanges->find("k1"));
}

TEST_F(RemoteRepliesTest, D254_DrainWhileRecordIsRead_BeginsNothing) {
    exchange->waiting = 1;
    std::stop_source draining;
    records->on_read = [&draining] { draining.request_stop(); };
    cubepi::run(follow(draining.get_token()));
    EXPECT_TRUE(exchange->elsewhere);
}

TEST_F(RemoteRepliesTest, D254_Close_EndsFollowers) {
    exchange->waiting = 1;
    cubepi::run(follow_and_close(remote, exchange, {}));
    EXPECT_TRUE(exchange->elsewhere);
}

Task<> follow_until_left(RemoteReplies& remote, ExchangePtr exchange, Task<> left) {
    std::stop_token never;
    co_await remote.follow(std::move(exchange), std::move(never));
    co_await std::move(left);
    co_await remote.close();
}

TEST_F(RemoteRepliesTest, D254_MessageWithoutClient_IsNotFollowed) {
    cubepi::run(follow_until_left(remote, exchange, until_left(exchange)));
    EXPECT_EQ(records->reads, 1) << "only when it was submitted";
}

TEST_F(RemoteRepliesTest, D262_OtherRequestDuringOpenTurn_IsRefused) {
    (*records->record)[request_digest_key] = "one";
    exchange->request_digest = "two";
    cubepi::run(follow());
    ASSERT_TRUE(exchange->refusal());
    EXPECT_EQ(exchange->refusal()->status, 422u);
    EXPECT_FALSE(exchanges->find("k1")) << "the next request is compared as well";
}

TEST_F(RemoteRepliesTest, D262_SameRequestOfOpenTurn_IsFollowed) {
    (*records->record)[request_digest_key] = "one";
    exchange->request_digest = "one";
    exchange->waiting = 1;
    cubepi::run(follow_and_close(remote, exchange, {}));
    EXPECT_FALSE(exchange->refusal());
    EXPECT_TRUE(exchange->recorded);
}

class EndBeforeFirstLook : public RemoteRepliesTest {
protected:
    EndBeforeFirstLook() {
        const JsonObject output{{"kind", "normal"}, {"text", "once"}};
        records->record = JsonObject{{"session", "s1"},
                                     {"state", "answered"},
                                     {request_digest_key, "one"},
                                     {"outputs", JsonArray({output})}};
        exchange->request_digest = "one";
    }
    void expect_refusal() {
        cubepi::run(follow());
        ASSERT_TRUE(exchange->refusal());
        EXPECT_EQ(exchange->refusal()->status, 409u);
        EXPECT_NE(exchange->refusal()->text.find("GET /v1/messages/k1"), std::string::npos);
        EXPECT_TRUE(exchange->outputs().empty());
    }
};

TEST_F(EndBeforeFirstLook, D262_SameRequest_HasRecordedReply) {
    cubepi::run(follow());
    EXPECT_TRUE(exchange->done());
    EXPECT_FALSE(exchange->refusal());
    ASSERT_EQ(exchange->outputs().size(), 1u);
    EXPECT_EQ(exchange->outputs()[0].at("text"), "once");
    EXPECT_EQ(records->reads, 1);
    EXPECT_FALSE(exchanges->find("k1")) << "the record may have another answer later";
}

TEST_F(EndBeforeFirstLook, D262_RecordWithoutDigest_IsRefused) {
    records->record->erase(request_digest_key);
    expect_refusal();
}

TEST_F(EndBeforeFirstLook, D262_RequestWithoutKey_HasRecordedReply) {
    records->record->erase(request_digest_key);
    exchange->request_digest.clear();
    cubepi::run(follow());
    EXPECT_FALSE(exchange->refusal());
    EXPECT_EQ(exchange->outputs().size(), 1u);
}

TEST_F(EndBeforeFirstLook, D265_Stop_HasRecordedResult) {
    // The record of a finished request to stop has no digest.
    records->record = JsonObject{{"session", "s1"},
                                 {"state", "failed"},
                                 {stop_key, true},
                                 {"error", JsonObject{{"message", "not yours"}}}};
    expect_refusal();
    exchange = exchanges->add(message);
    exchange->request_digest = "one";
    exchange->is_stop = true;
    cubepi::run(follow());
    EXPECT_FALSE(exchange->refusal());
    EXPECT_EQ(exchange->error(), "not yours");
}

TEST_F(EndBeforeFirstLook, D262_OtherSession_IsRefused) {
    (*records->record)["session"] = "s2";
    expect_refusal();
}

Task<> until_done(ExchangePtr exchange) {
    while (!exchange->done()) co_await exchange->wait();
}

TEST_F(RemoteRepliesTest, D273_OpenTurn_IsReadAtItsEndOnly) {
    exchange->waiting = 1;
    records->waits_before_end = 5;
    cubepi::run(follow_until_left(remote, exchange, until_done(exchange)));
    EXPECT_EQ(records->waits, 5);
    EXPECT_EQ(records->reads, 2) << "when it was submitted, and at its end";
}

TEST_F(RemoteRepliesTest, D273_MessageHeldMeanwhile_IsRefused) {
    exchange->waiting = 1;
    records->waits_before_end = 1'000'000;
    records->on_read = [this] {
        if (records->waits > 0) records->record = JsonObject{{"session", "s1"}, {"state", "held"}};
    };
    cubepi::run(follow_until_left(remote, exchange, until_done(exchange)));
    ASSERT_TRUE(exchange->refusal());
    EXPECT_EQ(exchange->refusal()->status, 409u);
    EXPECT_EQ(records->reads, 2);
}

TEST_F(RemoteRepliesTest, D273_EndBeforeReply_IsReadAgain) {
    exchange->waiting = 1;
    records->waits_before_end = 1;
    records->record_at_end = JsonObject{{"session", "s1"}, {"state", "running"}};
    records->on_read = [this] {
        if (records->reads == 3)
            records->record = JsonObject{{"session", "s1"}, {"state", "answered"}};
    };
    cubepi::run(follow_until_left(remote, exchange, until_done(exchange)));
    EXPECT_EQ(records->reads, 3);
    EXPECT_FALSE(exchange->refusal());
}

TEST_F(RemoteRepliesTest, D254_ReaderOfWaitingTurn_AsksItsGatewayOnly) {
    const std::shared_ptr<detail::HttpParts> reader = exchange->read_parts();
    exchange->detail = HttpReplyDetail::text;
    records->owner = "3";
    records->on_read = [this] {
        if (records->asked.size() == 3)
            records->record = JsonObject{{"session", "s1"}, {"state", "held"}};
    };
    cubepi::run(follow_until_left(remote, exchange, until_done(exchange)));
    EXPECT_EQ(records->asked, (std::vector<std::string>{"", "3", "3"}));
}

}  // namespace
}  // namespace bub
