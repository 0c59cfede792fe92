// Transactions and statements for the records of a plain turn (D272, D275), and for clients that wait at another gateway (D273).

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/delivery/gateway_wakes.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/questions.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/sql/postgres_notifications.hpp>

namespace bub::channel_tests {
namespace {

using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;
using Texts = std::vector<std::string>;
using LogPtr = std::shared_ptr<PostgresDeliveryLog>;

Envelope update(const std::string& text) {
    Envelope message = from("chat", "1", text);
    message.inbound_id = text;
    return message;
}

/// The transactions that write messages, answers or their sessions, each as its statements.
std::vector<Texts> writes_in(const std::string& log) {
    std::vector<Texts> transactions = cubepi::transactions_in(log);
    std::erase_if(transactions, [](const Texts& transaction) {
        const auto names = [&](const char* table) {
            return std::any_of(transaction.begin(), transaction.end(), [&](const std::string& one) {
                return one.find(std::string("bub_delivery_") + table) != std::string::npos;
            });
        };
        // Not those by which the gateway registers, and takes the records of others.
        return names("gateways") ||
               !(names("inbound") || names("outbound") || names("sessions") || names("ids"));
    });
    return transactions;
}

std::string text_of(const std::vector<Texts>& transactions) {
    std::string text;
    for (const Texts& transaction : transactions) {
        text += "\n  a transaction:";
        for (const std::string& statement : transaction) text += "\n    " + statement;
    }
    return text;
}

class DeliveryWrites : public testing::Test {
protected:
    DeliveryWrites()
        : database(PostgresServer::shared().connection(
              PostgresServer::shared().create_database(postgres_delivery_tables()))) {
        options.database.connection = database;
        // Only the test ends a lease, and no poll is due.
        options.lease = std::chrono::hours(2);
        options.poll = std::chrono::hours(1);
    }
    LogPtr open() const { return std::make_shared<PostgresDeliveryLog>(options); }
    Texts query(const std::string& sql) const { return RawPostgres(database).query(sql); }
    /// A message that one gateway has stored and another one, which has its session, processes. Returns its id there.
    static std::string stored_elsewhere(DeliveryLog& owner, DeliveryLog& other,
                                        const std::string& text) {
        EXPECT_TRUE(run(owner.receive(update("first"))));
        EXPECT_FALSE(run(other.receive(update(text))));
        const UnfinishedRecords taken = run(owner.take());
        EXPECT_EQ(taken.inbounds.size(), 1u);
        return taken.inbounds.at(0).id;
    }

    const std::string database;
    PostgresDeliveryLogOptions options;
};

/// Answers one message, and ends.
Task<> answer(ChannelManager& manager, MessageHandler& handler, std::shared_ptr<TestChannel> to) {
    co_await manager.started();
    co_await handler(update("hello"));
    while (to->sent.empty())
        co_await cubepi::Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(1));
    co_await manager.idle();
    manager.request_stop();
}

Task<> serve(ChannelManager& manager, Task<> script) {
    const cubepi::Executor executor = co_await cubepi::this_executor;
    cubepi::TaskScope scope(executor);
    scope.spawn(manager.run());
    scope.spawn(std::move(script));
    co_await scope.join();
}

TEST_F(DeliveryWrites, D272_D275_PlainTurn_HasFewStatements) {
    options.database.connection += " options=-clog_statement=all";
    Framework framework;
    MessageHandler handler;
    const auto channel = std::make_shared<TestChannel>("chat");
    Plugin plugin;
    plugin.name = "model";
    plugin.run_model = [](RunModelCall& call) -> Task<std::string> {
        co_return "re: " + call.prompt.text();
    };
    plugin.dispatch_outbound = [&](DispatchOutboundCall& call) -> Task<bool> {
        TurnOutput output = call.output();
        const auto router = framework.router();
        co_return co_await router->dispatch_output(std::move(output));
    };
    plugin.provide_channels = [&](ProvideChannelsCall& call) {
        handler = call.handler;
        return std::vector<std::shared_ptr<Channel>>{channel};
    };
    framework.add(std::move(plugin));
    ChannelManagerOptions how;
    how.deliveries = open();
    ChannelManager manager(framework, std::move(how));
    const std::string log = PostgresServer::shared().log_of(
        [&] { run(serve(manager, answer(manager, handler, channel))); });
    EXPECT_EQ(channel->texts(), Texts{"re: hello"});
    std::vector<std::size_t> statements;
    const std::vector<Texts> writes = writes_in(log);
    for (const Texts& transaction : writes) statements.push_back(transaction.size());
    // It is stored, its turn begins, which reserves the id of an answer, the answer is to be sent, and was sent at the end of the turn. Each
    // transaction locks the session first.
    EXPECT_EQ(statements, (std::vector<std::size_t>{2, 2, 2, 3})) << text_of(writes);
    EXPECT_EQ(query("SELECT state FROM bub_delivery_inbound"), Texts{"done"});
    EXPECT_EQ(query("SELECT state FROM bub_delivery_outbound"), Texts{"sent"});
}

TEST_F(DeliveryWrites, D272_SentAnswer_IsStoredWithNextCall) {
    const LogPtr log = open();
    const std::string message = run(log->receive(update("one"))).value();
    const std::string answer = run(log->intend(from("chat", "1", "re: one"), {message}));
    // Without its end, which is an hour away, as of a call that is cancelled.
    (void)log->sent_soon(answer);
    EXPECT_EQ(query("SELECT state FROM bub_delivery_outbound"), Texts{"intended"});
    run(log->finish({message}));
    EXPECT_EQ(query("SELECT state FROM bub_delivery_outbound"), Texts{"sent"});
    EXPECT_EQ(query("SELECT state FROM bub_delivery_inbound"), Texts{"done"});
}

TEST_F(DeliveryWrites, D272_SentAnswerBeforeRelease_IsStored) {
    const LogPtr log = open();
    const std::string answer = run(log->intend(from("chat", "1", "notice"), {}));
    (void)log->sent_soon(answer);
    run(log->release());
    EXPECT_EQ(query("SELECT state FROM bub_delivery_outbound"), Texts{"sent"});
}

TEST_F(DeliveryWrites, D272_SentAnswerWithoutNextCall_IsStoredLater) {
    options.poll = std::chrono::milliseconds(10);
    const LogPtr log = open();
    run(log->sent_soon(run(log->intend(from("chat", "1", "notice"), {}))));
    EXPECT_EQ(query("SELECT state FROM bub_delivery_outbound"), Texts{"sent"});
}

Task<> wait_for(LogPtr log, std::string text, bool& is_over) {
    is_over = co_await log->wait_finished(update(text), std::chrono::hours(1));
}

/// Opens two gateways that notify each other, and waits until both listen.
class NotifyingGateways : public DeliveryWrites {
protected:
    NotifyingGateways() {
        options.notifications = database;
        owner = open();
        other = open();
        while (query("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND"
                     " state = 'idle' AND query LIKE 'LISTEN %'")
                   .front() != "2") {
        }
    }
    /// Waits at the other gateway for the end of the message with this text, which the owner finishes.
    bool is_woken(const std::string& text, const std::string& id) {
        bool is_over = false;
        const auto play = [&]() -> Task<> {
            const cubepi::Executor executor = co_await cubepi::this_executor;
            cubepi::TaskScope scope(executor);
            scope.spawn(wait_for(other, text, is_over));
            scope.spawn(owner->finish({id}));
            co_await scope.join();
        };
        run(play());
        return is_over;
    }

    LogPtr owner;
    LogPtr other;
};

TEST_F(NotifyingGateways, D273_EndAtOtherGateway_WakesWaiter) {
    EXPECT_TRUE(is_woken("two", stored_elsewhere(*owner, *other, "two")));
}

TEST_F(NotifyingGateways, D273_EndOfRepeatedMessage_WakesWaiter) {
    const std::string id = run(owner->receive(update("one"))).value();
    EXPECT_FALSE(run(other->receive(update("one"))));
    EXPECT_TRUE(is_woken("one", id));
}

/// Stops the turn of a message for which another gateway waits, and lets it end later.
Task<> stop_and_end(ChannelManager& manager, MessageHandler& handler, LogPtr other,
                    std::shared_ptr<cubepi::AsyncEvent> begun,
                    std::shared_ptr<cubepi::AsyncEvent> may_end) {
    const cubepi::Executor executor = co_await cubepi::this_executor;
    cubepi::TaskScope scope(executor);
    co_await manager.started();
    co_await handler(update("hello"));
    co_await begun->wait();
    bool is_finished = false;
    scope.spawn(wait_for(other, "hello", is_finished));
    co_await cubepi::yield_now();
    Envelope by = from("chat", "1", "/stop");
    by.from_operator = true;
    const StopOutcome outcome = co_await manager.stop_turn(std::move(by));
    EXPECT_EQ(outcome, StopOutcome::stopped);
    co_await scope.join();
    EXPECT_TRUE(is_finished) << "its record is finished first";
    bool is_over = false;
    scope.spawn(wait_for(other, "hello", is_over));
    co_await cubepi::yield_now();
    may_end->set();
    co_await scope.join();
    EXPECT_TRUE(is_over);
    manager.request_stop();
}

TEST_F(NotifyingGateways, D273_EndOfStoppedTurn_WakesWaiter) {
    const auto begun = std::make_shared<cubepi::AsyncEvent>();
    const auto may_end = std::make_shared<cubepi::AsyncEvent>();
    Framework framework;
    MessageHandler handler;
    Plugin plugin;
    plugin.name = "model";
    plugin.run_model = [&](RunModelCall&) -> Task<std::string> {
        begun->set();
        // The end of a turn that is cancelled takes a while.
        co_await cubepi::shield();
        co_await may_end->wait();
        co_await cubepi::unshield();
        co_return "re";
    };
    plugin.provide_channels = [&](ProvideChannelsCall& call) {
        handler = call.handler;
        return std::vector<std::shared_ptr<Channel>>{std::make_shared<TestChannel>("chat")};
    };
    framework.add(std::move(plugin));
    ChannelManagerOptions how;
    how.deliveries = owner;
    ChannelManager manager(framework, std::move(how));
    run(serve(manager, stop_and_end(manager, handler, other, begun, may_end)));
    EXPECT_EQ(query("SELECT state FROM bub_delivery_inbound"), Texts{"stopped"});
}

TEST_F(DeliveryWrites, D273_EndBetweenWaits_IsRemembered) {
    const LogPtr owner = open();
    const LogPtr other = open();
    const std::string id = stored_elsewhere(*owner, *other, "two");
    const auto brief = std::chrono::milliseconds(1);
    EXPECT_FALSE(run(owner->wait_finished(update("two"), brief))) << "the poll of this hour";
    run(owner->finish({id}));
    EXPECT_TRUE(run(owner->wait_finished(update("two"), std::chrono::hours(1))));
}

TEST_F(DeliveryWrites, D273_WithoutNotification_PollFindsEnd) {
    options.poll = std::chrono::milliseconds(20);
    const LogPtr owner = open();
    const LogPtr other = open();
    const std::string id = stored_elsewhere(*owner, *other, "two");
    EXPECT_FALSE(run(other->wait_finished(update("two"), options.poll)));
    run(owner->finish({id}));
    while (!run(other->wait_finished(update("two"), std::chrono::milliseconds(1)))) {
    }
    // One that is not stored has no end to wait for.
    while (!run(other->wait_finished(update("unknown"), std::chrono::milliseconds(1)))) {
    }
}

TEST_F(DeliveryWrites, D97_UnfinishedMessages_AreKnownEverywhere) {
    const LogPtr owner = open();
    const LogPtr other = open();
    EXPECT_FALSE(run(other->has_unfinished(update("one"))));
    const std::string id = run(owner->receive(update("one"))).value();
    EXPECT_TRUE(run(other->has_unfinished(update("another of its session"))));
    EXPECT_FALSE(run(other->has_unfinished(from("chat", "2", "one"))));
    run(owner->finish({id}));
    EXPECT_FALSE(run(other->has_unfinished(update("one"))));
}

TEST_F(DeliveryWrites, D96_StoppedTurn_EndsWithinSeconds) {
    const LogPtr log = open();
    run(log->finish_stop({run(log->receive(update("one"))).value()}, StopOutcome::stopped));
    run(log->finish({run(log->receive(update("two"))).value()}));
    const LogPtr other = open();
    const auto rest = [&other](const char* text) {
        return run(other->find("chat", text)).value().message.rest;
    };
    for (const bool is_recent : {true, false}) {
        query("UPDATE bub_delivery_inbound SET finished_at = now() " +
              std::string(is_recent ? "+" : "-") + " interval '1 hour'");
        EXPECT_EQ(rest("one").at(turn_stopped_key), is_recent);
        EXPECT_FALSE(rest("one").contains(stop_key)) << "it is not a request to stop";
        EXPECT_FALSE(rest("two").contains(turn_stopped_key));
    }
}

TEST_F(DeliveryWrites, D273_ManyNotifications_AllArrive) {
    std::mutex mutex;
    std::set<std::string> received;
    const auto count = [&] {
        const std::lock_guard lock(mutex);
        return received.size();
    };
    cubepi::PostgresNotifications notifications(options.database, "ends",
                                                [&](const std::string& payload) {
                                                    const std::lock_guard lock(mutex);
                                                    received.insert(payload);
                                                });
    constexpr std::size_t many = 950;  // in several statements
    for (std::size_t i = 0; i < many; ++i) notifications.notify("end_" + std::to_string(i));
    while (count() < many) std::this_thread::yield();
}

/// Records the events of the log.
class Events final : public cubepi::LogSink {
public:
    void write(const cubepi::LogRecord& record) override {
        const std::lock_guard lock(mutex_);
        events_.emplace_back(record.event);
    }
    void wait_for(std::size_t count) const {
        while (events().size() < count) std::this_thread::yield();
    }
    Texts events() const {
        const std::lock_guard lock(mutex_);
        return events_;
    }

private:
    mutable std::mutex mutex_;
    Texts events_;
};

TEST_F(DeliveryWrites, D273_NotificationsThatFail_AreReportedOnce) {
    const std::string name = query("SELECT current_database()").front();
    RawPostgres server(PostgresServer::shared().connection("postgres"));
    const auto allow = [&](const char* allowed) {
        (void)server.query("ALTER DATABASE " + name + " ALLOW_CONNECTIONS " + allowed);
    };
    const auto events = std::make_shared<Events>();
    cubepi::Runtime runtime;
    runtime.log = cubepi::Logger(events, cubepi::LogLevel::info);
    options.database.runtime = std::make_shared<const cubepi::Runtime>(std::move(runtime));
    allow("false");
    std::atomic<bool> received = false;
    cubepi::PostgresNotifications notifications(options.database, "ends",
                                                [&](const std::string&) { received = true; });
    events->wait_for(1);
    allow("true");
    events->wait_for(2);
    notifications.notify("end_1");
    while (!received) std::this_thread::yield();
    EXPECT_EQ(events->events(),
              (Texts{"store.notifications_failed", "store.notifications_recovered"}));
}

TEST_F(DeliveryWrites, D238_OtherNotifyDatabase_IsAProblem) {
    const auto events = std::make_shared<Events>();
    cubepi::Runtime runtime;
    runtime.log = cubepi::Logger(events, cubepi::LogLevel::info);
    options.database.runtime = std::make_shared<const cubepi::Runtime>(std::move(runtime));
    options.poll = std::chrono::milliseconds(1);
    PostgresServer& server = PostgresServer::shared();
    options.notifications = server.connection(server.create_empty_database());
    const LogPtr log = open();
    while (log->notification_problem().empty()) (void)run(log->take());
    EXPECT_NE(log->notification_problem().find("another database"), std::string::npos);
    events->wait_for(1);
    for (int i = 0; i < 10; ++i) (void)run(log->take());
    EXPECT_EQ(events->events(), Texts{"store.notifications_failed"});
    // Messages that other gateways have stored are found all the same.
    options.notifications = database;
    const LogPtr other = open();
    EXPECT_TRUE(run(log->receive(update("first"))));
    EXPECT_FALSE(run(other->receive(update("second"))));
    EXPECT_EQ(run(log->take()).inbounds.size(), 1u);
}

TEST_F(DeliveryWrites, D238_NotificationThroughPooler_Arrives) {
    const cubepi::PgBouncer pooler(PostgresServer::shared());
    RawPostgres deliveries(pooler.connection(query("SELECT current_database()").front()));
    cubepi::PostgresNotifications notifications(options.database, "ends",
                                                [](const std::string&) {});
    std::string payload;
    while (notifications.problem().empty()) {
        const std::string echo = notifications.echo();
        if (!echo.empty()) payload = echo;
    }
    (void)deliveries.query("SELECT pg_notify('ends', '" + payload + "')");
    while (!notifications.problem().empty()) std::this_thread::yield();
}

TEST_F(DeliveryWrites, D238_PoolerOfTransactions_IsAProblem) {
    const cubepi::PgBouncer pooler(PostgresServer::shared());
    options.poll = std::chrono::milliseconds(100);
    options.notifications = pooler.connection(query("SELECT current_database()").front());
    const LogPtr log = open();
    while (log->notification_problem().empty()) (void)run(log->take());
}

TEST(EndWaits, D273_AllWaits_ShareOneLook) {
    using std::chrono::seconds;
    boost::asio::io_context context;
    detail::EndWaits waits;
    const detail::EndWaits::Time begin{};
    for (const char* key : {"a", "b", "c"}) (void)waits.begin(key, context.get_executor(), begin);
    EXPECT_EQ(waits.due(begin, seconds(1)), (Texts{"a", "b", "c"}));
    EXPECT_FALSE(waits.due(begin + std::chrono::milliseconds(999), seconds(1)));
    waits.end("b");
    EXPECT_TRUE(waits.has_ended("b"));
    waits.forget("b");
    waits.leave("a");
    EXPECT_EQ(waits.due(begin + seconds(1), seconds(1)), (Texts{"a", "c"}));
    EXPECT_EQ(waits.due(begin + seconds(11), seconds(1)), Texts{"c"}) << "no caller waits for it";
}

}  // namespace
}  // namespace bub::channel_tests
