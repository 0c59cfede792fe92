// Turns in a second: of three gateways that share a database, of one gateway with files, and of the same transactions without a
// gateway. ALL=1: with CUBEPI_CLUSTER_MESSAGES messages, five times, on a server that writes to its disk.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>

#include "bare_sql.hpp"
#include "cluster.hpp"
#include "cluster_options.hpp"

namespace cubepi::cluster_tests {
namespace {

/// The messages of one measurement, without a call of a tool.
std::vector<Posted> plain_messages(const Cluster& cluster, std::size_t count, int round) {
    std::vector<Posted> messages = cluster.messages(count, count / 6);
    for (Posted& message : messages) {
        message.key += "r" + std::to_string(round);
        message.text = message.key;
        message.has_effect = false;
    }
    return messages;
}

/// Prints the time of each part for one of `count` turns, in milliseconds.
void print_time(const ClusterTime& time, std::size_t count) {
    const auto print = [count](const char* name, const ProcessorTime& used) {
        const double milliseconds = 1000.0 / static_cast<double>(count);
        std::cout << name << used.all * milliseconds << " (" << used.kernel * milliseconds << ")";
    };
    std::cout << "ms of a processor for each (of these in the kernel): ";
    print("gateways ", time.gateways);
    print(", server ", time.server);
    print(", clients of the test ", time.clients);
    print(", its model ", time.model);
}

/// Expects an answer for each message, and prints how many there were in a second.
void expect_rate(Cluster& cluster, std::size_t count) {
    std::vector<Posted> all;
    std::optional<BareSql> bare;
    if (!cluster.database().empty()) bare.emplace(cluster.database(), cluster.clients());
    for (int round = 0; round < (is_set("ALL") ? 5 : 1); ++round) {
        const std::vector<Posted> messages = plain_messages(cluster, count, round);
        all.insert(all.end(), messages.begin(), messages.end());
        ClusterTime before = cluster.time();
        const auto begin = std::chrono::steady_clock::now();
        const std::vector<std::string> wrong = cluster.run(messages, {});
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        EXPECT_EQ(lines_of(wrong), "");
        const double turns = static_cast<double>(count) / time.count();
        std::cout << turns << " turns/s, ";
        print_time(cluster.time() - before, count);
        if (bare) {
            before = cluster.time();
            const BareSql::Rates rates = bare->run(count);
            const ClusterTime used = cluster.time() - before;
            std::cout << "; bare SQL: " << rates.received << " messages/s received, "
                      << rates.worked << " claims and ends/s, " << rates.turns << " turns/s, ";
            // Its two phases have made twice as many turns.
            const double milliseconds = 1000.0 / static_cast<double>(2 * count);
            std::cout << "server " << used.server.all * milliseconds << " ms, clients "
                      << used.model.all * milliseconds << " ms; ratio of the rates "
                      << turns / rates.turns;
        }
        std::cout << "\n";
    }
    std::cout << cluster.sizes();
    if (cluster.database().empty()) return;
    cluster.wait_until_answered();
    EXPECT_EQ(lines_of(findings(all, cluster.records())), "");
}

/// Other tests do not need a server that waits for its disk.
void make_durable() {
    if (!is_set("ALL")) return;
    PostgresServer& server = PostgresServer::shared();
    server.stop(SIGINT);
    server.start({"-c", "fsync=on", "-c", "full_page_writes=on", "-c", "shared_buffers=256MB"});
}

TEST(ClusterRate, D232_MessagesAtAnyGateway_HaveOneTurnEach) {
    make_durable();
    Cluster cluster(seed(), Database::direct);
    // CUBEPI_CLUSTER_IDLE: with so many sessions that have no work.
    if (const char* const idle = std::getenv("CUBEPI_CLUSTER_IDLE")) {
        cluster.add_idle_sessions(std::strtoul(idle, nullptr, 10));
        RawPostgres(cluster.database()).query("ANALYZE");
    }
    expect_rate(cluster, messages_or_all(60));
}

void analyze(const Cluster& cluster) {
    for (const std::string& database : cluster.databases()) RawPostgres(database).query("ANALYZE");
}

class IdleSessions : public ::testing::TestWithParam<Database> {};

INSTANTIATE_TEST_SUITE_P(ClusterRate, IdleSessions,
                         ::testing::Values(Database::direct, Database::pooled, Database::divided));

/// The plans of statements are made of empty tables, of tables that have grown since, and of statistics.
TEST_P(IdleSessions, D286_ManyOfThem_AreNotRead) {
    constexpr std::size_t idle = 20'000;
    Cluster cluster(seed(), GetParam());
    EXPECT_EQ(lines_of(cluster.run(plain_messages(cluster, 12, 0), {})), "");
    cluster.add_idle_sessions(idle);
    EXPECT_EQ(lines_of(cluster.run(plain_messages(cluster, 12, 1), {})), "");
    analyze(cluster);
    EXPECT_EQ(lines_of(cluster.run(plain_messages(cluster, 12, 2), {})), "");
    const std::vector<std::string> most = cluster.most_read_table();
    EXPECT_LT(std::stoul(most.at(1)), idle) << most.at(0);
}

TEST(ClusterRate, D232_GatewayWithFiles_AnswersTheSameMessages) {
    Cluster cluster(seed(), Database::files);
    expect_rate(cluster, messages_or_all(60));
}

}  // namespace
}  // namespace cubepi::cluster_tests
