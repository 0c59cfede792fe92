#include <bub/channel/telegram/telegram_test_support.hpp>

#include <bub/channel/telegram_pairing.hpp>
#include <cubepi/core/error.hpp>

namespace bub::telegram {
namespace {

using cubepi::testing::run_advancing;

class TelegramPairing : public ChannelFixture {
public:
    TelegramConnection connection() const {
        TelegramConnection made;
        made.token = api.token();
        made.runtime = runtime;
        return made;
    }
};

TEST_F(TelegramPairing, NamesTheBotOfAToken) {
    EXPECT_EQ(run_advancing(*clock, telegram_bot_name(connection())), "cubepi_bot");
    TelegramConnection wrong = connection();
    wrong.token = "42:another-token";
    try {
        (void)run_advancing(*clock, telegram_bot_name(wrong));
        FAIL() << "no error";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::auth);
        EXPECT_EQ(std::string(error.what()).find("another-token"), std::string::npos);
    }
}

TEST_F(TelegramPairing, FindsTheUserWhoSendsTheCode) {
    api.say(8, "12340000");
    api.say(8, "hello");
    JsonObject update;
    update["message"] = api.message_of(7, -100, "12345678");
    api.add_update(std::move(update));
    api.say(7, "/start 12345678");
    api.fail("getUpdates", {Fault::cut_before, Fault::too_many});
    const TelegramUser user = run_advancing(*clock, pair_telegram_user(connection(), "12345678"));
    EXPECT_EQ(user.id, "7");
    EXPECT_EQ(user.name, "Ann");
    ASSERT_EQ(api.texts(7).size(), 1u);
    // The messages of others are for the channel.
    EXPECT_EQ(api.waiting_updates(), 4u);
}

TEST_F(TelegramPairing, TheCodeDoesNotReachTheAgent) {
    api.say(7, "12345678");
    (void)run_advancing(*clock, pair_telegram_user(connection(), "12345678"));
    EXPECT_EQ(api.waiting_updates(), 0u);
}

TEST_F(TelegramPairing, EndsAfterTenWrongCodes) {
    for (int number = 0; number < 10; ++number) api.say(8, "1234567" + std::to_string(number % 8));
    EXPECT_THROW((void)run_advancing(*clock, pair_telegram_user(connection(), "99999999")),
                 cubepi::Error);
    EXPECT_EQ(new_pairing_code().size(), 8u);
    EXPECT_NE(new_pairing_code(), new_pairing_code());
}

TEST_F(TelegramPairing, ReportsAnotherGateway) {
    api.fail("getUpdates", {Fault::conflict});
    try {
        (void)run_advancing(*clock, pair_telegram_user(connection(), "99999999"));
        FAIL() << "no error";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::busy);
    }
}

}  // namespace
}  // namespace bub::telegram
