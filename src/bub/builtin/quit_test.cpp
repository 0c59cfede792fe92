// ,quit: an operator ends all activity of a session.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/channel/turn_shards.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/faux.hpp>

namespace bub {
namespace {

class Desk final : public Channel {
public:
    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token) override { co_return; }
    Task<> stop() override { co_return; }
    Task<> send(Envelope message) override {
        sent.push_back(message.chat_id.value_or("") + ": " + message.content_text());
        co_return;
    }

    std::vector<std::string> sent;

private:
    const std::string name_ = "desk";
};

Envelope from_operator(const std::string& chat, const std::string& text) {
    Envelope message(text);
    message.channel = "desk";
    message.chat_id = chat;
    message.from_operator = true;
    return message;
}

class Quit : public testing::Test {
public:
    Quit() {
        std::string name = (std::filesystem::temp_directory_path() / "bub-quit-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no directory for temporary files");
        root = name;
        FrameworkOptions options;
        options.workspace = root;
        framework = std::make_unique<Framework>(std::move(options));
        BuiltinOptions builtin;
        builtin.model = faux.model("scripted");
        builtin.tape_store = std::make_shared<MemoryTapeStore>();
        builtin.with_user_skills = false;
        builtin.channels = [this](ProvideChannelsCall& call) {
            handler = call.handler;
            std::vector<std::shared_ptr<Channel>> all{desk};
            return all;
        };
        framework->add(builtin_plugin(*framework, std::move(builtin)));
        manager = std::make_unique<ChannelManager>(*framework);
    }
    ~Quit() override {
        manager.reset();
        framework.reset();
        std::error_code ignored;
        std::filesystem::remove_all(root, ignored);
    }

    /// Waits, without a limit of its own, until the file of a command exists.
    Task<> until_exists(std::string file) {
        while (!std::filesystem::exists(root / file)) co_await cubepi::yield_now();
    }

    Task<> act(std::function<Task<>(Quit&)> script) {
        co_await script(*this);
        manager->request_stop();
    }
    Task<> together(std::function<Task<>(Quit&)> script) {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(manager->run());
        scope.spawn(act(std::move(script)));
        co_await scope.join();
    }
    void run(std::function<Task<>(Quit&)> script) { cubepi::run(together(std::move(script))); }

    std::filesystem::path root;
    cubepi::FauxProvider faux;
    std::shared_ptr<Desk> desk = std::make_shared<Desk>();
    std::unique_ptr<Framework> framework;
    std::unique_ptr<ChannelManager> manager;
    MessageHandler handler;
};

TEST_F(Quit, EndsTheTurnThatRunsAndWhatWaitsAndSaysSo) {
    run([](Quit& t) -> Task<> {
        co_await t.handler(from_operator("1", ",touch begun; sleep 1000; touch slept"));
        co_await t.handler(from_operator("1", ",touch waited"));
        co_await t.until_exists("begun");
        co_await t.handler(from_operator("1", ", quit "));
        co_await t.manager->idle();
    });
    EXPECT_EQ(desk->sent, std::vector<std::string>{"1: Session tasks stopped."});
    EXPECT_FALSE(std::filesystem::exists(root / "waited"));
}

TEST_F(Quit, KillsTheCommandsInTheBackground) {
    run([](Quit& t) -> Task<> {
        const std::string command = "echo $$ > pid; touch begun; exec sleep 1000";
        co_await t.handler(from_operator("1", ",shell command='" + command + "' background=true"));
        co_await t.until_exists("begun");
        pid_t pid = 0;
        std::ifstream(t.root / "pid") >> pid;
        EXPECT_EQ(kill(pid, 0), 0);
        co_await t.handler(from_operator("1", ",quit"));
        co_await t.manager->idle();
        while (kill(pid, 0) == 0) co_await cubepi::yield_now();
    });
    EXPECT_EQ(desk->sent.back(), "1: Session tasks stopped.");
}

TEST_F(Quit, TheEndOfTheManagerEndsCommandsInTheBackgroundOnAllThreads) {
    const auto make = [this] {
        FrameworkOptions options;
        options.workspace = root;
        auto made = std::make_unique<Framework>(std::move(options));
        BuiltinOptions builtin;
        builtin.model = faux.model("scripted");
        builtin.tape_store = std::make_shared<MemoryTapeStore>();
        builtin.with_user_skills = false;
        made->add(builtin_plugin(*made, std::move(builtin)));
        return made;
    };
    ChannelManagerOptions options;
    options.shards = std::make_shared<TurnShards>(2, make);
    manager.reset();
    manager = std::make_unique<ChannelManager>(*framework, std::move(options));
    run([](Quit& t) -> Task<> {
        co_await t.manager->started();
        const std::string command = "echo $$ > pid; touch begun; exec sleep 1000";
        co_await t.handler(from_operator("1", ",shell command='" + command + "' background=true"));
        co_await t.until_exists("begun");
        co_await t.manager->idle();
    });
    pid_t pid = 0;
    std::ifstream(root / "pid") >> pid;
    ASSERT_GT(pid, 0);
    manager.reset();  // waits for the threads
    while (kill(pid, 0) == 0) std::this_thread::yield();
}

TEST_F(Quit, LeavesOtherSessionsAlone) {
    run([](Quit& t) -> Task<> {
        co_await t.handler(
            from_operator("2", ",touch other; while [ ! -e go ]; do sleep 0.02; done; echo done"));
        co_await t.until_exists("other");
        co_await t.handler(from_operator("1", ",quit"));
        while (t.desk->sent.empty()) co_await cubepi::yield_now();
        EXPECT_TRUE(t.manager->snapshot("desk:2").is_running);
        std::ofstream(t.root / "go") << "now";
        co_await t.manager->idle();
    });
    const std::vector<std::string> expected = {"1: Session tasks stopped.", "2: done"};
    EXPECT_EQ(desk->sent, expected);
}

TEST_F(Quit, B11_ASenderWhoIsNotAnOperatorEndsNothing) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back("what do you mean by quit?");
    faux.set_responses(std::move(steps));
    run([](Quit& t) -> Task<> {
        co_await t.handler(
            from_operator("1", ",touch begun; while [ ! -e go ]; do sleep 0.02; done; echo done"));
        co_await t.until_exists("begun");
        Envelope stranger = from_operator("1", ",quit");
        stranger.from_operator = false;
        co_await t.handler(std::move(stranger));
        std::ofstream(t.root / "go") << "now";
        co_await t.manager->idle();
    });
    const std::vector<std::string> expected = {"1: done", "1: what do you mean by quit?"};
    EXPECT_EQ(desk->sent, expected);
}

}  // namespace
}  // namespace bub
