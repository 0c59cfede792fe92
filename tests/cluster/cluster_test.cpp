// Three gateways, one database, and clients that repeat themselves (D232), during faults of gateways, of the network and of the server.
// ALL=1: 10,000 messages in each test, or CUBEPI_CLUSTER_MESSAGES, until the time CUBEPI_CLUSTER_END. CUBEPI_CLUSTER_CLIENTS clients (32),
// and the faults once for each CUBEPI_CLUSTER_ROUND messages (1,000). CUBEPI_CLUSTER_OTHER: cubepi_cluster_test of another version, whose
// program is the second of the gateways.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "cluster.hpp"
#include "cluster_options.hpp"

namespace cubepi::cluster_tests {
namespace {

/// The faults, once for each round of so many messages.
std::vector<Fault> rounds_of(const std::vector<Fault>& kinds, std::size_t messages) {
    std::vector<Fault> all = kinds;
    for (std::size_t round = 1; round < messages / number_or("CUBEPI_CLUSTER_ROUND", 1'000);
         ++round)
        all.insert(all.end(), kinds.begin(), kinds.end());
    return all;
}

/// Spreads faults over the requests of so many messages.
std::vector<PlannedFault> plan(std::size_t messages, const std::vector<Fault>& kinds) {
    std::mt19937 random(seed());
    std::vector<PlannedFault> faults;
    const std::size_t distance = messages / (kinds.size() + 1);
    for (std::size_t at = 0; at < kinds.size(); ++at) {
        PlannedFault& fault = faults.emplace_back();
        fault.fault = kinds[at];
        fault.after = (at + 1) * distance;
        fault.is_in_turns = random() % 4 != 0;
    }
    return faults;
}

/// Expects that each message has one turn, whatever happens meanwhile.
void expect_one_turn_each(Cluster& cluster, std::vector<Posted> messages,
                          const std::vector<PlannedFault>& faults) {
    const std::vector<std::string> wrong = cluster.run(messages, faults);
    messages.resize(cluster.posted());
    EXPECT_EQ(lines_of(wrong), "");
    print_delays(cluster.delays());
    cluster.wait_until_answered();
    const ClusterRecords records = cluster.records();
    const std::vector<std::string> found = findings(messages, records);
    // tools/soak adds up these lines.
    std::cout << messages.size() << " messages, " << cluster.faults() << " faults, "
              << records.released.size() << " released by the operator, "
              << wrong.size() + found.size() << " findings\n"
              << std::flush;
    EXPECT_EQ(lines_of(found), "") << details_of(found, messages, records);
}

TEST(Cluster, D232_MessagesDuringFaults_HaveOneTurnEach) {
    const std::size_t count = messages_or_all(60);
    std::vector<Fault> kinds{Fault::no_answer, Fault::kill,    Fault::freeze, Fault::partition,
                             Fault::kill,      Fault::restart, Fault::crash};
    if (is_set("ALL")) kinds.insert(kinds.end(), {Fault::half_open, Fault::unreachable});
    Cluster cluster(seed());
    expect_one_turn_each(cluster, cluster.messages(count, count / 6),
                         plan(count, rounds_of(kinds, count)));
}

TEST(Cluster, D274_MessagesOnFullDisk_HaveOneTurnEach) {
    // The disk is in memory.
    const std::size_t count = std::min<std::size_t>(messages_or_all(40), 10'000);
    // Messages whose end is not recorded wait for the end of their gateway.
    std::vector<Fault> kinds{Fault::full_disk, Fault::kill};
    if (is_set("ALL")) kinds.insert(kinds.end(), {Fault::full_disk, Fault::crash});
    Cluster cluster(seed(), Database::small_disk);
    expect_one_turn_each(cluster, cluster.messages(count, count / 6),
                         plan(count, rounds_of(kinds, count)));
}

TEST(Cluster, D298_MessagesWithLostPackets_HaveOneTurnEach) {
    const std::size_t count = messages_or_all(40);
    std::vector<Fault> kinds{Fault::power_loss, Fault::partition};
    if (is_set("ALL"))
        kinds.insert(kinds.end(), {Fault::kill, Fault::partition, Fault::power_loss});
    Cluster cluster(seed(), Database::network);
    expect_one_turn_each(cluster, cluster.messages(count, count / 6),
                         plan(count, rounds_of(kinds, count)));
}

TEST(Cluster, D257_MessagesThroughPooler_HaveOneTurnEach) {
    const std::size_t count = messages_or_all(40);
    std::vector<Fault> kinds{Fault::pooler, Fault::kill, Fault::crash, Fault::pooler};
    if (is_set("ALL")) kinds.insert(kinds.end(), {Fault::partition, Fault::half_open});
    Cluster cluster(seed(), Database::pooled);
    expect_one_turn_each(cluster, cluster.messages(count, count / 6),
                         plan(count, rounds_of(kinds, count)));
}

TEST(Cluster, D258_MessagesForThreeDatabases_HaveOneTurnEach) {
    const std::size_t count = messages_or_all(40);
    std::vector<Fault> kinds{Fault::away, Fault::kill};
    if (is_set("ALL")) {
        kinds.insert(kinds.end(), {Fault::freeze, Fault::away, Fault::partition, Fault::crash,
                                   Fault::restart, Fault::half_open});
    }
    Cluster cluster(seed(), Database::divided);
    expect_one_turn_each(cluster, cluster.messages(count, count / 4),
                         plan(count, rounds_of(kinds, count)));
}

TEST(Cluster, D232_MessagesDuringFailover_HaveOneTurnEach) {
    const std::size_t count = messages_or_all(40);
    std::vector<Fault> kinds{Fault::replica_away, Fault::failover};
    if (is_set("ALL"))
        kinds = {Fault::kill, Fault::replica_away, Fault::failover, Fault::freeze, Fault::kill};
    Cluster cluster(seed(), Database::replicated);
    expect_one_turn_each(cluster, cluster.messages(count, count / 6), plan(count, kinds));
}

TEST(Cluster, D264_GatewayKilledDuringAFreeze_MessagesFollowReturn) {
    Cluster cluster(seed());
    PlannedFault freezing;
    freezing.fault = Fault::freeze_and_kill;
    freezing.after = 6;
    expect_one_turn_each(cluster, cluster.messages(24, 6), {freezing});
    const ClusterRecords records = cluster.records();
    EXPECT_TRUE(std::any_of(records.inbound.begin(), records.inbound.end(),
                            [](const InboundRow& row) { return row.is_held; }));
}

TEST(Cluster, D232_UpdatesDuringFaults_AreAnsweredOnce) {
    // The rate of a bot limits the answers to 15 in a second.
    const std::size_t count = std::min<std::size_t>(messages_or_all(40), 2'000);
    const std::size_t chats = count / 6;
    std::vector<Fault> kinds{Fault::kill, Fault::freeze, Fault::partition};
    if (is_set("ALL"))
        kinds.insert(kinds.end(), {Fault::restart, Fault::crash, Fault::half_open, Fault::kill,
                                   Fault::unreachable});
    Cluster cluster(seed(), Database::plain, chats);
    expect_one_turn_each(cluster, cluster.messages(count, chats),
                         plan(count, rounds_of(kinds, count)));
    const ClusterRecords records = cluster.records();
    const auto has_mark = [](const auto& chat) {
        return std::any_of(chat.second.begin(), chat.second.end(), [](const std::string& text) {
            return text.starts_with("(sent again) ");
        });
    };
    EXPECT_TRUE(std::any_of(records.chats->begin(), records.chats->end(), has_mark));
}

TEST(Cluster, D227_GatewayFrozenInACall_WritesNothingMore) {
    Cluster cluster(seed());
    std::vector<Posted> messages = cluster.messages(1, 1);
    messages.front().text = "effect held";
    messages.front().key = "held";
    PlannedFault freezing;
    freezing.fault = Fault::freeze_in_call;
    freezing.after = 1;
    freezing.is_in_turns = false;
    expect_one_turn_each(cluster, messages, {freezing});
}

TEST(Cluster, D227_CallLongerThanLease_RunsOnce) {
    Cluster cluster(seed());
    // Those that other gateways receive meanwhile wait for the session.
    std::vector<Posted> messages = cluster.messages(9, 1);
    messages.front().text = "effect held";
    messages.front().key = "held";
    PlannedFault call;
    call.fault = Fault::long_call;
    call.after = 1;
    call.is_in_turns = false;
    expect_one_turn_each(cluster, messages, {call});
}

TEST(ServerNetwork, D298_QueryOfLostServer_IsSentAgain) {
    const std::unique_ptr<ServerNetwork> network = ServerNetwork::make(1);
    if (!network) return;
    const std::unique_ptr<PostgresServer> server = network->new_server();
    const std::string database = server->create_database();
    PostgresOptions options;
    options.connection = "host=" + ServerNetwork::server_at(0) + " user=cubepi dbname=" + database;
    options.lock_timeout = options.query_timeout;
    PostgresCheckpointer store(options);
    RawPostgres other(server->connection(database));
    other.query("BEGIN; LOCK TABLE cubepi_threads");
    std::thread reading([&store] { EXPECT_NO_THROW(cubepi::run(store.load("t"))); });
    RawPostgres watcher(server->connection("postgres"));
    while (watcher.query("SELECT count(*) FROM pg_locks WHERE NOT granted").front() == "0")
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // Otherwise it is sent again, by which the end of the server would be noticed.
    ServerNetwork::wait_until_received();
    network->lose_power(*server);
    reading.join();
}

// The judge finds what would go wrong without a part of the product, which a trigger of the database switches off.

/// Executes this before each row of a table is written: PL/pgSQL.
void mutate(const Cluster& cluster, const std::string& table, const std::string& when,
            const std::string& code) {
    RawPostgres server(cluster.database());
    const std::string name = "mutate_" + table;
    (void)server.query("CREATE FUNCTION " + name +
                       "() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN " + code +
                       " RETURN NEW; END'");
    (void)server.query("CREATE TRIGGER " + name + " BEFORE " + when + " ON " + table +
                       " FOR EACH ROW EXECUTE FUNCTION " + name + "()");
}

std::string found_in(Cluster& cluster, const std::vector<Posted>& messages) {
    return lines_of(findings(messages, cluster.records()));
}

TEST(ClusterJudge, WithoutUniqueKey_FindsSecondRecord) {
    Cluster cluster(seed());
    mutate(cluster, "bub_delivery_inbound", "INSERT", "NEW.message_key := NULL;");
    const std::vector<Posted> messages = cluster.messages(24, 24);
    (void)cluster.run(messages, {});
    cluster.wait_until_answered();
    const std::string found = found_in(cluster, messages);
    EXPECT_NE(found.find("has 2 records and not 1"), std::string::npos) << found;
}

TEST(ClusterJudge, WithoutReceipt_FindsTheAnswer) {
    Cluster cluster(seed());
    mutate(cluster, "bub_delivery_outbound", "UPDATE",
           "NEW.state := OLD.state; NEW.settled_at := NULL;");
    const std::vector<Posted> messages = cluster.messages(3, 3);
    (void)cluster.run(messages, {});
    const std::string found = found_in(cluster, messages);
    EXPECT_NE(found.find("has no receipt"), std::string::npos) << found;
}

TEST(ClusterJudge, WithoutFence_FindsSecondAnswer) {
    Cluster cluster(seed());
    for (const char* table : {"bub_delivery_inbound", "bub_delivery_outbound"})
        mutate(cluster, table, "UPDATE", "NEW.fence := OLD.fence;");
    // That of the first gateway is stored.
    mutate(cluster, "bub_delivery_sessions", "UPDATE",
           "IF OLD.fence > 0 THEN NEW.fence := OLD.fence; END IF;");
    const std::vector<Posted> messages = cluster.messages(24, 24);
    // All of them are in their turns then.
    cluster.model().hold_after(1);
    PlannedFault freezing;
    freezing.fault = Fault::freeze;
    freezing.after = messages.size();
    freezing.is_in_turns = false;
    (void)cluster.run(messages, {freezing});
    cluster.wait_until_answered();
    const std::string found = found_in(cluster, messages);
    EXPECT_NE(found.find("answers with a receipt of their own and not 1"), std::string::npos)
        << found;
}

}  // namespace
}  // namespace cubepi::cluster_tests
