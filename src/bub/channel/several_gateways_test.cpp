// The channel managers of several gateways that share a database.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/postgres_deliveries_test.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub::channel_tests {
namespace {

using cubepi::run;

/// One of several gateways.
struct Host {
    explicit Host(std::shared_ptr<DeliveryLog> log, ChannelManagerOptions options = {}) {
        Plugin plugin;
        plugin.name = "model";
        plugin.run_model = [this](RunModelCall& call) -> Task<std::string> {
            const std::string text = call.prompt.text();
            begun.push_back(text);
            changed.pulse();
            if (text == failing)
                throw cubepi::CheckpointerError(cubepi::ErrorCode::storage, "it cannot be read");
            if (held) co_await held->wait();
            co_return "re: " + text;
        };
        plugin.render_outbound = [this](RenderOutboundCall& call) {
            EnvelopeBatch outputs;
            for (const std::string& text : parts) {
                outputs.items.push_back(from("chat", "1", text));
                outputs.items.back().session_id = call.session_id;
            }
            return outputs;
        };
        plugin.dispatch_outbound = [this](DispatchOutboundCall& call) -> Task<bool> {
            if (call.message.content_text() == failing_output)
                throw cubepi::CheckpointerError(cubepi::ErrorCode::storage, "it cannot be stored");
            TurnOutput output = call.output();
            const auto router = framework.router();
            const bool taken = co_await router->dispatch_output(std::move(output));
            changed.pulse();
            co_return taken;
        };
        plugin.provide_channels = [this](ProvideChannelsCall& call) {
            handler = call.handler;
            std::vector<std::shared_ptr<Channel>> all{channel};
            return all;
        };
        framework.add(std::move(plugin));
        options.deliveries = std::move(log);
        manager = std::make_unique<ChannelManager>(framework, std::move(options));
    }

    cubepi::AsyncEvent changed;
    Framework framework;
    const std::shared_ptr<TestChannel> channel = std::make_shared<TestChannel>("chat");
    MessageHandler handler;
    std::unique_ptr<ChannelManager> manager;
    Texts begun;
    Texts parts;                               ///< of each answer; none: the model's text
    std::string failing_output;                ///< a text whose delivery cannot be recorded
    std::string failing;                       ///< a text whose turns fail, and are tried again
    std::unique_ptr<cubepi::AsyncEvent> held;  ///< the model waits for it
};

using Script = std::function<Task<>(Host& first, Host& second)>;

Task<> act_and_stop(Host& first, Host& second, Script script) {
    co_await first.manager->started();
    co_await second.manager->started();
    const cubepi::Outcome<> done = co_await cubepi::outcome_of(script(first, second));
    for (Host* host : {&first, &second}) {
        if (host->held) host->held->set();
        host->manager->request_stop();
    }
    done.rethrow();
}

Task<> serve_both(Host& first, Host& second, Script script) {
    const cubepi::Executor executor = co_await cubepi::this_executor;
    cubepi::TaskScope scope(executor);
    scope.spawn(first.manager->run());
    scope.spawn(second.manager->run());
    scope.spawn(act_and_stop(first, second, std::move(script)));
    co_await scope.join();
}

Task<> both_idle(Host& first, Host& second) {
    co_await first.manager->idle();
    co_await second.manager->idle();
}

Task<> until_sent(Host& host, std::size_t count) {
    while (host.channel->sent.size() < count) co_await host.changed.wait();
}

TEST_F(PostgresDeliveries, D205_SameWebhookAtTwoGateways_IsOneTurn) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host first(tables.open());
    Host second(tables.open());
    run(serve_both(first, second, [](Host& a, Host& b) -> Task<> {
        for (int i = 0; i < 10; ++i) {
            const std::string id = "webhook " + std::to_string(i);
            std::vector<Task<>> deliveries;
            for (Host* host : {&a, &b}) deliveries.push_back(host->handler(update(id, id)));
            co_await cubepi::when_all(std::move(deliveries));
        }
        while (a.channel->sent.size() + b.channel->sent.size() < 10) {
            co_await both_idle(a, b);
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
        }
        co_await both_idle(a, b);
    }));
    Texts all = first.begun;
    all.insert(all.end(), second.begun.begin(), second.begun.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all.size(), 10u);
    EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
    EXPECT_EQ(tables.query("SELECT count(*), count(finished_at) FROM bub_delivery_inbound"),
              (Texts{"10", "10"}));
    EXPECT_EQ(tables.query("SELECT count(*), count(settled_at) FROM bub_delivery_outbound"),
              (Texts{"10", "10"}));
}

TEST_F(PostgresDeliveries, D205_HeldBackMessage_KeepsTheSession) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host first(tables.open());
    Host second(tables.open());
    run(serve_both(first, second, [this](Host& a, Host& b) -> Task<> {
        const auto held = std::make_shared<HeldTurn>();
        Envelope result = update("result", "task");
        result.held = held;
        co_await a.handler(result);
        EXPECT_TRUE(held->is_accepted());
        EXPECT_EQ(tables.query("SELECT state FROM bub_delivery_inbound"), Texts{"expected"});
        const bool is_busy = co_await b.manager->has_unfinished(result);
        EXPECT_FALSE(is_busy);
        co_await b.handler(update("one", "one"));
        co_await until_sent(a, 1);
        held->begin();
        co_await until_sent(a, 2);
    }));
    EXPECT_EQ(first.begun, (Texts{"one", "result"}));
    EXPECT_EQ(second.begun, Texts());
}

TEST_F(PostgresDeliveries, B14_OverflowElsewhere_IsAnswered) {
    ChannelManagerOptions options;
    options.max_waiting = 1;
    Host first(tables.open(), options);
    Host second(tables.open(), options);
    first.held = std::make_unique<cubepi::AsyncEvent>();
    run(serve_both(first, second, [](Host& a, Host& b) -> Task<> {
        co_await a.handler(update("one", "one"));
        while (a.begun.empty()) co_await a.changed.wait();
        co_await b.handler(update("two", "two"));
        const cubepi::Outcome<> refused =
            co_await cubepi::outcome_of(b.handler(update("three", "three")));
        EXPECT_EQ(cubepi::logged_error(refused.failure()), "limit");
        EXPECT_EQ(b.manager->problem(), "");
        while (!refused && b.channel->sent.empty())
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
        // One that is known is not refused.
        co_await b.handler(update("two", "two"));
    }));
    ASSERT_FALSE(second.channel->sent.empty());
    EXPECT_EQ(second.channel->sent.front().context.at("rejected"), true);
}

TEST_F(PostgresDeliveries, D205_MessageFromElsewhere_FollowsCollectedOnes) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host first(tables.open());
    Host second(tables.open());
    for (Host* host : {&first, &second}) host->channel->debounced = true;
    run(serve_both(first, second, [](Host& a, Host& b) -> Task<> {
        co_await a.handler(update("one", "one"));
        co_await b.handler(update("two", "two"));
        co_await until_sent(a, 2);
        co_await both_idle(a, b);
    }));
    EXPECT_EQ(first.begun, (Texts{"one", "two"}));
}

TEST_F(PostgresDeliveries, B18_EndDuringFailure_IsRecordedLater) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host first(tables.open());
    Host second(tables.open());
    const std::string left =
        "SELECT (SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS NULL) + (SELECT"
        " count(*) FROM bub_delivery_outbound WHERE settled_at IS NULL)";
    run(serve_both(first, second, [&](Host& a, Host& b) -> Task<> {
        tables.query(
            "ALTER TABLE bub_delivery_outbound ADD CONSTRAINT none CHECK (state <> 'sent')");
        tables.query(
            "ALTER TABLE bub_delivery_inbound ADD CONSTRAINT none CHECK (state <> 'done')");
        co_await a.handler(update("one", "one"));
        co_await until_sent(a, 1);
        co_await both_idle(a, b);
        EXPECT_EQ(tables.query(left), Texts{"2"});
        tables.query("ALTER TABLE bub_delivery_outbound DROP CONSTRAINT none");
        tables.query("ALTER TABLE bub_delivery_inbound DROP CONSTRAINT none");
        while (tables.query(left) != Texts{"0"})
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
    }));
    EXPECT_EQ(first.channel->texts(), Texts{"re: one"});
}

TEST_F(PostgresDeliveries, B18_PartlyRecordedAnswer_IsCompletedAtOnce) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host first(tables.open());
    Host second(tables.open());
    first.parts = second.parts = {"first", "second"};
    run(serve_both(first, second, [&](Host& a, Host& b) -> Task<> {
        a.failing_output = b.failing_output = "second";
        co_await a.handler(update("one", "one"));
        co_await until_sent(a, 1);
        a.failing_output.clear();
        b.failing_output.clear();
        co_await a.handler(update("two", "two"));
        const std::string finished = "SELECT count(finished_at) FROM bub_delivery_inbound";
        while (tables.query(finished) != Texts{"2"})
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
        co_await both_idle(a, b);
    }));
    Texts begun = first.begun;
    begun.insert(begun.end(), second.begun.begin(), second.begun.end());
    EXPECT_EQ(begun, (Texts{"one", "two"})) << "none has a second turn";
    Texts sent = first.channel->texts();
    const Texts others = second.channel->texts();
    sent.insert(sent.end(), others.begin(), others.end());
    std::sort(sent.begin(), sent.end());
    EXPECT_EQ(sent, (Texts{"first", "first", "second", "second"}));
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_outbound WHERE settled_at IS NULL"),
              Texts{"0"});
}

TEST_F(PostgresDeliveries, D264_LostTurn_DoesNotCount) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host first(tables.open());
    Host second(tables.open());
    for (Host* host : {&first, &second}) host->held = std::make_unique<cubepi::AsyncEvent>();
    run(serve_both(first, second, [&](Host& a, Host& b) -> Task<> {
        const auto pause = std::chrono::milliseconds(1);
        co_await a.handler(update("one", "one"));
        while (a.begun.empty()) co_await a.changed.wait();
        // Not the owner of each moment: the second gateway must not lose the session, too.
        const Texts owner = tables.query("SELECT owner FROM bub_delivery_sessions");
        while (b.begun.empty()) {
            tables.query(
                "UPDATE bub_delivery_gateways SET lease_until = now() - interval '1"
                " minute' WHERE number = " +
                owner.at(0));
            co_await cubepi::Runtime::standard()->clock->sleep_for(pause);
        }
        a.held->set();
        const std::string of_second = "SELECT begun_by[1] = owner FROM bub_delivery_inbound";
        while (tables.query(of_second) != Texts{"t"})
            co_await cubepi::Runtime::standard()->clock->sleep_for(pause);
        b.held->set();
        co_await until_sent(b, 1);
    }));
    EXPECT_EQ(first.channel->texts(), Texts{});
    EXPECT_EQ(second.channel->texts(), Texts{"re: one"});
}

TEST_F(PostgresDeliveries, D264_HeldMessage_FollowsAReturnedGateway) {
    tables.options.poll = std::chrono::milliseconds(5);
    const LogPtr cut_off = tables.open();
    const std::string one = store(*cut_off, "one").value();
    Envelope tape = from("chat", "2", ",tape one");
    tape.from_operator = true;
    const std::string command = run(cut_off->receive(std::move(tape))).value();
    run(cut_off->begin({one}));
    run(cut_off->begin({command}));
    tables.expire_leases();
    {
        const LogPtr killed = tables.open();
        for (const StoredInbound& inbound : run(killed->take()).inbounds)
            if (!is_command(inbound.message)) run(killed->begin({inbound.id}));
    }
    tables.expire_leases();
    Host first(tables.open());
    Host second(tables.open());
    run(serve_both(first, second, [&](Host& a, Host& b) -> Task<> {
        const HeldMessages at_first = co_await a.manager->held();
        const HeldMessages at_second = co_await b.manager->held();
        EXPECT_EQ(at_first.inbounds.size() + at_second.inbounds.size(), 2u);
        EXPECT_TRUE(a.begun.empty() && b.begun.empty());
        const UnfinishedRecords none = co_await cut_off->take();
        EXPECT_TRUE(none.inbounds.empty());
        while (a.channel->sent.size() + b.channel->sent.size() < 1)
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
        co_await both_idle(a, b);
        const HeldMessages left_at_first = co_await a.manager->held();
        const HeldMessages left_at_second = co_await b.manager->held();
        EXPECT_EQ(left_at_first.inbounds.size() + left_at_second.inbounds.size(), 1u)
            << "a command may have had its effect";
    }));
}

TEST_F(PostgresDeliveries, D205_TurnAtOtherGateway_IsRunning) {
    Host first(tables.open());
    Host second(tables.open());
    first.held = std::make_unique<cubepi::AsyncEvent>();
    run(serve_both(first, second, [](Host& a, Host& b) -> Task<> {
        co_await a.handler(update("one", "one"));
        while (a.begun.empty()) co_await a.changed.wait();
        // It waits for the turn of the first one.
        co_await b.handler(update("two", "two"));
        for (Host* host : {&a, &b}) {
            const auto one = co_await host->manager->find_message("chat", "one");
            const auto two = co_await host->manager->find_message("chat", "two");
            EXPECT_EQ(one->progress, MessageProgress::running);
            EXPECT_EQ(two->progress, MessageProgress::pending);
        }
    }));
}

Task<> drain_with(Host& host, std::function<Task<>()> script) {
    co_await host.manager->started();
    const cubepi::Outcome<> done = co_await cubepi::outcome_of(script());
    host.held->set();
    done.rethrow();
}

Task<> serve_and_drain(Host& host, std::function<Task<>()> script) {
    const cubepi::Executor executor = co_await cubepi::this_executor;
    cubepi::TaskScope scope(executor);
    scope.spawn(host.manager->run());
    scope.spawn(drain_with(host, std::move(script)));
    co_await scope.join();
}

Task<> drain(Host& host) { (void)co_await host.manager->drain(std::chrono::hours(1)); }

/// Waits until each gateway has looked for records several times.
Task<> several_looks(Deliveries& tables) {
    constexpr int looks = 5;
    for (int look = 0; look < looks; ++look) {
        const std::string leases =
            "SELECT lease_until FROM bub_delivery_gateways WHERE lease_until > clock_timestamp() "
            "ORDER BY number";
        const Texts before = tables.query(leases);
        const auto is_renewed = [&] {
            const Texts now = tables.query(leases);
            return std::equal(now.begin(), now.end(), before.begin(), before.end(),
                              std::not_equal_to<>());
        };
        while (!is_renewed())
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
    }
}

TEST_F(PostgresDeliveries, D205_DrainingGateway_TakesNoRecords) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host draining(tables.open());
    draining.held = std::make_unique<cubepi::AsyncEvent>();
    const LogPtr ended = tables.open();
    const LogPtr other = tables.open();
    const auto renewal = [this] {
        return tables.query("SELECT max(lease_until) FROM bub_delivery_gateways");
    };
    Texts left;
    run(serve_and_drain(draining, [&]() -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        co_await draining.handler(update("one", "one"));
        while (draining.begun.empty()) co_await draining.changed.wait();
        scope.spawn(drain(draining));
        // A poll that began before has ended then.
        const Texts first = renewal();
        while (renewal() == first)
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
        (void)co_await ended->receive(from("chat", "2", "two"));
        co_await ended->release();
        // It still renews its lease for the turn that runs.
        for (int polls = 0; polls < 3; ++polls) {
            const Texts before = renewal();
            while (renewal() == before)
                co_await cubepi::Runtime::standard()->clock->sleep_for(
                    std::chrono::milliseconds(1));
        }
        const UnfinishedRecords taken = co_await other->take();
        left = texts_of(taken.inbounds);
        draining.held->set();
        co_await scope.join();
    }));
    EXPECT_EQ(left, Texts{"two"});
    EXPECT_EQ(draining.channel->texts(), Texts{"re: one"});
}

TEST_F(PostgresDeliveries, D293_Drain_MovesMessagesWithoutTurns) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host draining(tables.open());
    Host next(tables.open());
    draining.held = std::make_unique<cubepi::AsyncEvent>();
    draining.failing = "again";
    run(serve_both(draining, next, [](Host& a, Host& b) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        co_await a.handler(update("one", "one"));
        co_await a.handler(update("two", "two"));
        Envelope again = from("chat", "2", "again");
        again.inbound_id = "again";
        co_await a.handler(std::move(again));
        while (a.begun.size() < 2) co_await a.changed.wait();
        scope.spawn(drain(a));
        scope.spawn(drain(a));
        // It waits behind the turn, wherever it arrives.
        co_await a.handler(update("three", "three"));
        co_await b.handler(update("four", "four"));
        co_await until_sent(b, 1);
        EXPECT_EQ(b.begun, Texts{"again"});
        a.held->set();
        co_await until_sent(b, 4);
        co_await scope.join();
        co_await b.manager->idle();
    }));
    EXPECT_EQ(draining.channel->texts(), Texts{"re: one"});
    EXPECT_EQ(next.begun, (Texts{"again", "two", "three", "four"}));
    EXPECT_EQ(tables.query("SELECT count(*), count(finished_at) FROM bub_delivery_inbound"),
              (Texts{"5", "5"}));
}

TEST_F(PostgresDeliveries, D293_CollectedMessages_MoveAtOnce) {
    tables.options.poll = std::chrono::milliseconds(5);
    ChannelManagerOptions collecting;
    collecting.debounce.delay = collecting.debounce.max_wait = std::chrono::hours(1);
    Host draining(tables.open(), std::move(collecting));
    draining.channel->debounced = true;
    draining.held = std::make_unique<cubepi::AsyncEvent>();
    Host next(tables.open());
    run(serve_both(draining, next, [](Host& a, Host& b) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        Envelope command = from("chat", "2", ",wait");
        command.from_operator = true;
        command.inbound_id = "command";
        scope.spawn(a.handler(std::move(command)));
        while (a.begun.empty()) co_await a.changed.wait();
        co_await a.handler(update("one", "one"));
        co_await a.handler(update("two", "two"));
        scope.spawn(drain(a));
        co_await until_sent(b, 2);
        a.held->set();
        co_await scope.join();
        co_await b.manager->idle();
    }));
    EXPECT_EQ(draining.begun, Texts{",wait"});
    EXPECT_EQ(next.begun, (Texts{"one", "two"}));
}

TEST_F(PostgresDeliveries, D293_CollectedMessage_MovesAlsoIfManyWait) {
    tables.options.poll = std::chrono::milliseconds(5);
    ChannelManagerOptions collecting;
    collecting.debounce.delay = collecting.debounce.max_wait = std::chrono::hours(1);
    collecting.max_waiting_in_all = 1;
    Host draining(tables.open(), std::move(collecting));
    draining.channel->debounced = true;
    draining.held = std::make_unique<cubepi::AsyncEvent>();
    Host next(tables.open());
    run(serve_both(draining, next, [this](Host& a, Host& b) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        Envelope command = from("chat", "2", ",wait");
        command.from_operator = true;
        command.inbound_id = "command";
        scope.spawn(a.handler(command));
        while (a.begun.empty()) co_await a.changed.wait();
        co_await a.handler(update("one", "one"));
        command.inbound_id = "more";
        co_await a.handler(command);
        scope.spawn(drain(a));
        while (tables
                   .query("SELECT count(*) FROM bub_delivery_inbound WHERE owner = 0 OR"
                          " finished_at IS NOT NULL")
                   .front() < "2")
            co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(5));
        a.held->set();
        co_await scope.join();
        while (b.begun.size() < 2) co_await b.changed.wait();
        co_await b.manager->idle();
    }));
    EXPECT_NE(std::find(next.begun.begin(), next.begun.end(), "one"), next.begun.end());
}

TEST_F(PostgresDeliveries, D293_SessionOfTwoChats_FollowsItsTurn) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host draining(tables.open());
    Host next(tables.open());
    for (Host* host : {&draining, &next}) {
        Plugin family;
        family.name = "family";
        family.resolve_session = [](ResolveSessionCall&) -> std::optional<std::string> {
            return "family";
        };
        host->framework.add(std::move(family));
    }
    draining.held = std::make_unique<cubepi::AsyncEvent>();
    run(serve_both(draining, next, [this](Host& a, Host& b) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        co_await a.handler(update("one", "one"));
        while (a.begun.empty()) co_await a.changed.wait();
        Envelope other = from("chat", "2", "two");
        other.inbound_id = "two";
        co_await a.handler(std::move(other));
        scope.spawn(drain(a));
        co_await several_looks(tables);
        EXPECT_EQ(b.begun, Texts{}) << "two turns of a session run at the same time";
        a.held->set();
        co_await scope.join();
        co_await until_sent(b, 1);
        co_await b.manager->idle();
    }));
}

TEST_F(PostgresDeliveries, D293_AnswerThatIsBeingReleased_IsNotLeft) {
    tables.options.poll = std::chrono::milliseconds(5);
    const LogPtr ended = tables.open();
    (void)leave_unsent(*ended);
    tables.expire_leases();
    Host draining(tables.open());
    draining.held = std::make_unique<cubepi::AsyncEvent>();
    run(serve_and_drain(draining, [&]() -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        Envelope wait = from("chat", "2", "wait");
        wait.inbound_id = "wait";
        co_await draining.handler(std::move(wait));
        while (draining.begun.empty()) co_await draining.changed.wait();
        const HeldMessages held = co_await draining.manager->held();
        EXPECT_EQ(held.answers.size(), 1U);
        draining.channel->on_send = Trouble::hangs;
        cubepi::TaskScope releasing(executor);
        releasing.spawn(draining.manager->release_held(held.answers.front().id));
        while (draining.channel->sends == 0) co_await cubepi::yield_now();
        scope.spawn(drain(draining));
        co_await several_looks(tables);
        EXPECT_EQ(
            tables.query("SELECT owner > 0 FROM bub_delivery_outbound WHERE settled_at IS NULL"),
            Texts{"t"});
        draining.channel->on_send = Trouble::none;
        releasing.cancel();
        draining.held->set();
        const cubepi::Outcome<> released = co_await cubepi::outcome_of(releasing.join());
        const cubepi::Outcome<> over = co_await cubepi::outcome_of(scope.join());
    }));
}

TEST_F(PostgresDeliveries, D293_StoppedSend_DoesNotKeepTheSession) {
    tables.options.poll = std::chrono::milliseconds(5);
    Host draining(tables.open());
    Host next(tables.open());
    run(serve_both(draining, next, [](Host& a, Host& b) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        a.channel->on_send = Trouble::hangs;
        co_await a.handler(update("one", "one"));
        while (a.channel->sends == 0) co_await cubepi::yield_now();
        a.channel->on_send = Trouble::none;
        Envelope stop = update("/stop", "stop");
        stop.from_operator = true;
        co_await a.handler(std::move(stop));
        co_await a.manager->idle();
        a.held = std::make_unique<cubepi::AsyncEvent>();
        Envelope wait = from("chat", "2", "wait");
        wait.inbound_id = "wait";
        co_await a.handler(std::move(wait));
        while (a.begun.size() < 2) co_await a.changed.wait();
        scope.spawn(drain(a));
        co_await b.handler(update("two", "two"));
        while (b.begun.empty()) co_await b.changed.wait();
        a.held->set();
        co_await scope.join();
        co_await until_sent(b, 1);
        co_await b.manager->idle();
    }));
}

TEST_F(PostgresDeliveries, D238_MessageForOtherGateway_WakesIt) {
    // Without notifications the test would wait for it.
    tables.options.poll = std::chrono::hours(1);
    tables.options.notifications = tables.options.database.connection;
    Host first(tables.open());
    Host second(tables.open());
    first.held = std::make_unique<cubepi::AsyncEvent>();
    run(serve_both(first, second, [this](Host& a, Host& b) -> Task<> {
        const std::string listening =
            " FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' AND"
            " query LIKE 'LISTEN %'";
        for (const bool is_lost : {false, true}) {
            // A connection that is lost is replaced.
            if (is_lost) tables.query("SELECT pg_terminate_backend(pid, 60000)" + listening);
            while (tables.query("SELECT count(*)" + listening).front() != "2")
                co_await cubepi::Runtime::standard()->clock->sleep_for(
                    std::chrono::milliseconds(1));
        }
        co_await a.handler(update("one", "one"));
        while (a.begun.empty()) co_await a.changed.wait();
        co_await b.handler(update("two", "two"));
        a.held->set();
        co_await until_sent(a, 2);
        co_await both_idle(a, b);
    }));
    EXPECT_EQ(first.channel->texts(), (Texts{"re: one", "re: two"}));
    EXPECT_TRUE(second.channel->sent.empty());
}

TEST_F(PostgresDeliveries, D205_FrozenGatewayInATurn_SendsNothing) {
    tables.options.poll = std::chrono::hours(1);
    Host frozen(tables.open());
    frozen.held = std::make_unique<cubepi::AsyncEvent>();
    tables.options.poll = std::chrono::milliseconds(5);
    Host next(tables.open());
    run(serve_both(frozen, next, [this](Host& a, Host& b) -> Task<> {
        co_await a.handler(update("one", "one"));
        while (a.begun.empty()) co_await a.changed.wait();
        // Waits in the session that the other one takes.
        co_await a.handler(update("two", "two"));
        tables.query(
            "UPDATE bub_delivery_gateways SET lease_until = now() - interval '1 minute' WHERE"
            " number = (SELECT max(owner) FROM bub_delivery_sessions)");
        co_await until_sent(b, 2);
        a.held->set();
        co_await both_idle(a, b);
    }));
    EXPECT_EQ(next.channel->texts(), (Texts{"re: one", "re: two"}));
    EXPECT_TRUE(frozen.channel->sent.empty());
    EXPECT_EQ(frozen.begun, Texts{"one"}) << "no turn begins on a message that was taken";
    EXPECT_EQ(tables.query("SELECT count(*), count(finished_at) FROM bub_delivery_inbound"),
              (Texts{"2", "2"}));
}

TEST_F(PostgresDeliveries, D205_GatewayFrozenForHours_SendsNothing) {
    tables.options.poll = std::chrono::hours(1);
    const LogPtr log = tables.open();
    Host frozen(log);
    frozen.held = std::make_unique<cubepi::AsyncEvent>();
    tables.options.poll = std::chrono::milliseconds(5);
    Host next(tables.open());
    run(serve_both(frozen, next, [&](Host& a, Host& b) -> Task<> {
        co_await a.handler(update("one", "one"));
        while (a.begun.empty()) co_await a.changed.wait();
        tables.query(
            "UPDATE bub_delivery_gateways SET lease_until = now() - interval '2 hours' WHERE"
            " number = (SELECT max(owner) FROM bub_delivery_sessions)");
        co_await until_sent(b, 1);
        EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_gateways"), Texts{"1"});
        a.held->set();
        co_await both_idle(a, b);
        // Its first poll is due when its host continues.
        const UnfinishedRecords none = co_await log->take();
        EXPECT_TRUE(none.inbounds.empty() && none.answers.empty());
        co_await a.handler(update("two", "two"));
        co_await until_sent(a, 1);
        co_await both_idle(a, b);
    }));
    EXPECT_EQ(next.channel->texts(), Texts{"re: one"});
    EXPECT_EQ(frozen.channel->texts(), Texts{"re: two"}) << "it is a gateway like the others";
    EXPECT_EQ(tables.query("SELECT count(*), count(finished_at) FROM bub_delivery_inbound"),
              (Texts{"2", "2"}));
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_outbound WHERE settled_at IS NULL"),
              Texts{"0"});
}

}  // namespace
}  // namespace bub::channel_tests
