#include <bub/channel/postgres_delivery_log.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/channel/account_lease.hpp>
#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/channel/delivery/postgres_tables.hpp>
#include <bub/channel/delivery_log_suite_test.hpp>
#include <bub/channel/gateway_peers.hpp>
#include <bub/channel/manager/manager_context.hpp>
#include <bub/channel/postgres_deliveries_test.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/questions.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/error.hpp>

namespace bub::channel_tests {
namespace {

using cubepi::PostgresProxy;
using cubepi::RawPostgres;
using cubepi::run;

class DatabaseStorage final : public DeliveryStorage {
public:
    std::shared_ptr<DeliveryLog> open() override {
        deliveries_.expire_leases();
        return deliveries_.open();
    }

private:
    Deliveries deliveries_;
};

INSTANTIATE_TEST_SUITE_P(Postgres, DeliveryLogSuite,
                         testing::Values(DeliveryStorageKind{
                             "database", [] { return std::make_unique<DatabaseStorage>(); }}),
                         testing::PrintToStringParamName());

Texts taken_by(DeliveryLog& log) { return texts_of(run(log.take()).inbounds); }

template <class Call>
cubepi::ErrorCode code_of(Call call) {
    try {
        call();
    } catch (const cubepi::Error& error) {
        return error.code();
    }
    return cubepi::ErrorCode::unknown;
}

TEST_F(PostgresDeliveries, D205_SameMessageAtTwoGateways_IsReceivedOnce) {
    const LogPtr logs[] = {tables.open(), tables.open()};
    constexpr int messages = 50;
    int received[] = {0, 0};
    std::vector<std::thread> threads;
    for (int gateway : {0, 1}) {
        threads.emplace_back([&, gateway] {
            for (int i = 0; i < messages; ++i) {
                Envelope message = update("text", "m" + std::to_string(i));
                // In one session, or in a session of each gateway.
                if (i % 2 == 0) message.chat_id = std::to_string(gateway);
                if (run(logs[gateway]->receive(std::move(message)))) ++received[gateway];
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    // Messages that one has stored for the other.
    for (int gateway : {0, 1})
        received[gateway] += static_cast<int>(run(logs[gateway]->take()).inbounds.size());
    EXPECT_EQ(received[0] + received[1], messages);
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_inbound WHERE owner = 0"),
              Texts{"0"});
}

TEST_F(PostgresDeliveries, D205_MessageForBusySession_ReachesItsGateway) {
    const LogPtr owner = tables.open();
    const LogPtr other = tables.open();
    const auto one = store(*owner, "one");
    ASSERT_TRUE(one);
    EXPECT_FALSE(store(*other, "two"));
    EXPECT_TRUE(run(tables.open()->unfinished()).empty()) << "no gateway has taken it";
    EXPECT_FALSE(store(*owner, "three")) << "before it has taken an earlier message";
    EXPECT_EQ(taken_by(*other), Texts{});
    EXPECT_EQ(taken_by(*owner), (Texts{"two", "three"})) << "in the order of arrival";
    EXPECT_EQ(taken_by(*owner), Texts{}) << "once";
    EXPECT_TRUE(store(*owner, "four"));
    EXPECT_EQ(texts_of(run(owner->unfinished())), (Texts{"one", "two", "three", "four"}));
    EXPECT_TRUE(run(other->unfinished()).empty());
}

TEST_F(PostgresDeliveries, D253_StopOfOwner_HasNoOrder) {
    const LogPtr owner = tables.open();
    const LogPtr other = tables.open();
    ASSERT_TRUE(store(*owner, "one"));
    EXPECT_FALSE(store(*other, "two"));
    EXPECT_FALSE(run(other->receive(withdrawal_of(update("/stop", "elsewhere")))));
    const auto stop = run(owner->receive(withdrawal_of(update("/stop", "here"))));
    ASSERT_TRUE(stop) << "it stops the turn of the first one at once";
    run(owner->finish({*stop}));
    EXPECT_EQ(run(owner->take()).inbounds.size(), 2u) << "the others are taken in their order";
}

TEST_F(PostgresDeliveries, D205_MessageAfterFailedCall_WaitsForItsOrder) {
    const LogPtr log = tables.open();
    ASSERT_TRUE(store(*log, "one"));
    tables.query("ALTER TABLE bub_delivery_inbound ADD CONSTRAINT none CHECK (false) NOT VALID");
    EXPECT_THROW(store(*log, "two"), cubepi::CheckpointerError);
    tables.query("ALTER TABLE bub_delivery_inbound DROP CONSTRAINT none");
    // As if it had been stored, and the connection was lost before the answer.
    tables.query(
        "INSERT INTO bub_delivery_inbound (id, account, channel, session, owner, fence, state,"
        " message, address) SELECT nextval('bub_delivery_ids'), account, channel, session, owner,"
        " fence, state, replace(message, 'one', 'two'), replace(address, 'one', 'two') FROM"
        " bub_delivery_inbound");
    EXPECT_FALSE(store(*log, "three")) << "before it knows of the second one";
    EXPECT_EQ(taken_by(*log), (Texts{"two", "three"}));
    EXPECT_TRUE(store(*log, "four"));
}

TEST_F(PostgresDeliveries, D275_LostCallExecutedLate_IsTaken) {
    PostgresProxy proxy(tables.server.socket_directory());
    tables.options.database.connection = proxy.connection(tables.database);
    tables.options.database.lock_timeout = std::chrono::minutes(5);
    const LogPtr log = tables.open();
    run(log->finish({store(*log, "one").value()}));
    RawPostgres blocking(tables.server.connection(tables.database));
    (void)blocking.query("BEGIN; SELECT 1 FROM bub_delivery_sessions FOR UPDATE");
    std::atomic<bool> has_failed = false;
    std::thread receiving([&] {
        EXPECT_THROW(store(*log, "two"), cubepi::CheckpointerError);
        has_failed = true;
    });
    // The server executes the call and its repetitions later: it does not know that the connections are closed.
    int waiting = 0;
    while (!has_failed) {
        const int now = std::stoi(
            tables.query("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid"
                         " FROM pg_stat_activity WHERE datname = current_database())")[0]);
        if (now > waiting) proxy.release(true);
        waiting = std::max(waiting, now);
    }
    receiving.join();
    EXPECT_EQ(taken_by(*log), Texts{});
    (void)blocking.query("COMMIT");
    while (tables.query("SELECT count(*) FROM bub_delivery_inbound").front() != "2")
        std::this_thread::yield();
    EXPECT_FALSE(store(*log, "three")) << "before it knows of the second one";
    EXPECT_EQ(taken_by(*log), (Texts{"two", "three"}));
}

/// Locks sessions as a call does.
void lock(detail::DeliveryTables& gateway, const Texts& sessions) {
    const auto call = std::make_shared<detail::DeliveryWrite>();
    call->sessions = sessions;
    call->write = [](detail::SqlBatch& batch) { batch.add("SELECT 1"); };
    gateway.enqueue(call);
    gateway.complete(call);
}

/// The session "a" is new to the first transaction, which waits for "z", and known to the second one.
TEST_F(PostgresDeliveries, D275_SessionNewToOneCall_DoesNotDeadlock) {
    tables.options.database.lock_timeout = std::chrono::minutes(5);
    detail::DeliveryTables one(tables.options);
    detail::DeliveryTables two(tables.options);
    for (detail::DeliveryTables* gateway : {&one, &two}) lock(*gateway, {"z"});
    RawPostgres blocking(tables.server.connection(tables.database));
    RawPostgres third(tables.server.connection(tables.database));
    const auto are_waiting = [&](const std::string& count) {
        return tables.query(
                   "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid IN (SELECT"
                   " pid FROM pg_stat_activity WHERE datname = current_database())")[0] == count;
    };
    const std::string log = tables.server.log_of([&] {
        (void)blocking.query("BEGIN; SELECT 1 FROM bub_delivery_sessions FOR UPDATE");
        std::thread first([&] { lock(one, {"a", "z"}); });
        while (!are_waiting("1")) std::this_thread::yield();
        // It is stored at once, or has to wait for the first one, which has stored it.
        PQsendQuery(third.get(),
                    "INSERT INTO bub_delivery_sessions (key) VALUES ('a') ON CONFLICT DO NOTHING");
        PQflush(third.get());
        while (PQisBusy(third.get()) != 0 && !are_waiting("2")) PQconsumeInput(third.get());
        const bool waits = PQisBusy(third.get()) != 0;
        std::thread second([&] { lock(two, {"a", "z"}); });
        while (!are_waiting(waits ? "3" : "2")) std::this_thread::yield();
        (void)blocking.query("COMMIT");
        first.join();
        second.join();
        while (PGresult* const result = PQgetResult(third.get())) PQclear(result);
    });
    EXPECT_EQ(log.find("deadlock detected"), std::string::npos) << log;
}

TEST_F(PostgresDeliveries, D280_FailureAtCommit_StoresNothing) {
    const LogPtr log = tables.open();
    tables.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'refused';"
        " END$$");
    tables.query(
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON bub_delivery_inbound DEFERRABLE INITIALLY"
        " DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()");
    EXPECT_THROW(store(*log, "one"), cubepi::CheckpointerError);
    tables.query("DROP TRIGGER refuse ON bub_delivery_inbound");
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_inbound"), Texts{"0"});
    EXPECT_TRUE(store(*log, "one"));
}

TEST_F(PostgresDeliveries, D280_TransactionWithoutBegin_IsReadCommitted) {
    tables.query("ALTER DATABASE " + tables.database +
                 " SET default_transaction_isolation = 'serializable'");
    detail::DeliveryTables gateway(tables.options);
    std::string level;
    const auto call = std::make_shared<detail::DeliveryWrite>();
    call->sessions = {"a"};
    call->write = [](detail::SqlBatch& batch) {
        batch.add("SELECT current_setting('transaction_isolation')");
    };
    call->read = [&level](const detail::SqlResult& row) { level = row.string(0, 0); };
    gateway.enqueue(call);
    gateway.complete(call);
    EXPECT_EQ(level, "read committed");
}

/// Returns the statement of a note that the work records, with its values, to execute it later.
std::string noted(cubepi::PostgresServer& server, const std::function<void()>& work) {
    const std::string text = server.log_of(work);
    std::smatch found;
    if (!std::regex_search(
            text, found,
            std::regex("LOG:  execute [^:]+: (WITH mine [^\n]*)\n.*DETAIL:  parameters: ([^\n]*)")))
        throw std::runtime_error("no note: " + text);
    std::string statement = found[1];
    const std::string values = found[2];
    const std::regex value(R"(\$(\d+) = ('[^']*'))");
    const std::regex number("'(-?\\d+)'");
    for (std::sregex_iterator at(values.begin(), values.end(), value), end; at != end; ++at) {
        const std::string literal = std::regex_replace((*at)[2].str(), number, "($1)");
        statement = std::regex_replace(statement, std::regex("\\$" + (*at)[1].str()), literal);
    }
    return statement;
}

/// The connection of the call was lost, and it was repeated.
TEST_F(PostgresDeliveries, D275_LateBegin_LeavesTheNextTurn) {
    tables.options.database.connection += " options=-clog_statement=all";
    const LogPtr log = tables.open();
    const std::string message = store(*log, "one").value();
    const std::string late = noted(tables.server, [&] { run(log->begin({message})); });
    run(log->begin({message}));
    const std::string row = "SELECT begun, begun_by, state FROM bub_delivery_inbound";
    const Texts begun = tables.query(row);
    tables.query(late);
    EXPECT_EQ(tables.query(row), begun);
    run(log->put_back({message}));
    EXPECT_EQ(tables.query(row), (Texts{"0", "{}", "waiting"}));
}

TEST_F(PostgresDeliveries, D97_HeldMessage_IsNotUnfinished) {
    const LogPtr log = tables.open();
    const Envelope address = from("chat", "1", "one");
    const std::string message = store(*log, "one").value();
    EXPECT_TRUE(run(log->has_unfinished(address)));
    run(log->begin({message}));
    EXPECT_TRUE(run(log->has_unfinished(address)));
    run(log->hold({message}));
    EXPECT_FALSE(run(log->has_unfinished(address)));
}

/// The connection of the call was lost, the call was repeated, and the message has been begun again since.
TEST_F(PostgresDeliveries, D275_LatePutBack_LeavesTheNextTurn) {
    tables.options.database.connection += " options=-clog_statement=all";
    const LogPtr log = tables.open();
    const std::string message = store(*log, "one").value();
    run(log->begin({message}));
    const std::string statement = noted(tables.server, [&] { run(log->put_back({message})); });
    const std::string count = "SELECT begun, begun_by[1] = owner, state FROM bub_delivery_inbound";
    EXPECT_EQ(tables.query(count), (Texts{"0", "NULL", "waiting"}));
    run(log->begin({message}));
    tables.query(statement);
    EXPECT_EQ(tables.query(count), (Texts{"1", "t", "working"}));
    run(log->put_back({message}));
    EXPECT_EQ(tables.query(count), (Texts{"0", "NULL", "waiting"}));
}

TEST_F(PostgresDeliveries, D275_AnswersOfASession_HaveIncreasingIds) {
    const LogPtr log = tables.open();
    const auto answer = [&](const std::string& text, Texts to) {
        return std::stoll(run(log->intend(from("chat", "1", text), std::move(to))));
    };
    std::vector<long long> ids;
    for (const std::string text : {"one", "two"}) {
        const std::string message = store(*log, text).value();
        run(log->begin({message}));
        ids.push_back(answer("re: " + text, {message}));
        ids.push_back(answer("more", {message}));
        run(log->begin({message}));
        ids.push_back(answer("notice", {}));
        ids.push_back(answer("again", {message}));
        run(log->finish({message}));
    }
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()), ids.end());
}

TEST_F(PostgresDeliveries, D205_IdleSession_MovesToReceivingGateway) {
    const LogPtr first = tables.open();
    const LogPtr second = tables.open();
    for (const LogPtr& log : {first, second, first}) {
        const auto id = run(log->receive(from("chat", "1", "text")));
        ASSERT_TRUE(id);
        run(log->begin({*id}));
        run(log->finish({*id}));
    }
    EXPECT_EQ(tables.query("SELECT fence FROM bub_delivery_sessions"), Texts{"3"});
}

TEST_F(PostgresDeliveries, D293_LeftMessages_FollowTheRunningTurn) {
    const LogPtr draining = tables.open();
    const LogPtr next = tables.open();
    const std::string one = store(*draining, "one").value();
    const std::string two = store(*draining, "two").value();
    run(draining->begin({one}));
    run(draining->record(DeliveryNote::left, {two}, ""));
    draining->serve({});
    EXPECT_FALSE(store(*draining, "three"));
    EXPECT_EQ(taken_by(*next), Texts{});
    run(draining->record(DeliveryNote::left, {two}, ""));  // without effect
    run(draining->finish({one}));
    EXPECT_EQ(taken_by(*next), (Texts{"two", "three"}));
    EXPECT_FALSE(run(draining->receive(from("chat", "2", "other"))));
    EXPECT_EQ(taken_by(*next), Texts{"other"});
}

TEST_F(PostgresDeliveries, D205_MessageBehindUnsentAnswer_WaitsForItsGateway) {
    const LogPtr sending = tables.open();
    const LogPtr other = tables.open();
    const std::string answer = leave_unsent(*sending);
    EXPECT_FALSE(store(*other, "two")) << "its answer would be sent before that of the first";
    EXPECT_EQ(taken_by(*other), Texts{});
    const UnfinishedRecords taken = run(sending->take());
    ASSERT_EQ(texts_of(taken.inbounds), Texts{"two"});
    run(sending->finish({taken.inbounds.front().id}));
    EXPECT_FALSE(store(*other, "three"));
    EXPECT_EQ(taken_by(*other), Texts{});
    run(sending->sent(answer));
    EXPECT_EQ(taken_by(*other), Texts{"three"});
}

TEST_F(PostgresDeliveries, D205_MessageBehindAnswerOfEndedGateway_FollowsIt) {
    const LogPtr sending = tables.open();
    (void)leave_unsent(*sending);
    tables.expire_leases();
    const LogPtr other = tables.open();
    EXPECT_FALSE(store(*other, "two"));
    const UnfinishedRecords taken = run(other->take());
    EXPECT_EQ(taken.answers.size(), 1U);
    EXPECT_EQ(taken.inbounds.size(), 1U);
}

TEST_F(PostgresDeliveries, D205_HeldAnswer_DoesNotKeepItsSession) {
    const LogPtr holding = tables.open();
    const std::string answer = leave_unsent(*holding);
    run(holding->record(DeliveryNote::answer_held, {answer}, ""));
    const LogPtr next = tables.open();
    EXPECT_TRUE(store(*next, "two"));
    const std::vector<Delivery> held = run(holding->unsettled());
    ASSERT_EQ(held.size(), 1U);
    EXPECT_TRUE(held.front().is_held);
    run(holding->resend(answer));
    EXPECT_FALSE(run(holding->unsettled()).front().is_held);
    run(holding->sent(answer));
    EXPECT_TRUE(run(holding->unsettled()).empty());
}

TEST_F(PostgresDeliveries, D293_SessionOfResentAnswer_IsLeft) {
    const LogPtr ended = tables.open();
    (void)leave_unsent(*ended);
    tables.expire_leases();
    const LogPtr draining = tables.open();
    const UnfinishedRecords taken = run(draining->take());
    ASSERT_EQ(taken.answers.size(), 1U);
    run(draining->sent(taken.answers.front().id));
    draining->serve({});
    EXPECT_FALSE(store(*draining, "two"));
    const LogPtr next = tables.open();
    EXPECT_EQ(taken_by(*next), Texts{"two"});
}

TEST_F(PostgresDeliveries, D293_SessionOfHeldAnswer_IsLeft) {
    const LogPtr ended = tables.open();
    (void)leave_unsent(*ended);
    tables.expire_leases();
    const LogPtr draining = tables.open();
    const UnfinishedRecords taken = run(draining->take());
    ASSERT_EQ(taken.answers.size(), 1U);
    draining->serve({});
    EXPECT_FALSE(store(*draining, "two"));
    run(draining->record(DeliveryNote::answer_held, {taken.answers.front().id}, ""));
    const LogPtr next = tables.open();
    EXPECT_EQ(taken_by(*next), Texts{"two"});
    tables.expire_leases();
    const LogPtr last = tables.open();
    const UnfinishedRecords moved = run(last->take());
    ASSERT_EQ(moved.answers.size(), 1U);
    EXPECT_TRUE(moved.answers.front().is_held);
}

TEST_F(PostgresDeliveries, D293_LeftMessageOfTakenSession_StaysThere) {
    const LogPtr draining = tables.open();
    const std::string one = store(*draining, "one").value();
    tables.expire_leases();
    const LogPtr next = tables.open();
    EXPECT_EQ(taken_by(*next), Texts{"one"});
    EXPECT_THROW(run(draining->record(DeliveryNote::left, {one}, "")), SessionTakenError);
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_inbound AS i JOIN"
                           " bub_delivery_sessions AS s ON s.key = i.session AND s.owner = i.owner"
                           " WHERE s.owner > 0"),
              Texts{"1"});
}

TEST_F(PostgresDeliveries, D227_SessionOfSameGateway_HasTheSameLease) {
    const LogPtr log = tables.open();
    const std::string one = store(*log, "one").value();
    const std::optional<TurnLease> lease = log->lease({one});
    ASSERT_TRUE(lease);
    run(log->finish({one}));
    EXPECT_FALSE(log->lease({one}));
    const std::string two = store(*log, "two").value();
    EXPECT_EQ(log->lease({two}), lease) << "the end of the first turn may still be written";
    // Stored by another gateway, and left to this one.
    const LogPtr other = tables.open();
    EXPECT_FALSE(store(*other, "three"));
    run(log->finish({two}));
    const UnfinishedRecords taken = run(log->take());
    ASSERT_EQ(taken.inbounds.size(), 1U);
    EXPECT_EQ(log->lease({taken.inbounds.front().id}), lease);
    run(log->finish({taken.inbounds.front().id}));
    const std::string four = store(*other, "four").value();
    EXPECT_EQ(other->lease({four}), (TurnLease{lease->session, lease->fence + 1}));
}

/// Executes calls of a log in one transaction: they are queued while its thread waits for a lock, of these rows, in `first`.
void together(const Deliveries& tables, const std::string& locked,
              const std::function<void()>& first, std::vector<Task<>> calls) {
    RawPostgres blocking(tables.server.connection(tables.database));
    (void)blocking.query("BEGIN; SELECT 1 FROM " + locked + " FOR UPDATE");
    std::thread waiting(first);
    while (tables.query("SELECT count(*) FROM pg_locks WHERE NOT granted").front() == "0")
        std::this_thread::yield();
    calls.push_back([](RawPostgres& held) -> Task<> {
        (void)held.query("COMMIT");
        co_return;
    }(blocking));
    run(cubepi::when_all(std::move(calls)));
    waiting.join();
}

void together(const Deliveries& tables, DeliveryLog& log, std::vector<Task<>> calls) {
    together(tables, "bub_delivery_gateways", [&log] { (void)run(log.take()); }, std::move(calls));
}

Task<> receive(DeliveryLog& log, Envelope message) {
    const std::optional<std::string> id = co_await log.receive(std::move(message));
    EXPECT_TRUE(id);
}

TEST_F(PostgresDeliveries, D205_MessageReceivedDuringTake_FollowsTakenOnes) {
    const LogPtr log = tables.open();
    const LogPtr other = tables.open();
    other->serve({});
    EXPECT_FALSE(store(*other, "one"));
    const std::string busy = run(log->receive(from("chat", "2", "busy"))).value();
    UnfinishedRecords taken;
    std::vector<Task<>> calls;
    calls.push_back([](DeliveryLog& to, UnfinishedRecords& records) -> Task<> {
        records = co_await to.take();
    }(*log, taken));
    // Its caller would get it after those that the call before has taken, and that follow it.
    calls.push_back(receive(*log, update("two", "two")));
    together(
        tables,
        "bub_delivery_sessions WHERE key IN (SELECT session FROM bub_delivery_inbound WHERE owner "
        "> 0)",
        [&] { run(log->begin({busy})); }, std::move(calls));
    EXPECT_EQ(texts_of(taken.inbounds), Texts{"one"});
}

TEST_F(PostgresDeliveries, D205_MessageDuringEndOfLast_KeepsTheSession) {
    tables.options.database.lock_timeout = std::chrono::minutes(5);
    const LogPtr owner = tables.open();
    const LogPtr other = tables.open();
    const std::string one = store(*owner, "one").value();
    EXPECT_EQ(taken_by(*other), Texts{});
    std::vector<Task<>> calls;
    calls.push_back(owner->finish({one}));
    calls.push_back(receive(*owner, update("two", "two")));
    together(tables, *owner, std::move(calls));
    EXPECT_FALSE(store(*other, "three")) << "the session has an unfinished message";
    EXPECT_EQ(taken_by(*other), Texts{});
    EXPECT_EQ(taken_by(*owner), Texts{"three"});
}

TEST_F(PostgresDeliveries, D205_EndedGateway_LosesItsSessionAndItsFence) {
    const LogPtr frozen = tables.open();
    const std::string one = store(*frozen, "one").value();
    run(frozen->begin({one}));
    const std::string answer = run(frozen->intend(from("chat", "1", "re: one"), {one}));
    const std::string waiting = run(frozen->intend(from("chat", "1", "notice"), {}));
    run(frozen->wait(waiting, true));
    tables.expire_leases();
    const LogPtr next = tables.open();
    const UnfinishedRecords taken = run(next->take());
    ASSERT_EQ(texts_of(taken.inbounds), Texts{"one"});
    EXPECT_EQ(taken.inbounds[0].begun, 1u);
    EXPECT_TRUE(taken.inbounds[0].answered);
    ASSERT_EQ(taken.answers.size(), 2u);
    EXPECT_TRUE(taken.answers[1].waits);

    const Envelope late = from("chat", "1", "late");
    EXPECT_THROW(run(frozen->begin({one})), SessionTakenError);
    EXPECT_THROW(run(frozen->finish({one})), SessionTakenError);
    EXPECT_THROW(run(frozen->plan({TurnOutput(late)}, {one})), SessionTakenError);
    EXPECT_THROW(run(frozen->intend(late, {one})), SessionTakenError);
    EXPECT_THROW(run(frozen->wait(waiting, false)), SessionTakenError);
    EXPECT_THROW(run(frozen->sent(answer)), SessionTakenError);
    EXPECT_THROW(run(frozen->failed(answer, "late")), SessionTakenError);
    EXPECT_TRUE(run(frozen->unfinished()).empty());
    EXPECT_EQ(taken_by(*frozen), Texts{}) << "it lives again, and the session is of another";
    const std::vector<StoredInbound> left = run(next->unfinished());
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].begun, 1u);
    EXPECT_EQ(left[0].outlived, 1u);
    EXPECT_EQ(run(next->unsettled()).size(), 2u);
    // Back again, under another fence.
    tables.expire_leases();
    const UnfinishedRecords back = run(frozen->take());
    ASSERT_EQ(back.inbounds.size(), 1u);
    EXPECT_NE(back.inbounds[0].id, one);
    EXPECT_THROW(run(frozen->begin({one})), SessionTakenError);
    run(frozen->begin({back.inbounds[0].id}));
}

/// The turns of the only message, and how many of their gateways live.
std::pair<std::uint64_t, std::uint64_t> turns_of(const std::vector<StoredInbound>& inbounds) {
    EXPECT_EQ(inbounds.size(), 1u);
    if (inbounds.empty()) return {};
    return {inbounds.front().begun, inbounds.front().outlived};
}
using Turns = std::pair<std::uint64_t, std::uint64_t>;

TEST_F(PostgresDeliveries, D264_GatewayThatReturns_DidNotEnd) {
    const LogPtr first = tables.open();
    const std::string one = store(*first, "one").value();
    run(first->begin({one}));
    tables.expire_leases();
    const LogPtr second = tables.open();
    UnfinishedRecords taken = run(second->take());
    EXPECT_EQ(turns_of(taken.inbounds), Turns(1, 0)) << "it seems to have ended";
    run(second->begin({taken.inbounds.at(0).id}));
    EXPECT_EQ(taken_by(*first), Texts{});
    EXPECT_EQ(turns_of(run(second->unfinished())), Turns(2, 2));
    // The second one is killed.
    tables.query(
        "UPDATE bub_delivery_gateways SET lease_until = now() - interval '1 minute' WHERE"
        " number = (SELECT max(number) FROM bub_delivery_gateways)");
    const LogPtr third = tables.open();
    taken = run(third->take());
    EXPECT_EQ(turns_of(taken.inbounds), Turns(2, 1));
    // The turn of the first one ends: what happens to its process later says nothing.
    run(first->put_back({one}));
    EXPECT_EQ(turns_of(run(third->unfinished())), Turns(1, 0));
    // The first one has it once more, and ends in that turn.
    tables.expire_leases();
    taken = run(first->take());
    run(first->begin({taken.inbounds.at(0).id}));
    run(first->put_back({one}));
    EXPECT_EQ(turns_of(run(first->unfinished())), Turns(2, 1));
}

TEST_F(PostgresDeliveries, D264_MessageThatKillsEachGateway_Counts) {
    std::vector<LogPtr> killed;
    for (std::uint64_t turns = 0; turns < 3; ++turns) {
        const LogPtr log = killed.emplace_back(tables.open());
        if (turns == 0) (void)store(*log, "one");
        tables.expire_leases();
        UnfinishedRecords taken = run(killed.emplace_back(tables.open())->take());
        EXPECT_EQ(turns_of(taken.inbounds), Turns(turns, 0));
        // Also if the first call has failed and is repeated.
        for (int i = 0; i < 2; ++i) run(killed.back()->begin({taken.inbounds.at(0).id}));
    }
}

TEST_F(PostgresDeliveries, D205_SlowGatewayWithoutSuccessor_Continues) {
    const LogPtr log = tables.open();
    const std::string one = store(*log, "one").value();
    tables.expire_leases();
    run(log->begin({one}));
    EXPECT_EQ(taken_by(*log), Texts{});
    run(log->finish({one}));
    const LogPtr other = tables.open();
    EXPECT_EQ(taken_by(*other), Texts{});
    // A row that has been removed after an hour is written again.
    const std::string two = store(*log, "two").value();
    tables.query("DELETE FROM bub_delivery_gateways");
    EXPECT_EQ(taken_by(*log), Texts{"two"});
    EXPECT_THROW(run(log->begin({two})), SessionTakenError);
}

TEST_F(PostgresDeliveries, D264_GatewayFrozenForHours_ReturnsAsAnother) {
    const LogPtr frozen = tables.open();
    const std::string one = store(*frozen, "one").value();
    run(frozen->begin({one}));
    tables.query("UPDATE bub_delivery_gateways SET lease_until = now() - interval '2 hours'");
    const LogPtr next = tables.open();
    const std::vector<StoredInbound> taken = run(next->take()).inbounds;
    EXPECT_EQ(turns_of(taken), Turns(1, 0));
    run(next->begin({taken.at(0).id}));
    const Texts gateways{"1"};
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_gateways"), gateways);
    EXPECT_THROW(run(frozen->intend(from("chat", "1", "late"), {one})), SessionTakenError);
    EXPECT_THROW(run(frozen->finish({one})), SessionTakenError);
    // Until it polls, others do not know that it lives.
    Envelope two = update("two", "two");
    two.chat_id = "2";
    const std::string lost = run(frozen->receive(std::move(two))).value();
    EXPECT_EQ(taken_by(*next), Texts{"two"});
    EXPECT_THROW(run(frozen->begin({lost})), SessionTakenError);
    EXPECT_EQ(taken_by(*frozen), Texts{});
    Envelope three = update("three", "three");
    three.chat_id = "3";
    const std::string its_own = run(frozen->receive(std::move(three))).value();
    EXPECT_EQ(taken_by(*next), Texts{});
    run(frozen->begin({its_own}));
    run(frozen->finish({its_own}));
    // The turn that it has lost counts like one whose process has ended.
    run(frozen->put_back({one}));
    EXPECT_EQ(turns_of(run(next->unfinished_of({taken.at(0).id}))), Turns(2, 1));
}

TEST_F(PostgresDeliveries, D205_ReleasedRecords_AreTakenAtOnce) {
    const LogPtr log = tables.open();
    (void)store(*log, "one");
    EXPECT_EQ(taken_by(*tables.open()), Texts{}) << "it lives";
    run(log->release());
    EXPECT_EQ(taken_by(*log), Texts{"one"}) << "the next manager of the process";
    run(log->release());
    const LogPtr other = tables.open();
    EXPECT_EQ(taken_by(*other), Texts{"one"});
}

TEST_F(PostgresDeliveries, D205_KilledProcessOfHost_IsReplacedAtOnce) {
    const LogPtr killed = tables.open();
    (void)store(*killed, "one");
    // As if the number of the process were used again.
    tables.query("UPDATE bub_delivery_gateways SET process_start = process_start - 1");
    EXPECT_EQ(taken_by(*tables.open()), Texts{"one"});
}

TEST_F(PostgresDeliveries, D205_OtherAccounts_AreSeparate) {
    const LogPtr log = tables.open();
    (void)store(*log, "one");
    tables.expire_leases();
    tables.options.account = "another";
    const LogPtr other = tables.open();
    EXPECT_EQ(taken_by(*other), Texts{});
    EXPECT_TRUE(store(*other, "one"));
    EXPECT_EQ(texts_of(run(log->unfinished())), Texts{"one"});
}

TEST_F(PostgresDeliveries, D289_Log_CountsTheGatewaysOfItsAccount) {
    const LogPtr log = tables.open();
    EXPECT_EQ(log->peers()->count(), 1u);
    (void)taken_by(*log);
    const LogPtr second = tables.open();
    (void)taken_by(*second);
    EXPECT_EQ(second->peers()->count(), 2u);
    EXPECT_EQ(log->peers()->count(), 1u) << "as of its last take()";
    tables.options.account = "another";
    const LogPtr other = tables.open();
    (void)taken_by(*other);
    EXPECT_EQ(other->peers()->count(), 1u);
    (void)taken_by(*log);
    EXPECT_EQ(log->peers()->count(), 2u);
    run(second->release());
    (void)taken_by(*log);
    EXPECT_EQ(log->peers()->count(), 1u);
}

TEST_F(PostgresDeliveries, D205_OtherChannels_AreLeftToTheirGateways) {
    const LogPtr log = tables.open();
    (void)store(*log, "one");
    (void)run(log->receive(from("other", "1", "two")));
    (void)run(log->intend(from("other", "1", "re: zero"), {}));
    (void)run(log->intend(from("chat", "2", "notice"), {}));
    tables.expire_leases();
    const LogPtr other = tables.open();
    other->serve({"other", "third"});
    const UnfinishedRecords taken = run(other->take());
    EXPECT_EQ(texts_of(taken.inbounds), Texts{"two"});
    ASSERT_EQ(taken.answers.size(), 1u);
    EXPECT_EQ(taken.answers[0].message.content_text(), "re: zero");
    const LogPtr chat = tables.open();
    chat->serve({"chat"});
    const UnfinishedRecords rest = run(chat->take());
    EXPECT_EQ(texts_of(rest.inbounds), Texts{"one"});
    EXPECT_EQ(rest.answers.size(), 1u);
}

TEST_F(PostgresDeliveries, B18_HostileIds_AreDistinct) {
    const LogPtr log = tables.open();
    const Texts ids{"\xff",
                    "\xfe",
                    "\xef\xbf\xbd",
                    std::string("\0", 1),
                    std::string("\0\0", 2),
                    std::string(1'000'000, 'x')};
    for (const std::string& id : ids) {
        EXPECT_TRUE(run(log->receive(update("text", id))));
        EXPECT_FALSE(run(log->receive(update("text", id))));
        EXPECT_TRUE(run(log->find("chat", id)));
    }
    Envelope strange = update("text", "one");
    strange.channel = std::string("c\0h\xff", 4);
    strange.chat_id = std::string("\0\xff", 2);
    EXPECT_TRUE(run(log->receive(strange)));
    EXPECT_FALSE(run(log->receive(strange)));
}

TEST_F(PostgresDeliveries, B14_OldSettledRecords_AreRemoved) {
    LogPtr log = tables.open();
    for (const char* text : {"old", "new", "open"}) {
        const std::string id = store(*log, text).value();
        run(log->sent(run(log->intend(from("chat", "1", "re"), {id}))));
        if (text != std::string("open")) run(log->finish({id}));
    }
    tables.query(
        "UPDATE bub_delivery_inbound SET finished_at = now() - interval '91 days' WHERE id ="
        " (SELECT min(id) FROM bub_delivery_inbound)");
    tables.query(
        "UPDATE bub_delivery_outbound SET settled_at = now() - interval '91 days' WHERE id ="
        " (SELECT min(id) FROM bub_delivery_outbound)");
    run(log->take());
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_inbound"), Texts{"2"});
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_outbound"), Texts{"2"});
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_outbound WHERE message IS NOT NULL"),
              Texts{"0"})
        << "settled records have no contents";
    EXPECT_FALSE(store(*log, "new"));
    EXPECT_TRUE(store(*log, "old")) << "it is forgotten";
}

TEST_F(PostgresDeliveries, B14_ManyOldRecords_AreRemovedByNextTakes) {
    LogPtr log = tables.open();
    tables.query(
        "INSERT INTO bub_delivery_inbound (id, account, channel, session, owner, fence, state,"
        " message_key, address, finished_at) SELECT -i, '" +
        tables.options.account +
        "', 'chat', 'chat:' || i, 0, 1, 'done', 'old-' || i, '{}', now() - interval '91 days'"
        " FROM generate_series(1, 5001) AS i");
    run(log->take());
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_inbound"), Texts{"1"});
    while (tables.query("SELECT count(*) FROM bub_delivery_inbound") != Texts{"0"})
        run(log->take());
}

TEST_F(PostgresDeliveries, B14_TooManyUnfinishedRecords_RefuseMessagesOnly) {
    tables.options.max_open = 2;
    const LogPtr log = tables.open();
    const std::string one = store(*log, "one").value();
    (void)run(log->intend(from("chat", "1", "held"), {}));
    run(log->take());
    EXPECT_EQ(code_of([&] { (void)store(*log, "two"); }), cubepi::ErrorCode::storage_full);
    run(log->sent(run(log->intend(from("chat", "1", "re: one"), {one}))));
    run(log->finish({one}));
    run(log->take());
    EXPECT_TRUE(store(*log, "two"));
}

TEST_F(PostgresDeliveries, B14_MessagesForAnotherGateway_AreLimited) {
    const LogPtr owner = tables.open();
    const LogPtr other = tables.open();
    const std::string running = store(*owner, "running").value();
    run(owner->begin({running}));
    for (const LogPtr& log : {owner, other}) log->limit_waiting(2);
    EXPECT_FALSE(store(*other, "one"));
    EXPECT_FALSE(store(*owner, "two")) << "behind the first one";
    for (const LogPtr& log : {owner, other})
        EXPECT_EQ(code_of([&] { (void)store(*log, "three"); }), cubepi::ErrorCode::limit);
    EXPECT_FALSE(store(*other, "one")) << "it is known";
    EXPECT_TRUE(run(other->receive(from("chat", "2", "of another session"))));
    run(owner->take());
    EXPECT_EQ(code_of([&] { (void)store(*other, "three"); }), cubepi::ErrorCode::limit)
        << "the owner has the others now";
    run(owner->finish({running}));
    const StoredInbound next = run(owner->unfinished()).at(0);
    run(owner->begin({next.id}));
    EXPECT_FALSE(store(*other, "three")) << "one has its turn";
    EXPECT_EQ(tables.query("SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS NULL"),
              Texts{"4"});
}

TEST_F(PostgresDeliveries, B14_ExemptMessages_AreStoredInFullSession) {
    const LogPtr owner = tables.open();
    const LogPtr other = tables.open();
    run(owner->begin({store(*owner, "running").value()}));
    other->limit_waiting(1);
    // Its id does not make it an answer.
    EXPECT_FALSE(run(other->receive(update("one", "\"answer\": {\"action\""))));
    EXPECT_FALSE(run(other->receive(withdrawal_of(update("/stop", "stop")))));
    Envelope result = update("result", "result");
    result.rest[task_results_key] = true;
    EXPECT_FALSE(run(other->receive(result)));
    result.inbound_id = "later";
    result.rest.clear();
    result.held = std::make_shared<HeldTurn>();
    EXPECT_FALSE(run(other->receive(result)));
    EXPECT_EQ(code_of([&] { (void)store(*other, "two"); }), cubepi::ErrorCode::limit);
    // Answers have a limit of their own, for which a request to stop counts.
    const auto answer = [&other](const std::string& id) {
        Envelope message = update(",approve", id);
        note_answer(message);
        return run(other->receive(std::move(message)));
    };
    for (std::ptrdiff_t i = 1; i < detail::max_waiting_answers; ++i)
        EXPECT_FALSE(answer("answer " + std::to_string(i)));
    EXPECT_EQ(code_of([&] { (void)answer("more"); }), cubepi::ErrorCode::limit);
    EXPECT_FALSE(run(other->receive(withdrawal_of(update("/stop", "another")))));
}

TEST_F(PostgresDeliveries, B18_CallWithCutConnection_IsStoredOnce) {
    PostgresProxy proxy(tables.server.socket_directory());
    tables.options.database.connection = proxy.connection(tables.database);
    const LogPtr log = tables.open();
    (void)store(*log, "measured first");
    (void)proxy.take_count(PostgresProxy::Direction::to_server);
    (void)proxy.take_count(PostgresProxy::Direction::to_client);
    (void)store(*log, "measured");
    int stored = 2;
    for (const auto direction :
         {PostgresProxy::Direction::to_server, PostgresProxy::Direction::to_client}) {
        const std::size_t bytes = proxy.take_count(direction);
        ASSERT_GT(bytes, 200U);
        for (std::size_t at = 0; at <= bytes; at += 17) {
            proxy.cut_after(direction, at);
            EXPECT_TRUE(store(*log, "message " + std::to_string(stored++)));
        }
        // The last cut may not have been reached.
        (void)run(log->unfinished());
        (void)proxy.take_count(PostgresProxy::Direction::to_client);
        (void)store(*log, "message " + std::to_string(stored++));
    }
    EXPECT_EQ(run(log->unfinished()).size(), static_cast<std::size_t>(stored));
    EXPECT_EQ(taken_by(*log), Texts{}) << "no call has failed";
}

TEST_F(PostgresDeliveries, B18_D275_TurnWithCutConnection_IsStoredOnce) {
    PostgresProxy proxy(tables.server.socket_directory());
    tables.options.database.connection = proxy.connection(tables.database);
    const LogPtr log = tables.open();
    int turns = 0;
    // Also of a message without an id of its platform.
    const auto turn = [&] {
        const std::string text = "turn " + std::to_string(++turns);
        const bool is_named = turns % 2 == 0;
        const Envelope message = is_named ? update(text, text) : from("chat", "1", text);
        const std::optional<std::string> id = run(log->receive(message));
        ASSERT_TRUE(id);
        run(log->begin({*id}));
        const Envelope output = from("chat", "1", "re: " + text);
        run(log->sent(run(log->intend_output(TurnOutput(output, 0, 1), {*id}))));
        EXPECT_EQ(turns_of(run(log->unfinished())), Turns(1, 1));
        run(log->finish({*id}));
    };
    turn();
    (void)proxy.take_count(PostgresProxy::Direction::to_server);
    (void)proxy.take_count(PostgresProxy::Direction::to_client);
    turn();
    for (const auto direction :
         {PostgresProxy::Direction::to_server, PostgresProxy::Direction::to_client}) {
        const std::size_t bytes = proxy.take_count(direction);
        ASSERT_GT(bytes, 500U);
        for (std::size_t at = 0; at <= bytes; at += 61) {
            proxy.cut_after(direction, at);
            turn();
        }
        // The last cut may not have been reached.
        (void)run(log->unfinished());
        (void)proxy.take_count(PostgresProxy::Direction::to_client);
        turn();
    }
    const std::string all = std::to_string(turns);
    EXPECT_EQ(tables.query("SELECT count(*), count(*) FILTER (WHERE begun = 1 AND all_sent AND"
                           " answered AND state = 'done') FROM bub_delivery_inbound"),
              (Texts{all, all}));
    EXPECT_EQ(tables.query("SELECT count(*), count(*) FILTER (WHERE state = 'sent') FROM"
                           " bub_delivery_outbound"),
              (Texts{all, all}));
    EXPECT_EQ(tables.query("SELECT owner < 0, fence FROM bub_delivery_sessions"),
              (Texts{"t", "1"}));
    EXPECT_EQ(taken_by(*log), Texts{}) << "no call has failed";
}

TEST_F(PostgresDeliveries, B18_RecordOfFailedCall_IsTakenLater) {
    const LogPtr log = tables.open();
    const std::string one = store(*log, "one").value();
    tables.query("ALTER TABLE bub_delivery_inbound RENAME TO hidden");
    EXPECT_EQ(code_of([&] { (void)store(*log, "two"); }), cubepi::ErrorCode::schema_mismatch);
    tables.query("ALTER TABLE hidden RENAME TO bub_delivery_inbound");
    // As if the call had been stored nevertheless.
    tables.query(
        "INSERT INTO bub_delivery_inbound (id, account, channel, session, owner, fence, state,"
        " message, address) SELECT 99, account, channel, session, owner, fence, state, message,"
        " address FROM bub_delivery_inbound");
    const std::vector<StoredInbound> taken = run(log->take()).inbounds;
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0].id, "99.1");
    EXPECT_EQ(taken_by(*log), Texts{}) << "once";
    run(log->finish({one, "99.1"}));
    EXPECT_TRUE(run(log->unfinished()).empty());
}

StoredInbound adopted(const std::string& text, std::uint64_t begun) {
    StoredInbound inbound;
    inbound.message = update(text, text);
    inbound.begun = begun;
    return inbound;
}

TEST_F(PostgresDeliveries, D205_AdoptedTurn_StaysOneTurn) {
    const LogPtr log = tables.open();
    // Twice, as after a crash between the two logs.
    for (int start = 0; start < 2; ++start) {
        StoredInbound first = adopted("one", 1);
        first.planned.emplace_back(from("chat", "1", "re"), 1, 2);
        const std::string turn = run(log->adopt(std::move(first), {}));
        EXPECT_FALSE(turn.empty());
        (void)run(log->adopt(adopted("two", 1), turn));
        (void)run(log->adopt(adopted("three", 1), turn));
        (void)run(log->adopt(adopted("four", 0), {}));
    }
    const std::vector<StoredInbound> taken = run(log->take()).inbounds;
    ASSERT_EQ(texts_of(taken), (Texts{"one", "two", "three", "four"}));
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(taken[i].turn, taken[0].id) << i;
        EXPECT_EQ(taken[i].begun, 1u) << i;
    }
    EXPECT_EQ(taken[3].turn, "");
    ASSERT_EQ(taken[0].planned.size(), 1u);
    EXPECT_EQ(taken[0].planned[0].message.content_text(), "re");
    run(log->begin({taken[0].id, taken[1].id, taken[2].id}));
    EXPECT_EQ(run(log->unfinished())[2].begun, 2u);
}

TEST_F(PostgresDeliveries, D205_AnswerAdoptedAgain_IsStoredOnce) {
    const LogPtr log = tables.open();
    Delivery answer;
    answer.id = "7";
    answer.date = "2026-01-01T00:00:00Z";
    answer.message = from("chat", "1", "re: one");
    answer.resent = 2;
    run(log->adopt(answer));
    run(log->adopt(answer));
    Delivery waiting = answer;
    waiting.id = "8";
    waiting.waits = true;
    run(log->adopt(waiting));
    const std::vector<Delivery> taken = run(log->take()).answers;
    ASSERT_EQ(taken.size(), 2u);
    EXPECT_EQ(taken[0].message.content_text(), "re: one");
    EXPECT_EQ(taken[0].resent, 2u);
    EXPECT_FALSE(taken[0].waits);
    EXPECT_TRUE(taken[1].waits);
    run(log->sent(taken[0].id));
    run(log->adopt(answer));
    EXPECT_TRUE(run(log->take()).answers.empty()) << "it was sent";
    run(log->failed(taken[1].id, "discarded by the operator"));
    run(log->adopt(waiting));
    EXPECT_TRUE(run(log->take()).answers.empty()) << "it was discarded";
}

TEST_F(PostgresDeliveries, D206_RepeatedRequestOfTakenAnswer_IsNotMade) {
    const LogPtr slow = tables.open();
    const std::string id = run(slow->intend(from("chat", "1", "re"), {}));
    SendProgress progress(slow, id);
    EXPECT_TRUE(run(progress.begin()));
    progress.was_not_sent();
    EXPECT_TRUE(run(progress.begin())) << "it is still of this gateway";
    progress.was_not_sent();
    tables.expire_leases();
    const LogPtr next = tables.open();
    ASSERT_EQ(run(next->take()).answers.size(), 1u);
    EXPECT_THROW((void)run(progress.begin()), SessionTakenError);
}

std::string findings_in(const cubepi::StoreReport& report, cubepi::StoreFinding::Kind kind) {
    std::string text;
    for (const cubepi::StoreFinding& one : report.findings())
        if (one.kind == kind) text += one.where + ": " + one.what + "\n";
    return text;
}

TEST_F(PostgresDeliveries, D209_Check_FindsBrokenRowsAndChangesNothing) {
    using Kind = cubepi::StoreFinding::Kind;
    const LogPtr log = tables.open();
    const std::string begun = store(*log, "one").value();
    run(log->begin({begun}));
    for (const char* text : {"two", "three", "four"}) (void)store(*log, text);
    // Ids that are not valid UTF-8, or none.
    for (const char* id : {"\xff", "\xed\xa0\x80", ""}) (void)run(log->receive(update("text", id)));
    (void)run(log->intend(from("chat", "2", "re"), {}));
    const std::string over = store(*log, "over").value();
    run(log->finish({over}));
    const auto check = [this] { return run(check_postgres_deliveries(tables.options.database)); };
    cubepi::StoreReport report = check();
    EXPECT_EQ(findings_in(report, Kind::damage), "");
    const std::string notes = findings_in(report, Kind::note);
    EXPECT_NE(notes.find("message " + begun + ": its turn has begun 1 times"), std::string::npos)
        << notes;
    EXPECT_NE(notes.find("whether it arrived is not known"), std::string::npos) << notes;
    using Counts = std::vector<std::pair<std::string, std::int64_t>>;
    EXPECT_EQ(report.counts(),
              (Counts{{"unfinished messages", 7}, {"unsettled answers", 1}, {"gateways", 1}}));

    const auto break_rows = [this](const std::string& change, const std::string& key) {
        tables.query("UPDATE bub_delivery_inbound SET " + change +
                     " WHERE finished_at IS NULL AND message LIKE '%\"inbound_id\":\"" + key +
                     "\"%' OR message LIKE '%\"inbound_id\": \"" + key + "\"%'");
    };
    break_rows("planned = '[]', message_key = 'other'", "one");
    break_rows("fence = 9", "two");
    break_rows("message = '{'", "three");
    tables.query("UPDATE bub_delivery_outbound SET message = NULL");
    tables.query(
        "DELETE FROM bub_delivery_sessions WHERE key IN (SELECT session FROM"
        " bub_delivery_outbound)");
    tables.expire_leases();
    report = check();
    const std::string damage = findings_in(report, Kind::damage);
    for (const char* what :
         {"the outputs that are left of its turn cannot be read", "it is not found by its id",
          "its fence is later than that of its session", ": its content cannot be read",
          "no gateway takes it: its session has no row"}) {
        EXPECT_NE(damage.find(what), std::string::npos) << what << " in:\n" << damage;
    }
    EXPECT_EQ(report.damages(), 6u) << damage;
    EXPECT_NE(findings_in(report, Kind::note).find("8 records are of gateways that have ended"),
              std::string::npos);
    EXPECT_EQ(check().damages(), 6u) << "nothing was repaired";
}

TEST_F(PostgresDeliveries, D209_CheckOfOtherTables_NamesTheNextCommand) {
    tables.query("DELETE FROM bub_delivery_schema WHERE version > 1");
    tables.query("UPDATE bub_delivery_schema SET version = 0");
    cubepi::StoreReport report = run(check_postgres_deliveries(tables.options.database));
    ASSERT_EQ(report.damages(), 1u);
    EXPECT_NE(report.findings()[0].remedy.find("cubepi db migrate --tapes"), std::string::npos);
    tables.query("UPDATE bub_delivery_schema SET version = 9");
    EXPECT_EQ(run(check_postgres_deliveries(tables.options.database)).damages(), 1u);
    tables.options.database.connection =
        tables.server.connection(tables.server.create_empty_database());
    report = run(check_postgres_deliveries(tables.options.database));
    EXPECT_TRUE(report.is_sound()) << "sessions without a gateway need none";
    ASSERT_EQ(report.findings().size(), 1u);
    EXPECT_EQ(report.findings()[0].what, "there are none");
}

TEST_F(PostgresDeliveries, Tables_MustBeKnown) {
    const LogPtr other = tables.open();
    run(other->open());
    const cubepi::FormatVersion ours{postgres_delivery_tables().version(), 1};
    EXPECT_EQ(run(postgres_delivery_tables().status(tables.options.database)), ours);
    EXPECT_EQ(run(postgres_delivery_tables().apply(tables.options.database)), ours);
    const std::string newer = std::to_string(postgres_delivery_tables().version() + 1);
    tables.query("INSERT INTO bub_delivery_schema VALUES (" + newer + ")");
    run(tables.open()->open());
    tables.query("DELETE FROM bub_delivery_schema WHERE version < " + newer);
    try {
        run(tables.open()->open());
        FAIL() << "tables that this version cannot read were used";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("update the program"), std::string::npos);
    }
    tables.options.database.connection =
        tables.server.connection(tables.server.create_empty_database());
    EXPECT_FALSE(run(postgres_delivery_tables().status(tables.options.database)));
    try {
        run(tables.open()->open());
        FAIL() << "tables that are missing were used";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("cubepi db"), std::string::npos);
    }
}

TEST_F(PostgresDeliveries, D236_TablesOfVersion1_AreMigratedForBoth) {
    tables.query("DROP TABLE bub_delivery_leases, bub_delivery_calls, bub_delivery_division");
    tables.query("ALTER TABLE bub_delivery_gateways DROP COLUMN facts");
    tables.query("DELETE FROM bub_delivery_schema WHERE version > 1");
    try {
        run(tables.open()->open());
        FAIL() << "older tables were used";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("cubepi db migrate"), std::string::npos);
    }
    const cubepi::FormatVersion before{1, 1};
    EXPECT_EQ(run(postgres_delivery_tables().apply(tables.options.database)), before);
    run(tables.open()->open());
    // Programs of version 1 use the tables meanwhile.
    EXPECT_EQ(run(postgres_delivery_tables().status(tables.options.database))->readable_from, 1);
}

TEST_F(PostgresDeliveries, D236_AccountLease_IsHeldByOne) {
    const LogPtr one = tables.open();
    const LogPtr two = tables.open();
    const auto first = one->account_lease("telegram:42");
    const auto second = two->account_lease("telegram:42");
    EXPECT_TRUE(run(first->take()).is_held);
    const AccountLease::State refused = run(second->take());
    EXPECT_FALSE(refused.is_held);
    EXPECT_GT(refused.time, std::chrono::minutes(59));
    EXPECT_TRUE(run(first->take()).is_held) << "it is renewed";
    EXPECT_TRUE(run(two->account_lease("telegram:43")->take()).is_held);
    run(second->release());
    EXPECT_FALSE(run(second->take()).is_held) << "only its holder releases it";
    run(first->release());
    EXPECT_TRUE(run(second->take()).is_held);
    tables.query("UPDATE bub_delivery_leases SET lease_until = now()");
    EXPECT_TRUE(run(first->take()).is_held) << "its time is over";
    EXPECT_FALSE(run(second->take()).is_held);
}

TEST_F(PostgresDeliveries, D236_LeaseOfDeadProcess_IsFreeAtOnce) {
    const LogPtr log = tables.open();
    EXPECT_TRUE(run(log->account_lease("telegram:42")->take()).is_held);
    tables.query("UPDATE bub_delivery_leases SET pid = 4194305");
    const auto next = log->account_lease("telegram:42");
    const AccountLease::State refused = run(next->take());
    EXPECT_FALSE(refused.is_held);
    EXPECT_EQ(refused.time.count(), 0);
    EXPECT_TRUE(run(next->take()).is_held);
}

}  // namespace
}  // namespace bub::channel_tests
