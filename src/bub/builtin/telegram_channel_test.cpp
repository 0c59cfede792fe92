// The channel `telegram` with the manager and the builtin agent.

#include <bub/builtin/builtin_test_support.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/telegram/fake_bot_api.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

using telegram::FakeMessage;
using telegram::Fault;

struct NoArgs {};

class TelegramBot : public test::Builtin {
public:
    using Script = std::function<Task<>(TelegramBot&)>;

    TelegramBot() {
        for (const std::int64_t chat : {7, 8, 9, -100}) api.add_chat(chat);
        extra_tools.push_back(cubepi::tool<NoArgs>("press", "Presses the button.", [this](NoArgs) {
            ++pressed;
            return "pressed";
        }));
        restart();
    }

    static Task<cubepi::PolicyDecision> ask(const cubepi::BeforeToolCallContext& call) {
        if (call.tool_call.name == "press") co_return cubepi::PolicyDecision(cubepi::AskUser());
        co_return cubepi::PolicyDecision(cubepi::Approve());
    }

    /// Another process with the same files.
    void restart() {
        deliveries.reset();
        FrameworkOptions options;
        options.runtime = std::make_shared<const cubepi::Runtime>(
            cubepi::Runtime().with_clock(clock).with_transport(api.transport()));
        make_framework(std::move(options));
        FileDeliveryLogOptions log;
        log.directory = root / "deliveries";
        log.clock = clock;
        deliveries = std::make_shared<FileDeliveryLog>(std::move(log));
    }

    void add(std::vector<cubepi::FauxStep> steps) {
        BuiltinOptions options;
        TurnQuestions questions;
        questions.policy = ask;
        options.questions = std::move(questions);
        options.channels = [this](ProvideChannelsCall& call) {
            TelegramChannelOptions made;
            made.token = api.token();
            made.users = {"7", "8"};
            made.operators = {"9"};
            made.chats = {"-100"};
            made.shows_progress = shows_progress;
            made.runtime = call.framework.runtime();
            made.on_warning = [this](const std::string& text) { warnings += text + "\n"; };
            return std::vector<std::shared_ptr<Channel>>{
                std::make_shared<TelegramChannel>(std::move(made), call.handler)};
        };
        add_builtin(std::move(steps), std::move(options));
    }

    /// Runs `script` while a manager serves the channel.
    void serve(Script script) {
        ChannelManagerOptions options;
        options.stream_output = true;
        options.deliveries = deliveries;
        options.on_warning = [this](const std::string& text) { warnings += text + "\n"; };
        manager = std::make_unique<ChannelManager>(*framework, std::move(options));
        cubepi::testing::run_advancing(*clock, together(*this, std::move(script)));
        manager.reset();
    }

    /// Waits for a message of the bot that contains the words.
    Task<FakeMessage> shown(std::int64_t chat, std::string words) {
        while (true) {
            for (const FakeMessage& message : api.messages(chat)) {
                if (message.text.find(words) != std::string::npos) co_return message;
            }
            co_await clock->sleep_for(std::chrono::milliseconds(100));
        }
    }
    /// Waits until the first button of a message has this label.
    Task<> labelled(std::int64_t message_id, std::int64_t chat, std::string words) {
        while (true) {
            for (const FakeMessage& message : api.messages(chat)) {
                if (message.id == message_id &&
                    boost::json::serialize(message.markup).find(words) != std::string::npos)
                    co_return;
            }
            co_await clock->sleep_for(std::chrono::milliseconds(100));
        }
    }
    static cubepi::AssistantMessage which_color() {
        JsonArray options;
        for (const char* color : {"red", "teal"})
            options.emplace_back(
                JsonObject{{"label", std::string("Paint it ") + color}, {"value", color}});
        JsonObject question{{"key", "color"}, {"prompt", "Which?"}};
        question["options"] = std::move(options);
        return test::calling("ask_user", {{"questions", JsonArray{std::move(question)}}});
    }
    JsonObject reply_to(std::int64_t user, std::int64_t chat, std::int64_t message_id,
                        std::string text) {
        JsonObject message = api.message_of(user, chat, std::move(text));
        message["reply_to_message"] = api.shown_message(message_id);
        JsonObject update;
        update["message"] = std::move(message);
        return update;
    }

    std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    telegram::FakeBotApi api{clock};
    std::shared_ptr<DeliveryLog> deliveries;
    std::unique_ptr<ChannelManager> manager;
    std::string warnings;
    int pressed = 0;
    bool shows_progress = false;  ///< while a disk is written to, the clock advances

private:
    static Task<> together(TelegramBot& test, Script script) {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(test.manager->run());
        scope.spawn(act(test, std::move(script)));
        co_await scope.join();
    }
    static Task<> act(TelegramBot& test, Script script) {
        co_await test.manager->started();
        const cubepi::Outcome<> done = co_await cubepi::outcome_of(script(test));
        test.manager->request_stop();
        done.rethrow();
    }
};

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
