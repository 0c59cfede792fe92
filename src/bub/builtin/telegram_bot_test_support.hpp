#pragma once

#include <bub/builtin/builtin_test_support.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <support/fake_bot_api.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {

using telegram::FakeMessage;
using telegram::Fault;

struct NoArgs {};

/// A delivery log that counts the calls in progress.
class CountingLog final : public DeliveryLog, public PlansAnswers {
public:
    CountingLog(FileDeliveryLogOptions options, std::shared_ptr<int> calls)
        : log_(std::move(options)), calls_(std::move(calls)) {}

    Task<std::optional<std::string>> receive(Envelope message) override {
        return counted(log_.receive(std::move(message)));
    }
    Task<> begin(std::vector<std::string> ids) override {
        return counted(log_.begin(std::move(ids)));
    }
    Task<> put_back(std::vector<std::string> ids) override {
        return counted(log_.put_back(std::move(ids)));
    }
    Task<> finish(std::vector<std::string> ids) override {
        return counted(log_.finish(std::move(ids)));
    }
    Task<std::vector<StoredInbound>> unfinished() override { return counted(log_.unfinished()); }
    Task<std::string> intend(Envelope message, std::vector<std::string> answers) override {
        return counted(log_.intend(std::move(message), std::move(answers)));
    }
    Task<> plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers) override {
        return counted(log_.plan(std::move(outputs), std::move(answers)));
    }
    Task<std::string> intend_output(TurnOutput output, std::vector<std::string> answers) override {
        return counted(log_.intend_output(std::move(output), std::move(answers)));
    }
    Task<> resend(std::string id) override { return counted(log_.resend(std::move(id))); }
    Task<> sent(std::string id) override { return counted(log_.sent(std::move(id))); }
    Task<> failed(std::string id, std::string reason) override {
        return counted(log_.failed(std::move(id), std::move(reason)));
    }
    Task<std::vector<Delivery>> unsettled() override { return counted(log_.unsettled()); }

private:
    template <class T>
    Task<T> counted(Task<T> call) {
        return count(calls_, std::move(call));
    }
    template <class T>
    static Task<T> count(std::shared_ptr<int> calls, Task<T> call) {
        struct Guard {
            explicit Guard(int& number) : number_(number) { ++number_; }
            ~Guard() { --number_; }
            int& number_;
        };
        const Guard guard(*calls);
        co_return co_await std::move(call);
    }

    FileDeliveryLog log_;
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

    static Task<cubepi::PolicyDecision> ask(const cubepi::BeforeToolCallContext& call) {
        if (call.tool_call.name == "press") co_return cubepi::PolicyDecision(cubepi::AskUser());
        co_return cubepi::PolicyDecision(cubepi::Approve());
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
        if (*writes == 0 && jobs.running == 0 && jobs.queued == 0) return clock->advance_to_next();
        // A job counts until shortly after its caller was woken: waiting for an event could be without end.
        std::this_thread::yield();
        return true;
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

}  // namespace bub
