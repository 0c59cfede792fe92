// Three gateways, one database, clients that repeat themselves, and faults (D232). ALL=1: 10,000 messages.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>

#include "cluster.hpp"

namespace cubepi::cluster_tests {
namespace {

/// CUBEPI_CLUSTER_SEED: another sequence of faults.
std::uint32_t seed() {
    const char* const other = std::getenv("CUBEPI_CLUSTER_SEED");
    return other ? static_cast<std::uint32_t>(std::strtoul(other, nullptr, 10)) : 20261128U;
}

bool is_complete() {
    const char* const all = std::getenv("ALL");
    return all && std::string_view(all) == "1";
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

std::string lines_of(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& line : list) text += line + "\n";
    return text;
}

TEST(Cluster, D232_MessagesDuringFaults_HaveOneTurnEach) {
    const std::size_t count = is_complete() ? 10'000 : 120;
    std::vector<Fault> kinds;
    const std::size_t rounds = is_complete() ? 10 : 1;
    for (std::size_t round = 0; round < rounds; ++round)
        kinds.insert(kinds.end(), {Fault::kill, Fault::freeze, Fault::kill, Fault::crash});
    Cluster cluster(seed());
    const std::vector<Posted> messages = cluster.messages(count, count / 6);
    const std::vector<std::string> wrong = cluster.run(messages, plan(count, kinds));
    EXPECT_EQ(lines_of(wrong), "");
    cluster.settle();
    const std::vector<std::string> found = findings(messages, cluster.records());
    EXPECT_EQ(lines_of(found), "");
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
    cluster.settle();
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
    const std::vector<Posted> messages = cluster.messages(24, 24);
    (void)cluster.run(messages, {PlannedFault{Fault::freeze, 12}});
    cluster.settle();
    const std::string found = found_in(cluster, messages);
    EXPECT_NE(found.find("answers with a receipt of their own and not 1"), std::string::npos)
        << found;
}

}  // namespace
}  // namespace cubepi::cluster_tests
