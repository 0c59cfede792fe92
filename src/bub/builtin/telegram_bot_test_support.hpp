#pragma once

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

using telegram::FakeMessage;
using telegram::Fault;

struct NoArgs {};

/// A bot: the channel `telegram` with the manager, the builtin agent, files, and a service in memory.
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

}  // namespace bub
