#include <bub/channel/divided_delivery_log.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/delivery_log_suite_test.hpp>
#include <bub/channel/gateway_peers.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/error.hpp>

namespace bub::channel_tests {
namespace {

using cubepi::PostgresProxy;
using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;
using LogPtr = std::shared_ptr<DividedDeliveryLog>;

/// Three databases with the tables of deliveries and the record of their division.
class Databases {
public:
    Databases() : server(PostgresServer::shared()) {
        for (std::size_t at = 0; at < map.size(); ++at) {
            names.push_back(server.create_database(postgres_delivery_tables()));
            PostgresDeliveryLogOptions& one = options.emplace_back();
            one.database.connection = server.connection(names[at]);
            // Only the test ends a lease.
            one.lease = std::chrono::hours(1);
            one.division = map.record(at);
            run(record_division(one.database, one.division));
        }
    }
    std::vector<std::string> query(std::size_t database, const std::string& sql) const {
        return RawPostgres(server.connection(names[database])).query(sql);
    }
    void expire_leases() const {
        for (std::size_t at = 0; at < map.size(); ++at)
            query(at, "UPDATE bub_delivery_gateways SET lease_until = now() - interval '1 minute'");
    }
    LogPtr open() const {
        DividedDeliveryLogOptions divided{map, {}, {}};
        for (const PostgresDeliveryLogOptions& one : options)
            divided.logs.push_back(std::make_shared<PostgresDeliveryLog>(one));
        return std::make_shared<DividedDeliveryLog>(std::move(divided));
    }
    /// Ends the connections to a database, and refuses others until `allowed`.
    void allow(std::size_t database, bool allowed) const {
        const std::string& name = names[database];
        query(0, "ALTER DATABASE " + name + " ALLOW_CONNECTIONS " + (allowed ? "true" : "false"));
        const std::string others = " FROM pg_stat_activity WHERE datname = '" + name + "'";
        while (!allowed && query(0, "SELECT count(*)" + others).front() != "0")
            query(0, "SELECT pg_terminate_backend(pid)" + others);
    }
    /// The number of messages in a database.
    std::string messages(std::size_t database) const {
        return query(database, "SELECT count(*) FROM bub_delivery_inbound").front();
    }

    const DatabaseMap map{{{"a", "0000-5554"}, {"b", "5555-aaa9"}, {"c", "aaaa-ffff"}}};
    PostgresServer& server;
    std::vector<std::string> names;
    std::vector<PostgresDeliveryLogOptions> options;
};

class DividedStorage final : public DeliveryStorage {
public:
    std::shared_ptr<DeliveryLog> open() override {
        databases_.expire_leases();
        return databases_.open();
    }

private:
    Databases databases_;
};

INSTANTIATE_TEST_SUITE_P(Divided, DeliveryLogSuite,
                         testing::Values(DeliveryStorageKind{
                             "databases", [] { return std::make_unique<DividedStorage>(); }}),
                         testing::PrintToStringParamName());

class DividedDeliveries : public testing::Test {
protected:
    static Envelope message(const std::string& chat, const std::string& id) {
        Envelope message = from("http", chat, "text " + id);
        message.inbound_id = id;
        return message;
    }
    std::string session_in(std::size_t database) const {
        for (int i = 0;; ++i) {
            std::string chat = "s" + std::to_string(i);
            if (databases.map.of_session("http:" + chat) == database) return chat;
        }
    }

    Databases databases;
};

TEST_F(DividedDeliveries, D258_Message_IsInTheDatabaseOfItsSession) {
    const LogPtr log = databases.open();
    const LogPtr other = databases.open();
    for (std::size_t at = 0; at < 3; ++at) {
        const std::string chat = session_in(at);
        const auto id = run(log->receive(message(chat, "m" + std::to_string(at))));
        ASSERT_TRUE(id);
        EXPECT_TRUE(id->starts_with(databases.map.name(at) + ":")) << *id;
        EXPECT_EQ(databases.messages(at), "1");
        // The same message at another gateway.
        EXPECT_FALSE(run(other->receive(message(chat, "m" + std::to_string(at)))));
        EXPECT_EQ(databases.messages(at), "1");
        const auto found = run(other->find("http", "m" + std::to_string(at)));
        ASSERT_TRUE(found);
        EXPECT_EQ(found->id, *id);
        std::size_t database = 9;
        EXPECT_TRUE(log->lease({*id}, database));
        EXPECT_EQ(database, at);
        EXPECT_FALSE(other->lease({*id}, database));
    }
    EXPECT_FALSE(run(other->find("http", "unknown")));
    EXPECT_EQ(run(log->unfinished()).size(), 3U);
    for (const StoredInbound& one : run(log->unfinished()))
        run(log->finish(std::vector<std::string>(1, one.id)));
    EXPECT_TRUE(run(log->unfinished()).empty());
}

TEST_F(DividedDeliveries, D205_MessageBehindUnsentAnswer_WaitsForItsGateway) {
    const LogPtr sending = databases.open();
    const LogPtr other = databases.open();
    const auto only_id = [](const UnfinishedRecords& taken) {
        EXPECT_EQ(taken.inbounds.size(), 1U);
        return taken.inbounds.empty() ? std::string() : taken.inbounds.front().id;
    };
    for (std::size_t at = 0; at < 3; ++at) {
        const std::string chat = session_in(at);
        const auto receive = [&](DeliveryLog& log, const std::string& id) {
            return run(log.receive(message(chat, std::to_string(at) + id)));
        };
        const std::string one = receive(*sending, "one").value();
        run(sending->begin({one}));
        const std::string answer = run(sending->intend(from("http", chat, "re: one"), {one}));
        run(sending->finish({one}));
        EXPECT_FALSE(receive(*other, "two")) << "its answer would be sent before that of the first";
        EXPECT_TRUE(run(other->take()).inbounds.empty());
        run(sending->finish({only_id(run(sending->take()))}));
        EXPECT_FALSE(receive(*other, "three"));
        EXPECT_TRUE(run(other->take()).inbounds.empty());
        run(sending->sent_soon(answer));
        const std::string three = only_id(run(other->take()));
        EXPECT_TRUE(three.starts_with(databases.map.name(at) + ":")) << three;
        run(other->finish({three}));
    }
}

TEST_F(DividedDeliveries, D258_ForeignIds_HaveNoEffect) {
    const LogPtr log = databases.open();
    const auto id = run(log->receive(message(session_in(1), "m")));
    for (const char* foreign : {"", ":", "1.1", "d:1.1", "b:", "b:x", "b:1.1:2", "B:1.1"}) {
        run(log->finish(std::vector<std::string>(1, foreign)));
        run(log->sent(foreign));
        run(log->failed(foreign, "reason"));
        std::size_t database = 0;
        EXPECT_FALSE(log->lease({foreign}, database)) << foreign;
    }
    EXPECT_EQ(run(log->unfinished()).size(), 1U);
}

TEST_F(DividedDeliveries, D258_DatabaseThatFails_StopsOnlyItsSessions) {
    const LogPtr log = databases.open();
    const std::string here = session_in(0);
    const std::string away = session_in(1);
    ASSERT_TRUE(run(log->receive(message(away, "before"))));
    EXPECT_EQ(log->partial_outage(), "");
    EXPECT_TRUE(log->unusable_databases().empty());
    EXPECT_TRUE(run(log->has_unfinished(message(away, "other"))));
    EXPECT_FALSE(run(log->has_unfinished(message(here, "other"))));
    databases.allow(1, false);
    EXPECT_THROW((void)run(log->receive(message(away, "lost"))), cubepi::Error);
    EXPECT_NE(log->partial_outage().find("the database 'b' with the sessions 5555-aaa9"),
              std::string::npos)
        << log->partial_outage();
    const auto id = run(log->receive(message(here, "m")));
    ASSERT_TRUE(id);
    run(log->begin(std::vector<std::string>(1, *id)));
    (void)run(log->take());
    EXPECT_EQ(run(log->unfinished()).size(), 1U);
    EXPECT_EQ(log->unusable_databases(), std::vector<std::string>(1, "b"));
    EXPECT_TRUE(run(log->find("http", "m")));
    // It may be in the other one.
    try {
        (void)run(log->find("http", "unknown"));
        FAIL() << "it is not known";
    } catch (const MessageUnreadError& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::unavailable);
        EXPECT_TRUE(error.excludes("http:" + here));
        EXPECT_FALSE(error.excludes("http:" + away));
    }
    run(log->finish(std::vector<std::string>(1, *id)));
    databases.allow(1, true);
    while (!log->partial_outage().empty()) (void)run(log->take());
    EXPECT_EQ(run(log->unfinished()).size(), 1U);
    EXPECT_FALSE(run(log->receive(message(away, "lost")))) << "the first call may be executed late";
    EXPECT_EQ(run(log->take()).inbounds.size(), 1U);
    EXPECT_FALSE(run(log->receive(message(away, "before"))));
}

TEST_F(DividedDeliveries, B14_FullSession_IsNotAnOutage) {
    const LogPtr owner = databases.open();
    const LogPtr other = databases.open();
    const std::string chat = session_in(1);
    ASSERT_TRUE(run(owner->receive(message(chat, "one"))));
    other->limit_waiting(1);
    EXPECT_THROW((void)run(other->receive(message(chat, "two"))), cubepi::Error);
    EXPECT_EQ(other->partial_outage(), "");
}

TEST_F(DividedDeliveries, D238_OtherNotifyDatabase_IsNamed) {
    for (std::size_t at : {std::size_t{0}, std::size_t{1}}) {
        // The first one hears itself.
        const std::string name =
            at == 0 ? databases.names[at] : databases.server.create_empty_database();
        databases.options[at].notifications = databases.server.connection(name);
    }
    databases.options[1].poll = std::chrono::milliseconds(1);
    const LogPtr log = databases.open();
    while (log->notification_problem().empty()) (void)run(log->take());
    EXPECT_TRUE(log->notification_problem().starts_with("the database 'b': "))
        << log->notification_problem();
}

TEST_F(DividedDeliveries, D258_DatabaseThatDoesNotAnswer_DelaysNoOther) {
    PostgresProxy proxy(databases.server.socket_directory());
    databases.options[1].database.connection = proxy.connection(databases.names[1]);
    // The end of the log waits for its last call.
    databases.options[1].database.query_timeout = std::chrono::seconds(5);
    const LogPtr log = databases.open();
    ASSERT_TRUE(run(log->receive(message(session_in(1), "before"))));
    (void)run(log->take());
    proxy.freeze();
    const auto waiting = run(log->receive(message(session_in(0), "m")));
    ASSERT_TRUE(waiting);
    (void)run(log->take());
    EXPECT_NE(log->partial_outage().find("'b' with the sessions 5555-aaa9 cannot be used: it does"),
              std::string::npos)
        << log->partial_outage();
    EXPECT_EQ(run(log->unfinished()).size(), 1U);
    run(log->finish(std::vector<std::string>(1, *waiting)));
    (void)run(log->take());
}

TEST_F(DividedDeliveries, D258_MessageDuringHandOver_WaitsForEarlierOnes) {
    const std::string chat = session_in(0);
    const auto earlier = std::make_shared<PostgresDeliveryLog>(databases.options[0]);
    ASSERT_TRUE(run(earlier->receive(message(chat, "one"))));
    databases.expire_leases();
    PostgresDeliveryLog log(databases.options[0]);
    std::promise<void> ended;
    log.begin_take([&ended] { ended.set_value(); });
    ended.get_future().wait();
    // The manager does not have the first one yet.
    EXPECT_FALSE(run(log.receive(message(chat, "two"))));
    auto first = log.taken();
    ASSERT_TRUE(first && first->ok());
    ASSERT_EQ(first->value().inbounds.size(), 1U);
    EXPECT_EQ(first->value().inbounds[0].message.inbound_id, "one");
    EXPECT_FALSE(run(log.receive(message(chat, "three"))));
    log.handed_over();
    const UnfinishedRecords others = run(log.take());
    ASSERT_EQ(others.inbounds.size(), 2U);
    EXPECT_EQ(others.inbounds[0].message.inbound_id, "two");
    EXPECT_TRUE(run(log.receive(message(chat, "four"))));
}

TEST_F(DividedDeliveries, D258_AfterTake_MessagesAreAcceptedAtOnce) {
    const LogPtr log = databases.open();
    for (const char* id : {"one", "two"}) {
        (void)run(log->take());
        EXPECT_TRUE(run(log->receive(message(session_in(0), id))));
    }
}

TEST_F(DividedDeliveries, D272_SentAnswers_AreStoredWithTheirNextCalls) {
    for (PostgresDeliveryLogOptions& one : databases.options) one.poll = std::chrono::hours(1);
    const LogPtr log = databases.open();
    const auto state = [this](std::size_t at) {
        return databases.query(at, "SELECT state FROM bub_delivery_outbound").front();
    };
    std::vector<std::string> messages;
    for (std::size_t at = 0; at < 3; ++at) {
        const std::string chat = session_in(at);
        messages.push_back(run(log->receive(message(chat, "m" + std::to_string(at)))).value());
        // Without its end, which is minutes away, as of a call that is cancelled.
        (void)log->sent_soon(run(log->intend(from("http", chat, "re"), {messages.back()})));
    }
    run(log->finish({messages[0]}));
    EXPECT_EQ(state(0), "sent");
    // A call about another database does not store them.
    EXPECT_EQ(state(1), "intended");
    EXPECT_EQ(state(2), "intended");
    databases.allow(1, false);
    run(log->finish({messages[2]}));
    EXPECT_EQ(state(2), "sent") << "one that fails stops only its own";
    databases.allow(1, true);
    run(log->finish({messages[1]}));
    EXPECT_EQ(state(1), "sent");
    EXPECT_TRUE(run(log->unsettled()).empty());
}

TEST_F(DividedDeliveries, D272_SentAnswersBeforeRelease_AreStored) {
    const LogPtr log = databases.open();
    for (std::size_t at = 0; at < 3; ++at)
        (void)log->sent_soon(run(log->intend(from("http", session_in(at), "notice"), {})));
    run(log->release());
    for (std::size_t at = 0; at < 3; ++at)
        EXPECT_EQ(databases.query(at, "SELECT state FROM bub_delivery_outbound").front(), "sent");
}

TEST_F(DividedDeliveries, D259_GatewayThatRegistersDuringDivision_IsRefused) {
    // Its connection is from before.
    const LogPtr log = databases.open();
    (void)run(log->unfinished());
    for (std::size_t at = 0; at < 3; ++at)
        run(record_division(databases.options[at].database,
                            "being divided as " + databases.map.record(at)));
    try {
        (void)run(log->receive(message(session_in(0), "m")));
        FAIL() << "it was accepted";
    } catch (const cubepi::CheckpointerError& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("cubepi db divide --move"), std::string::npos)
            << error.what();
    }
    EXPECT_EQ(databases.messages(0), "0");
}

TEST_F(DividedDeliveries, D259_DividedTables_RefuseEarlierPrograms) {
    const cubepi::PostgresOptions& database = databases.options[0].database;
    EXPECT_EQ(run(postgres_delivery_tables().status(database))->readable_from, 3);
    (void)run(postgres_delivery_tables().apply(database));
    EXPECT_EQ(run(postgres_delivery_tables().status(database))->readable_from, 3);
}

TEST_F(DividedDeliveries, D289_DatabaseThatFails_DoesNotChangeTheNumber) {
    const LogPtr log = databases.open();
    const LogPtr other = databases.open();
    for (const LogPtr& one : {log, other, log}) (void)run(one->take());
    EXPECT_EQ(log->peers()->count(), 2U);
    databases.allow(1, false);
    (void)run(log->take());
    EXPECT_NE(log->partial_outage(), "");
    EXPECT_EQ(log->peers()->count(), 2U);
    databases.allow(1, true);
    run(other->release());
    (void)run(log->take());
    while (!log->partial_outage().empty()) (void)run(log->take());
    EXPECT_EQ(log->peers()->count(), 1U);
}

TEST_F(DividedDeliveries, D258_AllDatabasesFail_IsAFailure) {
    for (PostgresDeliveryLogOptions& one : databases.options)
        one.database.connection = "host=/nowhere dbname=x";
    const LogPtr nowhere = databases.open();
    EXPECT_THROW((void)run(nowhere->take()), cubepi::Error);
    EXPECT_EQ(nowhere->partial_outage(), "") << "it is not partial";
    EXPECT_THROW((void)run(nowhere->unfinished()), cubepi::Error);
}

TEST_F(DividedDeliveries, D258_OtherDivision_IsRefused) {
    const auto problem_of = [this] {
        try {
            const LogPtr log = databases.open();
            (void)run(log->receive(message(session_in(1), "m")));
        } catch (const cubepi::CheckpointerError& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
            return std::string(error.what());
        }
        return std::string();
    };
    const std::string record = databases.options[1].division;
    EXPECT_EQ(problem_of(), "");
    databases.options[1].division = "b of a: 0000-5554; b: 5555-ffff";
    EXPECT_NE(problem_of().find("to divide the sessions differently"), std::string::npos);
    // The database of another name.
    databases.options[1].division = databases.map.record(2);
    EXPECT_NE(problem_of().find("is recorded as"), std::string::npos);
    databases.options[1].division.clear();
    EXPECT_NE(problem_of().find("has a part of the sessions only"), std::string::npos);
    databases.options[1].division = record;
    databases.query(1, "DELETE FROM bub_delivery_division");
    EXPECT_NE(problem_of().find("cubepi db divide"), std::string::npos);
}

}  // namespace
}  // namespace bub::channel_tests
