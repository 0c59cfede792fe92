#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>

// Parts of the tests of deliveries in a database.

namespace bub::channel_tests {

using Texts = std::vector<std::string>;
using LogPtr = std::shared_ptr<PostgresDeliveryLog>;

/// A database with the tables of deliveries.
class Deliveries {
public:
    Deliveries()
        : server(cubepi::PostgresServer::shared()),
          database(server.create_database(postgres_delivery_tables())) {
        options.database.connection = server.connection(database);
        // Only the test ends a lease.
        options.lease = std::chrono::hours(1);
    }
    Texts query(const std::string& sql) const {
        return cubepi::RawPostgres(server.connection(database)).query(sql);
    }
    /// The gateways that have entered so far have not renewed their leases in time.
    void expire_leases() const {
        query("UPDATE bub_delivery_gateways SET lease_until = now() - interval '1 minute'");
    }
    LogPtr open() const { return std::make_shared<PostgresDeliveryLog>(options); }

    cubepi::PostgresServer& server;
    std::string database;
    PostgresDeliveryLogOptions options;
};

class PostgresDeliveries : public testing::Test {
protected:
    Deliveries tables;
};

inline Envelope update(const std::string& text, const std::string& id) {
    Envelope message = from("chat", "1", text);
    message.inbound_id = id;
    return message;
}

inline std::optional<std::string> store(DeliveryLog& log, const std::string& text) {
    return cubepi::run(log.receive(update(text, text)));
}

/// Stores "one" and the answer to it, which is not sent, and ends the turn. Returns the id of the answer.
inline std::string leave_unsent(DeliveryLog& log) {
    const std::string one = store(log, "one").value();
    cubepi::run(log.begin({one}));
    std::string answer = cubepi::run(log.intend(from("chat", "1", "re: one"), {one}));
    cubepi::run(log.finish({one}));
    return answer;
}

inline Texts texts_of(const std::vector<StoredInbound>& inbounds) {
    Texts texts;
    for (const StoredInbound& one : inbounds) texts.push_back(one.message.content_text());
    return texts;
}

}  // namespace bub::channel_tests
