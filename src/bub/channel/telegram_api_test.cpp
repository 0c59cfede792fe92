// Calls of the Bot API, and the messages that survive their failures; the name of a bot, and the pairing of its user.

#include <bub/channel/telegram/message_sender.hpp>
#include <bub/channel/telegram/telegram_api.hpp>
#include <bub/channel/telegram/telegram_test_support.hpp>
#include <bub/channel/telegram_pairing.hpp>
#include <cubepi/core/error.hpp>

namespace bub::telegram {
namespace {

using cubepi::testing::run_advancing;

class TelegramApiTest : public ChannelFixture {
public:
    TelegramApiTest() {
        ApiOptions made;
        made.token = api.token();
        made.runtime = runtime;
        client = std::make_shared<const TelegramApi>(made);
        sender = std::make_shared<MessageSender>(
            client, *clock, [this](const std::string& text) { warnings.push_back(text); });
    }

    std::int64_t send(const std::string& text, std::int64_t chat = 7) {
        ChatTarget to;
        to.chat = chat;
        return run_advancing(*clock, sender->send(to, OutgoingText(format_markdown(text))));
    }
    static ChatTarget chat(std::int64_t id) {
        ChatTarget to;
        to.chat = id;
        return to;
    }
    std::optional<ApiFailure> failure_of_call(const std::string& method) {
        try {
            (void)run_advancing(*clock, client->call(method, JsonObject()));
        } catch (...) {
            last_error = cubepi::exception_text(std::current_exception());
            return api_failure(std::current_exception());
        }
        return std::nullopt;
    }

    std::shared_ptr<const TelegramApi> client;
    std::shared_ptr<MessageSender> sender;
    std::string last_error;
};

TEST_F(TelegramApiTest, Call_ReturnsItsResult) {
    const Json me = run_advancing(*clock, client->call("getMe", JsonObject()));
    EXPECT_EQ(me.at("username"), "cubepi_bot");
}

TEST_F(TelegramApiTest, Failures_NeverShowTheToken) {
    for (const Fault fault :
         {Fault::cut_before, Fault::cut_after, Fault::too_many, Fault::internal, Fault::garbage,
          Fault::forbidden, Fault::conflict, Fault::internal_after}) {
        api.fail("getMe", {fault});
        ASSERT_TRUE(failure_of_call("getMe").has_value()) << static_cast<int>(fault);
        EXPECT_EQ(last_error.find("secret-of-the-bot"), std::string::npos) << last_error;
        EXPECT_NE(last_error.find("getMe"), std::string::npos) << last_error;
    }
    // The transport quotes the address, and the rest of its text is kept.
    api.fail("getMe", {Fault::cut_before});
    ASSERT_TRUE(failure_of_call("getMe").has_value());
    EXPECT_NE(last_error.find("lost the connection to https://api.telegram.org/bot<token>/getMe"),
              std::string::npos)
        << last_error;
}

TEST_F(TelegramApiTest, Failures_AreClassified) {
    api.fail("getMe", {Fault::too_many, Fault::cut_after, Fault::forbidden, Fault::garbage});
    const auto limited = failure_of_call("getMe");
    EXPECT_EQ(limited->retry_after, std::chrono::seconds(7));
    EXPECT_FALSE(limited->is_unsettled);
    EXPECT_TRUE(failure_of_call("getMe")->is_unsettled);
    const auto forbidden = failure_of_call("getMe");
    EXPECT_EQ(forbidden->status, 403);
    EXPECT_FALSE(forbidden->is_transient());
    EXPECT_TRUE(failure_of_call("getMe")->is_transient());
}

TEST_F(TelegramApiTest, InvalidToken_IsRefused) {
    for (const char* token : {"", "42:abc/../getMe", "42:ab c", "42:ab\nc", "42:\xC3\xA4"}) {
        ApiOptions made;
        made.token = token;
        EXPECT_THROW(TelegramApi{made}, cubepi::Error) << token;
    }
    ApiOptions made;
    made.token = "42:abc";
    made.base_url = "ftp://example.org";
    EXPECT_THROW(TelegramApi{made}, cubepi::Error);
}

TEST_F(TelegramApiTest, RequestThatCertainlyFailed_IsSentAgain) {
    api.fail("sendMessage", {Fault::too_many, Fault::too_many});
    const auto before = clock->now();
    send("**Hello**");
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"Hello"});
    EXPECT_GE(clock->now() - before, std::chrono::seconds(14));
    EXPECT_EQ(api.messages(7).front().entities.size(), 1u);
}

TEST_F(TelegramApiTest, B18_PossiblyArrivedMessage_IsResentWithMark) {
    for (const Fault fault : {Fault::cut_after, Fault::internal_after}) {
        api.fail("sendMessage", {fault});
        send("**One** two");
    }
    EXPECT_EQ(api.texts(7), (std::vector<std::string>{"One two", "(sent again) One two", "One two",
                                                      "(sent again) One two"}));
    const FakeMessage again = api.messages(7).at(1);
    EXPECT_EQ(again.entities.at(0).at("offset"), 13);
    EXPECT_EQ(api.rejected, 0u);
    ASSERT_EQ(warnings.size(), 4u);
    EXPECT_EQ(warnings.back(), "");
}

TEST_F(TelegramApiTest, B18_MarkOfLongMessage_IsAnOwnMessage) {
    api.fail("sendMessage", {Fault::cut_after});
    const std::string text(4090, 'x');
    send(text);
    EXPECT_EQ(api.texts(7), (std::vector<std::string>{text, "(sent again)", text}));
}

TEST_F(TelegramApiTest, UnavailableService_IsWaitedFor) {
    std::vector<Fault> faults(50, Fault::cut_before);
    api.fail("sendMessage", faults);
    send("patience");
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"(sent again) patience"});
    EXPECT_EQ(warnings.size(), 2u);
}

TEST_F(TelegramApiTest, RejectedFormats_AreReplacedByPlainText) {
    api.rejects_entities = true;
    send("**bold** and `code`");
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"bold and code"});
    EXPECT_TRUE(api.messages(7).front().entities.empty());
}

TEST_F(TelegramApiTest, RejectionByService_IsReported) {
    EXPECT_THROW(send("x", 12345), ApiError);
    api.fail("sendMessage", {Fault::forbidden});
    EXPECT_THROW(send("x"), ApiError);
    EXPECT_TRUE(api.texts(7).empty());
}

TEST_F(TelegramApiTest, EditThatChangesNothing_Succeeds) {
    const std::int64_t id = send("same");
    for (int times = 0; times < 2; ++times) {
        EXPECT_TRUE(run_advancing(
            *clock, sender->edit(chat(7), id, OutgoingText(format_markdown("same")))));
    }
    api.fail("editMessageText", {Fault::cut_after, Fault::internal});
    EXPECT_TRUE(
        run_advancing(*clock, sender->edit(chat(7), id, OutgoingText(format_markdown("other")))));
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"other"});
    api.delete_message(id);
    EXPECT_FALSE(
        run_advancing(*clock, sender->edit(chat(7), id, OutgoingText(format_markdown("gone")))));
}

TEST_F(TelegramApiTest, Requests_KeepToTheRatesOfService) {
    for (int number = 0; number < 40; ++number) send("to a user " + std::to_string(number));
    for (int number = 0; number < 40; ++number) send("to a group " + std::to_string(number), -100);
    EXPECT_EQ(api.rejected, 0u) << api.last_rejection;
    EXPECT_EQ(api.messages(7).size(), 40u);
    EXPECT_EQ(api.messages(-100).size(), 40u);
}

TEST_F(TelegramApiTest, D289_SendersOfOneBot_DivideItsRate) {
    std::vector<std::shared_ptr<MessageSender>> senders;
    for (int number = 0; number < 3; ++number)
        senders.push_back(
            std::make_shared<MessageSender>(client, *clock, nullptr, [] { return 3; }));
    std::vector<Task<std::int64_t>> sending;
    for (std::size_t number = 0; number < 120; ++number) {
        const ChatTarget to = chat(1000 + static_cast<std::int64_t>(number));
        api.add_chat(to.chat);
        sending.push_back(senders[number % 3]->send(to, OutgoingText(format_markdown("Hello"))));
    }
    run_advancing(*clock, cubepi::when_all(std::move(sending)));
    EXPECT_EQ(api.too_fast, 0u);
}

TEST_F(TelegramApiTest, File_IsDownloadedUpToALimit) {
    api.add_file("photo-1", std::string(1000, 'p'));
    EXPECT_EQ(run_advancing(*clock, client->download("photo-1", 1000)).size(), 1000u);
    EXPECT_THROW(run_advancing(*clock, client->download("missing", 1000)), cubepi::Error);
}

class TelegramPairing : public ChannelFixture {
public:
    TelegramConnection connection() const {
        TelegramConnection made;
        made.token = api.token();
        made.runtime = runtime;
        return made;
    }
};

TEST_F(TelegramPairing, Token_YieldsTheNameOfItsBot) {
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

TEST_F(TelegramPairing, Code_FindsTheUserWhoSendsIt) {
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

TEST_F(TelegramPairing, Code_DoesNotReachTheAgent) {
    api.say(7, "12345678");
    (void)run_advancing(*clock, pair_telegram_user(connection(), "12345678"));
    EXPECT_EQ(api.waiting_updates(), 0u);
}

TEST_F(TelegramPairing, TenWrongCodes_EndThePairing) {
    for (int number = 0; number < 10; ++number) api.say(8, "1234567" + std::to_string(number % 8));
    EXPECT_THROW((void)run_advancing(*clock, pair_telegram_user(connection(), "99999999")),
                 cubepi::Error);
    EXPECT_EQ(new_pairing_code().size(), 8u);
    EXPECT_NE(new_pairing_code(), new_pairing_code());
}

TEST_F(TelegramPairing, AnotherGateway_IsReported) {
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
