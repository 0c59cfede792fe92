// The channel `telegram` with the manager and the builtin agent.

#include <bub/builtin/telegram_bot_test_support.hpp>

namespace bub {
namespace {

TEST_F(TelegramBot, AnswersAMessage) {
    add({"Hello **Ann**."});
    api.say(7, "Hi");
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "Hello");
        co_await t.manager->idle();
    });
    ASSERT_EQ(api.messages(7).size(), 1u);
    EXPECT_EQ(api.messages(7).front().text, "Hello Ann.");
    EXPECT_EQ(api.messages(7).front().entities.size(), 1u);
    EXPECT_EQ(count(tape("telegram:7"), entry_kind::message), 2u);
    EXPECT_TRUE(cubepi::run(deliveries->unsettled()).empty());
    EXPECT_TRUE(cubepi::run(deliveries->unfinished()).empty());
    EXPECT_EQ(warnings, "");
}

TEST_F(TelegramBot, AnAnswerThatIsShownWhileItIsGeneratedIsNotDoubled) {
    shows_progress = true;
    add({"one", "two", "three", "four", "five"});
    serve([](TelegramBot& t) -> Task<> {
        for (const char* answer : {"one", "two", "three", "four", "five"}) {
            t.api.say(7, "Next");
            (void)co_await t.shown(7, answer);
            co_await t.manager->idle();
        }
    });
    EXPECT_EQ(api.texts(7), (std::vector<std::string>{"one", "two", "three", "four", "five"}));
    EXPECT_EQ(warnings, "");
}

TEST_F(TelegramBot, B18_AnUpdateThatIsDeliveredTwiceIsOneMessage) {
    add({"once", "twice"});
    const std::int64_t id = api.say(7, "Hi");
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "once");
        co_await t.manager->idle();
    });
    restart();
    add({"twice"});
    JsonObject update;
    update["message"] = api.message_of(7, 7, "Hi");
    update["update_id"] = id;
    api.add_raw_update(std::move(update));
    serve([](TelegramBot& t) -> Task<> {
        co_await t.clock->sleep_for(std::chrono::seconds(30));
        co_await t.manager->idle();
    });
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"once"});
}

TEST_F(TelegramBot, B18_AnAnswerOfUnknownFateIsSentAgainWithAMark) {
    add({"the answer"});
    api.fail("sendMessage", {Fault::cut_after});
    api.say(7, "Hi");
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "(sent again) the answer");
        co_await t.manager->idle();
    });
    EXPECT_EQ(api.texts(7), (std::vector<std::string>{"the answer", "(sent again) the answer"}));
}

TEST_F(TelegramBot, B18_AnAnswerThatCannotBeSentIsSentByTheNextProcess) {
    add({"the answer"});
    api.say(7, "Hi");
    api.on_call = [](const std::string& method, std::size_t) {
        return method == "sendMessage" ? Fault::cut_before : Fault::none;
    };
    serve([](TelegramBot& t) -> Task<> {
        while (t.api.count("sendMessage") < 3) co_await t.clock->sleep_for(std::chrono::seconds(1));
    });
    EXPECT_TRUE(api.texts(7).empty());
    api.on_call = nullptr;
    restart();
    add({"another answer"});
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "the answer");
        co_await t.manager->idle();
    });
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"(sent again) the answer"});
}

TEST_F(TelegramBot, B24_AQuestionIsAnsweredByAButtonAfterARestart) {
    add({test::calling("press")});
    api.say(7, "Press it");
    std::int64_t question = 0;
    serve([&](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(7, "Run press");
        question = asked.id;
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 0);
    restart();
    add({"All done."});
    // The question was asked in the chat of user 7, who may not approve it.
    api.press(7, question, 0, 0);
    serve([&](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "You may not answer");
        EXPECT_EQ(t.pressed, 0);
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 0);
}

TEST_F(TelegramBot, B25_AnOperatorApprovesWithAButtonInAGroup) {
    add({test::calling("press")});
    JsonObject message = api.message_of(7, -100, "@cubepi_bot press it");
    message["entities"] = JsonArray{JsonObject{{"type", "mention"}, {"offset", 0}, {"length", 11}}};
    JsonObject update;
    update["message"] = std::move(message);
    api.add_update(std::move(update));
    std::int64_t question = 0;
    serve([&](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(-100, "Run press");
        question = asked.id;
        co_await t.manager->idle();
    });
    restart();
    add({"All done."});
    serve([&](TelegramBot& t) -> Task<> {
        t.api.press(8, question, 0, 0);
        (void)co_await t.shown(-100, "You may not answer");
        EXPECT_EQ(t.pressed, 0);
        t.api.press(9, question, 0, 0);
        (void)co_await t.shown(-100, "All done.");
        co_await t.labelled(question, -100, "Approved: Ann");
        // The outcome is a button as well, and pressing it says so.
        t.api.press(9, question, 0, 0);
        while (t.api.notices().size() < 3) co_await t.clock->sleep_for(std::chrono::seconds(1));
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 1);
    EXPECT_NE(api.notices().at(2).find("does not wait"), std::string::npos);
    EXPECT_EQ(api.rejected, 0u) << api.last_rejection;
}

TEST_F(TelegramBot, B24_AnOptionIsChosenByAButton) {
    add({which_color(), "Teal it is."});
    api.say(7, "Paint it");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(7, "Which?");
        EXPECT_EQ(asked.markup.at("inline_keyboard").as_array().size(), 2u);
        t.api.press(7, asked.id, 1, 0);
        (void)co_await t.shown(7, "Teal it is.");
        co_await t.labelled(asked.id, 7, "Answered: Ann");
        co_await t.manager->idle();
    });
}

TEST_F(TelegramBot, B24_AReplyAnswersAQuestionAfterARestart) {
    add({which_color()});
    api.say(7, "Paint it");
    std::int64_t question = 0;
    serve([&](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(7, "Which?");
        question = asked.id;
        co_await t.manager->idle();
    });
    restart();
    add({"Teal it is."});
    api.add_update(reply_to(7, 7, question, "teal"));
    serve([&](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "Teal it is.");
        co_await t.manager->idle();
    });
}

TEST_F(TelegramBot, B24_CommandsAnswerWithTheShortKey) {
    add({test::calling("press"), "As you wish."});
    api.say(9, "Press it");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(9, "Run press");
        const std::size_t at = asked.text.find("/deny ") + 6;
        t.api.say(9, "/deny " + asked.text.substr(at, 10) + " not today");
        (void)co_await t.shown(9, "As you wish.");
        co_await t.labelled(asked.id, 9, "Denied");
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 0);
}

TEST_F(TelegramBot, AFailureOfTheModelReachesTheUser) {
    add({cubepi::faux_failure("overloaded")});
    api.say(7, "Hi");
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "overloaded");
        co_await t.manager->idle();
    });
}

}  // namespace
}  // namespace bub
