// Turns on threads of their own, with the channels on the manager's thread.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/turn_shards.hpp>
#include <bub/questions.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

std::string here() {
    const std::size_t hash = std::hash<std::thread::id>()(std::this_thread::get_id());
    return std::to_string(hash);
}

/// A channel that records the events of its streams, and marks them.
class MarkingChannel final : public TestChannel {
public:
    MarkingChannel() : TestChannel("chat") {}

    EventStream stream_events(const Envelope& message, EventStream stream) override {
        if (on_stream == Trouble::fails) throw std::runtime_error("no stream");
        chats.push_back(message.chat_id.value_or(""));
        auto mark = [this](StreamEvent event) {
            threads.insert(here());
            const std::string delta(event.delta());
            streamed.push_back(delta);
            return std::optional<StreamEvent>(StreamEvent::text("<" + delta + ">"));
        };
        return EventStream::map(std::move(stream), mark);
    }
    Task<> send(Envelope message) override {
        threads.insert(here());
        co_await TestChannel::send(std::move(message));
    }

    Trouble on_stream = Trouble::none;
    Texts chats;
    Texts streamed;
    std::set<std::string> threads;
};

/// A source of `count` texts that counts how many were read.
class CountingSource final : public EventSource {
public:
    CountingSource(std::atomic<std::size_t>& counter, std::size_t count)
        : counter_(counter), count_(count) {}
    Task<std::optional<StreamEvent>> next() override {
        co_await cubepi::yield_now();
        std::optional<StreamEvent> event;
        if (counter_ < count_) event = StreamEvent::text(std::to_string(counter_++));
        co_return event;
    }

private:
    std::atomic<std::size_t>& counter_;
    const std::size_t count_;
};

/// A manager with shards, whose model is a function of the test.
class ShardedTest : public ::testing::Test {
public:
    using Model = std::function<Task<EventStream>(RunModelCall&)>;

    ShardedTest() {
        Plugin plugin;
        plugin.name = "front";
        plugin.provide_channels = [this](ProvideChannelsCall& call) {
            handler = call.handler;
            return std::vector<std::shared_ptr<Channel>>{channel};
        };
        plugin.provide_steering_inbox = [this](ProvideCall&) { return inbox; };
        framework.add(std::move(plugin));
        options.stream_output = true;
        model = [](RunModelCall& call) -> Task<EventStream> {
            co_return EventStream::of_text("re: " + call.prompt.text());
        };
    }

    std::unique_ptr<Framework> make() {
        auto made = std::make_unique<Framework>();
        Plugin plugin;
        plugin.name = "turns";
        plugin.run_model_stream = [this](RunModelCall& call) -> Task<EventStream> {
            {
                const std::lock_guard lock(mutex);
                turn_threads[call.session_id].insert(here());
            }
            co_return co_await model(call);
        };
        plugin.dispatch_outbound = [at = made.get()](DispatchOutboundCall& call) -> Task<bool> {
            TurnOutput output = call.output();
            const auto router = at->router();
            co_return co_await router->dispatch_output(std::move(output));
        };
        plugin.on_error = [this](OnErrorCall& call) {
            const std::lock_guard lock(mutex);
            errors.emplace_back(call.stage);
        };
        if (lifespan) plugin.provide_lifespan = lifespan;
        made->add(std::move(plugin));
        return made;
    }

    /// Runs `script` while the manager runs.
    void run(std::function<Task<>()> script, std::size_t threads = 2) {
        options.shards = std::make_shared<TurnShards>(threads, [this] { return make(); });
        manager = std::make_unique<ChannelManager>(framework, options);
        cubepi::run(together(std::move(script)));
        manager.reset();
        options.shards.reset();
    }

    Task<> together(std::function<Task<>()> script) {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(manager->run());
        scope.spawn(act(std::move(script)));
        co_await scope.join();
    }
    Task<> act(std::function<Task<>()> script) {
        co_await manager->started();
        const cubepi::Outcome<> done = co_await cubepi::outcome_of(script());
        manager->request_stop();
        done.rethrow();
    }

    Framework framework;
    std::shared_ptr<MarkingChannel> channel = std::make_shared<MarkingChannel>();
    std::shared_ptr<SteeringInbox> inbox = std::make_shared<MemorySteeringInbox>();
    ChannelManagerOptions options;
    std::unique_ptr<ChannelManager> manager;
    MessageHandler handler;
    Model model;

    std::mutex mutex;
    std::map<std::string, std::set<std::string>> turn_threads;
    std::function<std::shared_ptr<Lifespan>(ProvideCall&)> lifespan;
    std::set<std::string> opened;
    int closed = 0;
    Texts errors;
};

TEST_F(ShardedTest, Sessions_HaveThreadsApartFromTheChannels) {
    run([this]() -> Task<> {
        for (int turn = 0; turn < 3; ++turn) {
            for (int chat = 0; chat < 20; ++chat)
                co_await handler(from("chat", std::to_string(chat), "m" + std::to_string(turn)));
        }
        co_await manager->idle();
    });
    EXPECT_EQ(channel->sent.size(), 60u);
    EXPECT_EQ(channel->threads, std::set<std::string>{here()});
    std::set<std::string> all;
    ASSERT_EQ(turn_threads.size(), 20u);
    for (const auto& [session, threads] : turn_threads) {
        EXPECT_EQ(threads.size(), 1u) << session;
        all.insert(threads.begin(), threads.end());
    }
    EXPECT_EQ(all.size(), 2u);
    EXPECT_FALSE(all.contains(here()));
}

TEST_F(ShardedTest, Answer_IsWhatTheChannelPassesOn) {
    run([this]() -> Task<> {
        co_await handler(from("chat", "1", "hello"));
        co_await manager->idle();
    });
    EXPECT_EQ(channel->chats, Texts{"1"});
    EXPECT_EQ(channel->streamed, Texts{"re: hello"});
    EXPECT_EQ(channel->texts(), Texts{"<re: hello>"});
}

TEST_F(ShardedTest, Events_ArriveInOrderThroughBoundedQueues) {
    std::atomic<std::size_t> read{0};
    model = [&read](RunModelCall&) -> Task<EventStream> {
        co_return EventStream(std::make_unique<CountingSource>(read, 1'000));
    };
    run([this]() -> Task<> {
        co_await handler(from("chat", "1", "count"));
        co_await manager->idle();
    });
    Texts expected;
    for (int i = 0; i < 1'000; ++i) expected.push_back(std::to_string(i));
    EXPECT_EQ(channel->streamed, expected);
}

/// A stream of a channel that reads nothing before it is released.
class StuckSource final : public EventSource {
public:
    StuckSource(EventStream upstream, cubepi::AsyncEvent& release)
        : upstream_(std::move(upstream)), release_(release) {}
    Task<std::optional<StreamEvent>> next() override {
        co_await release_.wait();
        co_return co_await upstream_.next();
    }
    Task<> close() override { return upstream_.close(); }

private:
    EventStream upstream_;
    cubepi::AsyncEvent& release_;
};

class StuckChannel final : public TestChannel {
public:
    StuckChannel() : TestChannel("stuck") {}
    EventStream stream_events(const Envelope&, EventStream stream) override {
        return EventStream(std::make_unique<StuckSource>(std::move(stream), release));
    }
    cubepi::AsyncEvent release;
};

TEST_F(ShardedTest, SlowChannel_SlowsDownOnlyItsOwnModel) {
    const auto stuck = std::make_shared<StuckChannel>();
    Plugin plugin;
    plugin.name = "stuck";
    plugin.provide_channels = [stuck](ProvideChannelsCall&) {
        return std::vector<std::shared_ptr<Channel>>{stuck};
    };
    framework.add(std::move(plugin));
    std::atomic<std::size_t> read{0};
    model = [&read](RunModelCall& call) -> Task<EventStream> {
        if (call.prompt.text() == "quick") co_return EventStream::of_text("here");
        co_return EventStream(std::make_unique<CountingSource>(read, 10'000));
    };
    std::size_t read_while_stuck = 0;
    const auto script = [&]() -> Task<> {
        co_await handler(from("stuck", "1", "long"));
        while (read < 65) co_await cubepi::yield_now();  // the queue, and the event that waits
        co_await handler(from("chat", "2", "quick"));
        while (channel->sent.empty()) co_await cubepi::yield_now();
        read_while_stuck = read;
        stuck->release.set();
        co_await manager->idle();
    };
    run(script, 1);
    EXPECT_LE(read_while_stuck, 65u);
    EXPECT_EQ(read, 10'000u);
    EXPECT_EQ(stuck->sent.size(), 1u);
}

TEST_F(ShardedTest, CancelledTurn_EndsOnItsThread) {
    std::atomic<bool> begun{false};
    std::atomic<bool> closed{false};
    model = [&](RunModelCall&) -> Task<EventStream> {
        begun = true;
        cubepi::AsyncEvent never;
        const cubepi::Outcome<> waited = co_await cubepi::outcome_of(never.wait());
        closed = waited.cancelled();
        waited.rethrow();
        co_return EventStream();
    };
    run([&]() -> Task<> {
        co_await handler(from("chat", "1", "wait"));
        while (!begun) co_await cubepi::yield_now();
        EXPECT_TRUE(manager->cancel_turn("chat:1"));
        co_await manager->idle();
    });
    EXPECT_TRUE(closed);
    EXPECT_TRUE(channel->sent.empty());
    EXPECT_TRUE(errors.empty());
}

TEST_F(ShardedTest, EndOfManager_EndsTurnsInMidStream) {
    std::atomic<std::size_t> read{0};
    model = [&read](RunModelCall&) -> Task<EventStream> {
        co_return EventStream(std::make_unique<CountingSource>(read, std::size_t(-1)));
    };
    run([&]() -> Task<> {
        for (int chat = 0; chat < 8; ++chat)
            co_await handler(from("chat", std::to_string(chat), "endless"));
        while (channel->streamed.size() < 200) co_await cubepi::yield_now();
    });
    EXPECT_TRUE(channel->sent.empty());
}

TEST_F(ShardedTest, FailureOfModelOrStream_FailsTheTurn) {
    model = [](RunModelCall&) -> Task<EventStream> {
        throw std::runtime_error("no answer");
        co_return EventStream();
    };
    run([this]() -> Task<> {
        co_await handler(from("chat", "1", "one"));
        co_await manager->idle();
    });
    EXPECT_EQ(errors, Texts{"turn"});
    channel->on_stream = Trouble::fails;
    model = [](RunModelCall&) -> Task<EventStream> { co_return EventStream::of_text("text"); };
    run([this]() -> Task<> {
        co_await handler(from("chat", "1", "two"));
        co_await manager->idle();
    });
    EXPECT_EQ(errors, (Texts{"turn", "turn"}));
    EXPECT_TRUE(channel->sent.empty());
}

TEST_F(ShardedTest, SteeringMessages_ReachTheTurn) {
    std::atomic<bool> begun{false};
    std::shared_ptr<SteeringInbox> of_shard;
    channel->admit = [](const Envelope&) {
        AdmitDecision decision;
        decision.action = AdmitAction::steer;
        return std::optional<AdmitDecision>(std::move(decision));
    };
    Plugin plugin;
    plugin.name = "admission";
    plugin.admit_message = [this](AdmitMessageCall& call) {
        return channel->admit_message(call.session_id, call.message, call.turn);
    };
    framework.add(std::move(plugin));
    model = [&](RunModelCall& call) -> Task<EventStream> {
        begun = true;
        std::vector<Envelope> messages;
        while (messages.empty()) {
            co_await cubepi::yield_now();
            messages = inbox->drain(call.session_id);
        }
        (void)co_await messages.front().media.front().fetch();
        co_return EventStream::of_text(messages.front().content_text());
    };
    Texts threads;
    run([&]() -> Task<> {
        co_await handler(from("chat", "1", "first"));
        while (!begun) co_await cubepi::yield_now();
        Envelope more = from("chat", "1", "and another thing");
        MediaItem item;
        item.fetch = [&threads]() -> Task<std::optional<std::string>> {
            threads.push_back(here());
            co_return "bytes";
        };
        more.media.push_back(std::move(item));
        co_await handler(std::move(more));
        co_await manager->idle();
    });
    EXPECT_EQ(channel->texts(), Texts{"<and another thing>"});
    EXPECT_EQ(threads, Texts{here()});
}

TEST_F(ShardedTest, MediaAndLifespans_UseThreadOfTheirChannel) {
    struct Watched final : Lifespan {
        explicit Watched(Texts& seen) : threads(seen) {}
        Task<> open() override {
            threads.push_back(here());
            co_return;
        }
        Task<> close(std::exception_ptr) override {
            threads.push_back(here());
            co_return;
        }
        Texts& threads;
    };
    Texts threads;
    model = [](RunModelCall& call) -> Task<EventStream> {
        const std::optional<std::string> bytes = co_await call.message.media.front().fetch();
        co_await call.message.lifespan->open();
        co_await call.message.lifespan->close(nullptr);
        co_return EventStream::of_text(bytes.value_or("nothing"));
    };
    run([&]() -> Task<> {
        Envelope message = from("chat", "1", "look");
        MediaItem item;
        item.fetch = [&threads]() -> Task<std::optional<std::string>> {
            threads.push_back(here());
            co_return "bytes";
        };
        message.media.push_back(std::move(item));
        message.lifespan = std::make_shared<Watched>(threads);
        co_await handler(std::move(message));
        co_await manager->idle();
    });
    EXPECT_EQ(threads, (Texts{here(), here(), here()}));
    EXPECT_EQ(channel->texts(), Texts{"<bytes>"});
}

TEST_F(ShardedTest, SessionWithOpenQuestion_KeepsItsMessages) {
    std::atomic<int> turns{0};
    model = [&turns](RunModelCall& call) -> Task<EventStream> {
        OpenQuestions open;
        open.unread = turns > 0 && turns < 2;
        if (turns++ < 2) call.state.offer(std::make_shared<OpenQuestions>(open));
        co_return EventStream::of_text(call.prompt.text());
    };
    run([&]() -> Task<> {
        co_await handler(from("chat", "1", "asks"));
        co_await handler(from("chat", "1", "waits"));
        while (turns < 2 || manager->busy_sessions() > 0) co_await cubepi::yield_now();
        EXPECT_EQ(manager->snapshot("chat:1").pending_count, 1u);
        co_await handler(from("chat", "1", "answer"));
        co_await manager->idle();
    });
    EXPECT_EQ(turns, 4);
}

TEST_F(ShardedTest, PluginLifespans_OpenAndCloseOnEachThread) {
    struct Counted final : Lifespan {
        explicit Counted(ShardedTest& owner) : test(owner) {}
        Task<> open() override {
            const std::lock_guard lock(test.mutex);
            test.opened.insert(here());
            co_return;
        }
        Task<> close(std::exception_ptr) override {
            const std::lock_guard lock(test.mutex);
            EXPECT_EQ(test.opened.erase(here()), 1u);
            ++test.closed;
            co_return;
        }
        ShardedTest& test;
    };
    lifespan = [this](ProvideCall&) -> std::shared_ptr<Lifespan> {
        return std::make_shared<Counted>(*this);
    };
    run([this]() -> Task<> {
        EXPECT_EQ(opened.size(), 2u);
        co_return;
    });
    EXPECT_TRUE(opened.empty());
    EXPECT_EQ(closed, 2);
}

TEST(TurnShards, FrameworkThatCannotBeMade_FailsTheConstructor) {
    std::atomic<int> made{0};
    const auto make = [&made]() -> std::unique_ptr<Framework> {
        if (++made == 3) throw std::runtime_error("no framework");
        return std::make_unique<Framework>();
    };
    EXPECT_THROW(TurnShards(4, make), std::runtime_error);
    EXPECT_EQ(made, 3);
    EXPECT_EQ(TurnShards(0, make).size(), 1u);
}

}  // namespace
}  // namespace bub::channel_tests
