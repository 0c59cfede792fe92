// Updates as requests of Telegram.

#include <bub/channel/telegram/telegram_test_support.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/net/http_client.hpp>

namespace bub::telegram {
namespace {

class TelegramWebhookTest : public ChannelFixture {
public:
    TelegramWebhookTest() {
        options.webhook.emplace();
        options.webhook->url = "https://bot.example.org/telegram";
        options.webhook->secret = "the-secret_of-the-hook";
    }

    Task<int> post(std::string body, std::string secret) {
        cubepi::HttpClient client;
        cubepi::HttpRequest request(
            "POST", "http://127.0.0.1:" + std::to_string(channel->port()) + "/telegram");
        if (!secret.empty())
            request.headers.set("x-telegram-bot-api-secret-token", std::move(secret));
        request.body = std::move(body);
        const cubepi::HttpResponse response = co_await client.send(std::move(request));
        co_return response.status;
    }
    std::string update(std::int64_t id, std::string text) {
        JsonObject made;
        made["update_id"] = id;
        made["message"] = api.message_of(7, 7, std::move(text));
        return boost::json::serialize(made);
    }
    Task<> wait_for_webhook() {
        while (api.webhook.empty()) co_await clock->sleep_for(std::chrono::seconds(1));
    }
};

using Fixture = ChannelFixture;

TEST_F(TelegramWebhookTest, RefusesToStartWithoutASecret) {
    for (const char* secret : {"", "not a secret", "\xC3\xA4"}) {
        options.webhook->secret = secret;
        EXPECT_THROW(make_channel(), cubepi::Error) << secret;
    }
    options.webhook->secret = std::string(257, 's');
    EXPECT_THROW(make_channel(), cubepi::Error);
    options.webhook->secret = "secret";
    options.webhook->url = "http://bot.example.org";
    EXPECT_THROW(make_channel(), cubepi::Error);
}

TEST_F(TelegramWebhookTest, ReceivesUpdatesWithTheSecret) {
    serve([this](Fixture&) -> Task<> {
        co_await wait_for_webhook();
        const std::string secret = options.webhook->secret;
        const int accepted = co_await post(update(1, "hello"), secret);
        EXPECT_EQ(accepted, 200);
        for (const std::string wrong : {"", "wrong", "the-secret_of-the-hoo"}) {
            const int refused = co_await post(update(2, "forged"), wrong);
            EXPECT_EQ(refused, 401) << wrong;
        }
        for (const char* body : {"", "[]", "{", "{\"update_id\":\"x\"}"}) {
            const int garbage = co_await post(body, secret);
            EXPECT_EQ(garbage, 400) << body;
        }
    });
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received.front().content, "hello");
    EXPECT_EQ(api.webhook.at("secret_token"), "the-secret_of-the-hook");
    EXPECT_EQ(api.webhook.at("url"), "https://bot.example.org/telegram");
    EXPECT_EQ(api.count("getUpdates"), 0u);
}

TEST_F(TelegramWebhookTest, B18_AnUpdateThatIsNotStoredComesAgain) {
    bool full = true;
    on_message = [&full](const Envelope&) {
        if (full) throw cubepi::Error(cubepi::ErrorCode::storage_full, "the disk is full");
    };
    serve([this, &full](Fixture&) -> Task<> {
        co_await wait_for_webhook();
        const std::string secret = options.webhook->secret;
        const int refused = co_await post(update(1, "hello"), secret);
        EXPECT_EQ(refused, 503);
        full = false;
        const int accepted = co_await post(update(1, "hello"), secret);
        EXPECT_EQ(accepted, 200);
    });
    EXPECT_EQ(received.size(), 1u);
}

TEST_F(TelegramWebhookTest, IsRegisteredWhenTheServiceCanBeReached) {
    api.fail("setWebhook", {Fault::cut_before, Fault::too_many, Fault::internal});
    serve([this](Fixture&) { return wait_for_webhook(); });
    EXPECT_FALSE(api.webhook.empty());
    EXPECT_EQ(warnings.size(), 1u) << all_warnings();
}

}  // namespace
}  // namespace bub::telegram
