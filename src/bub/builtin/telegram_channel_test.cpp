// The channel `telegram` with the manager and the builtin agent; also when the process is killed at each call of the Bot API, before and
// after the service has executed it, and started again.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <support/fake_bot_api.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

using telegram::FakeMessage;
using telegram::Fault;
namespace fs = std::filesystem;

struct NoArgs {};

/// A delivery log that counts the calls in progress.
class CountingLog final : public FileDeliveryLog {
public:
    CountingLog(FileDeliveryLogOptions options, std::shared_ptr<int> calls)
        : FileDeliveryLog(std::move(options)), calls_(std::move(calls)) {}

protected:
    Task<> perform(std::shared_ptr<detail::DeliveryStep> step) override {
        return count(calls_, FileDeliveryLog::perform(std::move(step)));
    }

private:
    static Task<> count(std::shared_ptr<int> calls, Task<> call) {
        struct Guard {
            explicit Guard(int& number) : number_(number) { ++number_; }
            ~Guard() { --number_; }
            int& number_;
        };
        const Guard guard(*calls);
        co_await std::move(call);
    }

    const std::shared_ptr<int> calls_;
};

/// A bot: the channel `telegram` with the manager, the builtin agent, files, and a service in memory.
class TelegramBot : public test::Builtin {
public:
    using Script = std::function<Task<>(TelegramBot&)>;

    TelegramBot() {
        for (const std::int64_t chat : {7, 8, 9, -100}) api.add_chat(chat);
        extra_tools.push_back(cubepi::tool<NoArgs>("press", "Presses the button.", [this](NoArgs) {
            if (!is_dead) ++pressed;
            return "pressed";
        }));
        restart();
    }

    static Task<cubepi::ApprovalDecision> ask(const cubepi::BeforeToolCallContext& call) {
        if (call.tool_call.name == "press") co_return cubepi::ApprovalDecision(cubepi::AskUser());
        co_return cubepi::ApprovalDecision(cubepi::Approve());
    }

    /// Another process with the same files.
    void restart() {
        deliveries.reset();
        FrameworkOptions options;
        options.runtime = std::make_shared<const cubepi::Runtime>(
            cubepi::Runtime().with_clock(clock).with_workers(workers).with_transport(
                api.transport()));
        make_framework(std::move(options));
        FileDeliveryLogOptions log;
        log.directory = root / "deliveries";
        log.clock = clock;
        deliveries = std::make_shared<CountingLog>(std::move(log), writes);
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
        cubepi::detail::run_blocking(together(*this, std::move(script)),
                                     [this] { return advance(); });
        manager.reset();
    }
    /// Advances the clock if nothing waits for a disk.
    bool advance() {
        const cubepi::WorkerPool::Stats jobs = workers->stats();
        if (*writes == 0 && jobs.running == 0 && jobs.queued == 0) {
            // A job that has ended meanwhile has posted its completion.
            return cubepi::this_thread_context().poll() > 0 || clock->advance_to_next();
        }
        // A job counts until shortly after its caller was woken: waiting for an event could be without end.
        std::this_thread::yield();
        return true;
    }

    /// Sends a message to the bot in the group, and returns its number.
    std::int64_t say_in_group(std::int64_t user, const std::string& text) {
        JsonObject message = api.message_of(user, -100, "@cubepi_bot " + text);
        const auto id = message.at("message_id").to_number<std::int64_t>();
        message["entities"] =
            JsonArray{JsonObject{{"type", "mention"}, {"offset", 0}, {"length", 11}}};
        JsonObject update;
        update["message"] = std::move(message);
        api.add_update(std::move(update));
        return id;
    }
    /// Waits for a message of the bot that contains the words.
    Task<FakeMessage> shown(std::int64_t chat, std::string words) {
        for (int tries = 0; tries < max_tries; ++tries) {
            for (const FakeMessage& message : api.messages(chat)) {
                if (message.text.find(words) != std::string::npos) co_return message;
            }
            co_await clock->sleep_for(std::chrono::milliseconds(100));
        }
        throw std::runtime_error("no message has the text " + words + state_of(chat));
    }
    /// Waits until the first button of a message has this label.
    Task<> labelled(std::int64_t message_id, std::int64_t chat, std::string words) {
        for (int tries = 0; tries < max_tries; ++tries) {
            for (const FakeMessage& message : api.messages(chat)) {
                if (message.id == message_id &&
                    boost::json::serialize(message.markup).find(words) != std::string::npos)
                    co_return;
            }
            co_await clock->sleep_for(std::chrono::milliseconds(100));
        }
        throw std::runtime_error("no button has the label " + words + state_of(chat));
    }
    /// Describes a chat, for failures.
    std::string state_of(std::int64_t chat) const {
        std::string text = "; chat " + std::to_string(chat) + ":";
        for (const FakeMessage& message : api.messages(chat))
            text += "\n  " + message.text + " " + boost::json::serialize(message.markup);
        for (const std::string& notice : api.notices()) text += "\n  notice: " + notice;
        return text + "\n" + warnings;
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
    std::shared_ptr<cubepi::WorkerPool> workers = std::make_shared<cubepi::WorkerPool>(2);
    std::shared_ptr<int> writes = std::make_shared<int>(0);
    static constexpr int max_tries = 20'000;  ///< of the waits, in tenths of a second
    int pressed = 0;
    bool is_dead = false;  ///< the process counts as killed, and its actions are ignored
    bool shows_progress = false;

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

TEST_F(TelegramBot, Message_IsAnswered) {
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

TEST_F(TelegramBot, D87_AnswerThatIsNotComplete_IsReported) {
    add({cubepi::faux_assistant_message("", "stop"),
         cubepi::faux_assistant_message("Half", "abort")});
    serve([](TelegramBot& t) -> Task<> {
        t.api.say(7, "Hi");
        (void)co_await t.shown(7, "an empty answer");
        t.api.say(7, "Again");
        (void)co_await t.shown(7, "'abort'");
        co_await t.manager->idle();
    });
    const std::vector<std::string> shown = api.texts(7);
    ASSERT_EQ(shown.size(), 3u) << state_of(7);
    EXPECT_EQ(shown[1], "Half");
    EXPECT_EQ(warnings, "");
}

TEST_F(TelegramBot, AnswerShownDuringGeneration_IsNotDoubled) {
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

TEST_F(TelegramBot, B18_UpdateDeliveredTwice_IsOneMessage) {
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

TEST_F(TelegramBot, B18_AnswerOfUnknownFate_IsResentWithMark) {
    add({"the answer"});
    api.fail("sendMessage", {Fault::cut_after});
    api.say(7, "Hi");
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "(sent again) the answer");
        co_await t.manager->idle();
    });
    EXPECT_EQ(api.texts(7), (std::vector<std::string>{"the answer", "(sent again) the answer"}));
}

TEST_F(TelegramBot, B18_UnsendableAnswer_IsSentByNextProcess) {
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

TEST_F(TelegramBot, B18_AnswerThatOnlyWaited_HasNoMark) {
    for (const bool was_cut_off : {false, true}) {
        add({"the answer", "the answer"});
        // The first request certainly failed; the second may have arrived.
        int requests = 0;
        api.on_call = [was_cut_off, &requests](const std::string& method, std::size_t) {
            if (method != "sendMessage") return Fault::none;
            return ++requests > 1 && was_cut_off ? Fault::cut_before : Fault::too_many;
        };
        api.say(was_cut_off ? 8 : 7, "Hi");
        serve([&](TelegramBot& t) -> Task<> {
            while (requests < 2) co_await t.clock->sleep_for(std::chrono::seconds(1));
        });
        api.on_call = nullptr;
        restart();
        add({"another answer"});
        serve([&](TelegramBot& t) -> Task<> {
            (void)co_await t.shown(was_cut_off ? 8 : 7, "the answer");
            co_await t.manager->idle();
        });
        restart();
    }
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"the answer"});
    EXPECT_EQ(api.texts(8), std::vector<std::string>{"(sent again) the answer"});
}

TEST_F(TelegramBot, B25_QuestionOfPrivateChat_GoesToTheOperator) {
    add({test::calling("press")});
    api.say(7, "Press it");
    std::int64_t question = 0;
    serve([&](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(9, "Run press");
        EXPECT_TRUE(asked.text.starts_with("Ann asks in a private chat:")) << asked.text;
        question = asked.id;
        const FakeMessage told = co_await t.shown(7, "An operator was asked to approve this");
        EXPECT_TRUE(told.markup.empty());
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 0);
    restart();
    add({"All done."});
    api.press(9, question, 0, 0);
    serve([&](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "All done.");
        co_await t.labelled(question, 9, "Approved: Ann");
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 1);
    EXPECT_EQ(api.texts(9).size(), 1u) << state_of(9);
}

TEST_F(TelegramBot, B25_ReplyOfOperator_DeniesInTheOtherChat) {
    add({test::calling("press"), "As you wish."});
    api.say(7, "Press it");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(9, "Run press");
        t.api.add_update(t.reply_to(9, 9, asked.id, "no"));
        (void)co_await t.shown(7, "As you wish.");
        co_await t.labelled(asked.id, 9, "Denied");
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 0);
}

TEST_F(TelegramBot, B25_Requester_WithdrawsTheQuestion) {
    add({test::calling("press"), "Something else it is.", "Hello."});
    api.say(7, "Press it");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(9, "Run press");
        t.api.say(7, "something else");
        (void)co_await t.shown(7, "Your message is read after this question is answered");
        t.api.say(7, "/abandon");
        (void)co_await t.shown(7, "The question was withdrawn.");
        co_await t.labelled(asked.id, 9, "Withdrawn");
        (void)co_await t.shown(7, "Something else it is.");
        t.api.say(7, "hi");
        (void)co_await t.shown(7, "Hello.");
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 0);
}

TEST_F(TelegramBot, Reminder_HasTheButtonsOfTheQuestion) {
    add({test::calling("press"), "All done.", "Now the other."});
    api.say(9, "Press it");
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(9, "Run press");
        t.api.say(9, "something else");
        const FakeMessage reminder = co_await t.shown(9, "Your message is read after");
        t.api.press(9, reminder.id, 0, 0);
        (void)co_await t.shown(9, "All done.");
        co_await t.labelled(reminder.id, 9, "Approved");
        (void)co_await t.shown(9, "Now the other.");
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 1);
}

TEST_F(TelegramBot, B25_UnreachableOperator_AsksInTheSameChat) {
    api.fail("sendMessage", {Fault::forbidden});
    add({test::calling("press")});
    api.say(7, "Press it");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(7, "Run press");
        EXPECT_FALSE(asked.markup.empty());
        co_await t.manager->idle();
    });
    EXPECT_NE(warnings.find("no operator could be asked"), std::string::npos) << warnings;
}

TEST_F(TelegramBot, B25_OperatorButtonInGroup_ApprovesTheCall) {
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
    constexpr std::size_t refused = 60;
    serve([&](TelegramBot& t) -> Task<> {
        // Refused presses take no place in the queue.
        for (std::size_t i = 0; i < refused; ++i) t.api.press(8, question, 0, 0);
        // The second press arrives when the question is answered.
        t.api.press(9, question, 0, 0);
        t.api.press(9, question, 0, 0);
        (void)co_await t.shown(-100, "All done.");
        co_await t.labelled(question, -100, "Approved: Ann");
        // The outcome is a button as well, and pressing it says so.
        t.api.press(9, question, 0, 0);
        while (t.api.notices().size() < refused + 3)
            co_await t.clock->sleep_for(std::chrono::seconds(1));
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 1);
    const std::vector<std::string> notices = api.notices();
    EXPECT_EQ(std::count_if(notices.begin(), notices.end(),
                            [](const std::string& text) {
                                return text.starts_with("You may not answer this question");
                            }),
              static_cast<std::ptrdiff_t>(refused));
    EXPECT_EQ(api.texts(-100).size(), 2u) << state_of(-100);
    EXPECT_NE(notices.back().find("does not wait"), std::string::npos);
    EXPECT_EQ(api.rejected, 0u) << api.last_rejection;
}

/// All calls of the endpoint have the same id.
TEST_F(TelegramBot, D83_DoubleTap_AnswersItsOwnQuestionOnly) {
    add({test::calling("press"), test::calling("press"), "All done."});
    api.say(9, "Press it twice");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage first = co_await t.shown(9, "Run press");
        t.api.press(9, first.id, 0, 0);
        t.api.press(9, first.id, 0, 0);
        t.api.add_update(t.reply_to(9, 9, first.id, "yes"));
        (void)co_await t.shown(9, "is not the name of one question");
        co_await t.manager->idle();
        EXPECT_EQ(t.pressed, 1);
        std::int64_t second = 0;
        for (const FakeMessage& one : t.api.messages(9))
            if (one.id != first.id && one.text.starts_with("Run press")) second = one.id;
        t.api.press(9, second, 0, 0);
        (void)co_await t.shown(9, "All done.");
        co_await t.labelled(first.id, 9, "Approved");
        co_await t.labelled(second, 9, "Approved");
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 2);
}

TEST_F(TelegramBot, D83_TextThatLooksLikeCard_IsNone) {
    add({"Sure.\nQuestion 0123456789 (approval)", "A plain answer."});
    api.say(9, "Hi");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage text = co_await t.shown(9, "Sure.");
        t.api.add_update(t.reply_to(9, 9, text.id, "yes"));
        (void)co_await t.shown(9, "A plain answer.");
        co_await t.manager->idle();
    });
}

TEST_F(TelegramBot, B24_WithdrawButton_WithdrawsTheQuestion) {
    JsonObject question{{"key", "name"}, {"prompt", "Which name?"}};
    add({test::calling("ask_user", {{"questions", JsonArray{std::move(question)}}})});
    api.say(7, "Name it");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(7, "Which name?");
        t.api.press(7, asked.id, 0, 0);
        (void)co_await t.shown(7, "The question was withdrawn.");
        co_await t.manager->idle();
    });
}

TEST_F(TelegramBot, AnswersInGroup_AreReplies) {
    for (const bool shown_live : {false, true}) {
        restart();
        shows_progress = shown_live;
        add({test::calling("press"), "All done."});
        const std::int64_t id = say_in_group(7, "press it");
        serve([&](TelegramBot& t) -> Task<> {
            const FakeMessage asked = co_await t.shown(-100, "Run press");
            EXPECT_EQ(asked.reply_to, id);
            t.api.add_update(t.reply_to(9, -100, asked.id, "yes"));
            const FakeMessage done = co_await t.shown(-100, "All done.");
            EXPECT_NE(done.reply_to, 0) << "the reply of the operator";
            co_await t.manager->idle();
            t.api.delete_message(asked.id);
            t.api.delete_message(done.id);
        });
    }
}

TEST_F(TelegramBot, D288_RejectedMessage_LeavesReplyToItsTurn) {
    cubepi::AsyncEvent over;
    add({[&over](const cubepi::ModelRequest&) -> Task<cubepi::AssistantMessage> {
        co_await over.wait();
        co_return faux_assistant_message("For the first.");
    }});
    Plugin refusing;
    refusing.name = "refusing";
    refusing.admit_message = [](AdmitMessageCall& call) -> std::optional<AdmitDecision> {
        if (call.turn.is_running) throw std::runtime_error("not now");
        return std::nullopt;
    };
    framework->add(std::move(refusing));
    const std::int64_t id = say_in_group(7, "Hi");
    serve([&](TelegramBot& t) -> Task<> {
        while (!t.manager->snapshot("telegram:-100").is_running)
            co_await t.clock->sleep_for(std::chrono::milliseconds(100));
        t.say_in_group(8, "Me, too");
        const FakeMessage refused = co_await t.shown(-100, "not now");
        EXPECT_EQ(refused.reply_to, 0);
        over.set();
        const FakeMessage done = co_await t.shown(-100, "For the first.");
        EXPECT_EQ(done.reply_to, id);
        co_await t.manager->idle();
    });
}

TEST_F(TelegramBot, B24_Button_ChoosesAnOption) {
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

TEST_F(TelegramBot, B24_ReplyAfterRestart_AnswersTheQuestion) {
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

TEST_F(TelegramBot, B24_ForwardedTexts_DoNotAnswer) {
    std::string answer;
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(which_color());
    steps.emplace_back([&answer](const cubepi::ModelRequest& request) {
        answer = request.messages.back().text();
        return cubepi::faux_assistant_message("Teal it is.");
    });
    for (int turn = 0; turn < 2; ++turn) steps.emplace_back("Seen.");
    add(std::move(steps));
    api.say(7, "Paint it");
    serve([](TelegramBot& t) -> Task<> {
        const FakeMessage asked = co_await t.shown(7, "Which?");
        std::vector<JsonObject> updates = {t.reply_to(7, 7, asked.id, "red"), JsonObject()};
        updates[1]["message"] = t.api.message_of(7, 7, "red");
        for (JsonObject& update : updates) {
            update.at("message").as_object()["forward_origin"] =
                JsonObject{{"type", "hidden_user"}, {"sender_user_name", "Eve"}};
            t.api.add_update(std::move(update));
        }
        (void)co_await t.shown(7, "Your message is read after this question");
        t.api.say(7, "teal");
        (void)co_await t.shown(7, "Teal it is.");
        (void)co_await t.shown(7, "Seen.");
        co_await t.manager->idle();
    });
    EXPECT_NE(answer.find("teal"), std::string::npos) << answer;
}

TEST_F(TelegramBot, B11_ForwardedCommand_ReachesTheModel) {
    add({"That is a command."});
    JsonObject update;
    update["message"] = api.message_of(9, 9, ",touch made");
    update.at("message").as_object()["forward_origin"] = JsonObject{{"type", "channel"}};
    api.add_update(std::move(update));
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(9, "That is a command.");
        co_await t.manager->idle();
    });
    EXPECT_FALSE(fs::exists(root / "work" / "made"));
}

TEST_F(TelegramBot, B24_CommandsWithShortKey_AnswerTheQuestion) {
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

TEST_F(TelegramBot, ModelFailure_ReachesTheUser) {
    add({cubepi::faux_failure("overloaded")});
    api.say(7, "Hi");
    serve([](TelegramBot& t) -> Task<> {
        (void)co_await t.shown(7, "overloaded");
        co_await t.manager->idle();
    });
}

/// A death of the process at a call.
struct Death {
    std::size_t call = 0;  ///< the number of the call, from 0
    Fault fault = Fault::none;
};

class TelegramCrash : public TelegramBot {
public:
    /// From now on, the process dies at this call: what its files have then is what the next process finds, and none of its later
    /// calls reaches the service.
    void die_at(Death death) {
        calls_ = 0;
        is_dead = false;
        api.on_call = [this, death](const std::string&, std::size_t) {
            if (is_dead) return Fault::cut_before;
            if (calls_++ != death.call) return Fault::none;
            is_dead = true;
            take_snapshot();
            return death.fault;
        };
    }
    bool died() const { return is_dead; }

    /// Starts the next process with the files of the dead one.
    void start_again(std::vector<cubepi::FauxStep> steps) {
        manager.reset();
        framework.reset();
        deliveries.reset();
        wait_for_jobs();
        if (is_dead) copy_files(root / "snapshot", root);
        api.on_call = nullptr;
        is_dead = false;
        restart();
        add(std::move(steps));
    }
    /// Waits until the condition holds or the process is dead.
    Task<> until(std::function<bool()> condition) {
        while (!is_dead && !condition()) co_await clock->sleep_for(std::chrono::milliseconds(100));
    }
    std::size_t count_texts(std::int64_t chat, std::string_view text) const {
        const std::vector<std::string> all = api.texts(chat);
        return static_cast<std::size_t>(std::count(all.begin(), all.end(), text));
    }
    std::string description(Death death) const {
        std::string text = "killed at call " + std::to_string(death.call) +
                           (death.fault == Fault::cut_before ? ", before" : ", after");
        for (const std::int64_t chat : {7, 8, 9}) {
            for (const std::string& one : api.texts(chat)) text += "\n  " + one;
        }
        return text + "\n" + warnings;
    }

private:
    /// Waits for the jobs of the dead process, which would write into the files of the next one.
    void wait_for_jobs() const {
        for (;;) {
            const cubepi::WorkerPool::Stats jobs = workers->stats();
            if (jobs.running == 0 && jobs.queued == 0) return;
            std::this_thread::yield();
        }
    }
    /// The loop stands still meanwhile. A job that changes several files is over before: a copy made file by file while it writes could
    /// have a later change without an earlier one. The log of deliveries is a single file, whose last line may be cut.
    void take_snapshot() {
        wait_for_jobs();
        for (int tries = 0;; ++tries) {
            try {
                copy_files(root, root / "snapshot");
                return end_owners(root / "snapshot" / "home");
            } catch (const fs::filesystem_error&) {
                if (tries == 100) throw;
            }
        }
    }
    /// The runs in the files belong to this process, which is alive: their owner becomes a process of the same id that started earlier.
    static void end_owners(const fs::path& directory) {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
            if (entry.path().extension() != ".state") continue;
            std::ifstream in(entry.path());
            std::string text((std::istreambuf_iterator<char>(in)),
                             std::istreambuf_iterator<char>());
            const std::string name = "\"process_start\": ";
            for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at)) {
                at += name.size();
                text.replace(at, text.find_first_not_of("0123456789", at) - at, "1");
            }
            std::ofstream(entry.path()) << text;
        }
    }
    static void copy_files(const fs::path& from, const fs::path& to) {
        fs::create_directories(to);
        for (const char* directory : {"deliveries", "home"}) {
            fs::remove_all(to / directory);
            if (fs::exists(from / directory))
                fs::copy(from / directory, to / directory, fs::copy_options::recursive);
        }
    }

    std::size_t calls_ = 0;
};

/// A model that presses the button until it was pressed.
std::vector<cubepi::FauxStep> pressing() {
    const auto step = [](const cubepi::MessageList& messages, const cubepi::Model&) {
        const bool was_pressed = !messages.empty() && messages.back().tool_result() != nullptr;
        return was_pressed ? cubepi::faux_assistant_message("All done.") : test::calling("press");
    };
    return std::vector<cubepi::FauxStep>(8, cubepi::FauxStep(step));
}

/// Each death in a test of its own: the files, the service and the chat start from scratch.
std::vector<Death> deaths() {
    std::vector<Death> all;
    for (std::size_t call = 0; call < 16; ++call) {
        all.push_back({call, Fault::cut_before});
        all.push_back({call, Fault::cut_after});
    }
    return all;
}

class TelegramCrashAt : public TelegramCrash, public testing::WithParamInterface<Death> {};

TEST_P(TelegramCrashAt, B18_Crash_AnswersEachMessageOnceOrMarked) {
    add(std::vector<cubepi::FauxStep>(8, "the answer"));
    api.say(7, "one");
    api.say(8, "two");
    die_at(GetParam());
    const auto answered = [this] { return api.texts(7).size() >= 1 && api.texts(8).size() >= 1; };
    serve([&](TelegramBot&) { return until(answered); });
    start_again(std::vector<cubepi::FauxStep>(8, "the answer"));
    serve([&](TelegramBot& t) -> Task<> {
        for (int tries = 0; tries < max_tries && !answered(); ++tries)
            co_await t.clock->sleep_for(std::chrono::milliseconds(100));
        EXPECT_TRUE(answered()) << description(GetParam());
        // The records of the killed process are settled before.
        co_await t.clock->sleep_for(std::chrono::seconds(60));
        co_await t.manager->idle();
    });
    for (const std::int64_t chat : {7, 8}) {
        EXPECT_EQ(
            count_texts(chat, "the answer") +
                (api.texts(chat).size() == 1 ? count_texts(chat, "(sent again) the answer") : 0),
            1u)
            << description(GetParam());
        EXPECT_LE(api.texts(chat).size(), 2u) << description(GetParam());
    }
    EXPECT_TRUE(cubepi::run(deliveries->unsettled()).empty()) << description(GetParam());
    EXPECT_TRUE(cubepi::run(deliveries->unfinished()).empty()) << description(GetParam());
}

TEST_P(TelegramCrashAt, B24_Crash_RunsAnApprovedToolOnce) {
    add(pressing());
    api.say(9, "Press it");
    const auto ask_until_done = [this](bool dies) -> Task<> {
        std::int64_t pressed_button = 0;
        int tries = 0;
        while (api.texts(9).empty() ||
               count_texts(9, "All done.") + count_texts(9, "(sent again) All done.") == 0) {
            if (dies && died()) co_return;
            if (++tries == max_tries) throw std::runtime_error(description(GetParam()));
            for (const FakeMessage& message : api.messages(9)) {
                const bool is_open = message.text.find("Run press") != std::string::npos &&
                                     !message.markup.empty() && message.id > pressed_button;
                if (!is_open) continue;
                pressed_button = message.id;
                if (boost::json::serialize(message.markup).find("\"over\"") == std::string::npos)
                    api.press(9, message.id, 0, 0);
            }
            co_await clock->sleep_for(std::chrono::milliseconds(500));
        }
    };
    die_at(GetParam());
    serve([&](TelegramBot&) { return ask_until_done(true); });
    start_again(pressing());
    serve([&](TelegramBot& t) -> Task<> {
        co_await ask_until_done(false);
        co_await t.clock->sleep_for(std::chrono::seconds(60));
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 1) << description(GetParam());
    EXPECT_LE(count_texts(9, "All done."), 1u) << description(GetParam());
}

INSTANTIATE_TEST_SUITE_P(, TelegramCrashAt, testing::ValuesIn(deaths()), [](const auto& info) {
    return (info.param.fault == Fault::cut_before ? "Before" : "After") +
           std::to_string(info.param.call);
});

}  // namespace
}  // namespace bub
