// Gateways that are frozen while others need them: whose sessions are taken (D205), and whose answers are not waited for (D237).

#include <bub/channel/gateway_peers.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub::channel_tests {
namespace {

using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;
using Texts = std::vector<std::string>;
using LogPtr = std::shared_ptr<PostgresDeliveryLog>;

class FrozenGateway : public testing::Test {
protected:
    FrozenGateway()
        : database(PostgresServer::shared().connection(
              PostgresServer::shared().create_database(postgres_delivery_tables()))) {
        options.database.connection = database;
        // Only the test ends a lease.
        options.lease = std::chrono::hours(1);
    }
    LogPtr open() const { return std::make_shared<PostgresDeliveryLog>(options); }
    Texts query(const std::string& sql) const { return RawPostgres(database).query(sql); }
    static std::optional<std::string> store(DeliveryLog& log, const std::string& text) {
        Envelope message = from("chat", "1", text);
        message.inbound_id = text;
        return run(log.receive(std::move(message)));
    }
    static Texts taken_by(DeliveryLog& log) {
        Texts texts;
        for (const StoredInbound& one : run(log.take()).inbounds)
            texts.push_back(one.message.content_text());
        return texts;
    }
    const std::string database;
    PostgresDeliveryLogOptions options;
};

TEST_F(FrozenGateway, D205_RenewalDuringTake_LeavesNoMessage) {
    const LogPtr owner = open();
    const LogPtr other = open();
    const std::string id = store(*owner, "one").value();
    EXPECT_EQ(taken_by(*other), Texts{});
    const std::string of_owner = " WHERE number IN (SELECT owner FROM bub_delivery_sessions)";
    const std::string renewal = "UPDATE bub_delivery_gateways SET lease_until = now() + interval ";
    query(renewal + "'-1 minute'" + of_owner);
    // Between the statements that take sessions and messages is one about this table.
    RawPostgres lock(database);
    (void)lock.query("BEGIN");
    (void)lock.query("LOCK TABLE bub_delivery_outbound IN SHARE MODE");
    auto taking = std::async(std::launch::async, [&other] { return taken_by(*other); });
    while (query("SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM"
                 " pg_database WHERE datname = current_database())")
               .front() == "0")
        std::this_thread::yield();
    query(renewal + "'1 hour'" + of_owner);
    (void)lock.query("COMMIT");
    EXPECT_EQ(taking.get(), Texts{"one"});
    EXPECT_THROW(run(owner->begin({id})), SessionTakenError);
    EXPECT_FALSE(store(*owner, "two"));
    EXPECT_EQ(taken_by(*owner), Texts{});
    EXPECT_EQ(taken_by(*other), Texts{"two"});
}

/// Answers the requests to this gateway until one was answered.
Task<> answer_once(std::shared_ptr<GatewayPeers> peers) {
    for (bool is_answered = false; !is_answered;) {
        const std::vector<PeerCall> calls = co_await peers->receive("{}");
        for (const PeerCall& call : calls) {
            co_await peers->answer(call.id, "here");
            is_answered = true;
        }
    }
}

TEST_F(FrozenGateway, D237_EnoughAnswer_IsNotDelayedByOthers) {
    const LogPtr here = open();
    const LogPtr there = open();
    for (const LogPtr& log : {here, there}) (void)taken_by(*log);
    // It renews its lease, and does nothing else.
    query(
        "INSERT INTO bub_delivery_gateways (number, account, host, boot_id, pid, process_start,"
        " lease_until) SELECT nextval('bub_delivery_ids'), account, 'frozen', '', 1, 1, lease_until"
        " FROM bub_delivery_gateways LIMIT 1");
    std::vector<std::int64_t> numbers;
    for (const GatewayPeer& peer : run(here->peers()->list()))
        if (!peer.is_here) numbers.push_back(peer.number);
    ASSERT_EQ(numbers.size(), 2u);
    const auto ask = [&]() -> Task<std::vector<PeerReply>> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor, cubepi::ScopePolicy::collect);
        scope.spawn(answer_once(there->peers()));
        std::function<bool(const PeerReply&)> is_enough = [](const PeerReply& reply) {
            return reply.result == "here";
        };
        std::vector<std::int64_t> asked = numbers;
        std::string request = "{}";
        Task<std::vector<PeerReply>> calling =
            call_gateways(here->peers(), std::move(asked), std::move(request),
                          std::chrono::hours(1), std::move(is_enough));
        std::vector<PeerReply> replies = co_await std::move(calling);
        co_await scope.join();
        co_return replies;
    };
    // The other request is taken back, unless it was still being stored: then it expires.
    do {
        query("DELETE FROM bub_delivery_calls");
        const std::vector<PeerReply> replies = run(ask());
        ASSERT_EQ(replies.size(), 2u);
        EXPECT_EQ(replies[0].state, PeerReply::State::answered);
        EXPECT_EQ(replies[1].result, "");
    } while (query("SELECT count(*) FROM bub_delivery_calls") != Texts{"0"});
}

}  // namespace
}  // namespace bub::channel_tests
