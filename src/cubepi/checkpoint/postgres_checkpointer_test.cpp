#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace cubepi {
namespace {

PostgresOptions options_for(const std::string& database) {
    PostgresOptions options;
    options.connection = PostgresServer::shared().connection(database);
    return options;
}

TEST(PostgresCheckpointer, conforms) {
    const std::string database = PostgresServer::shared().create_database();
    auto clock = std::make_shared<testing::ManualClock>();
    const auto open = [&] {
        PostgresOptions options = options_for(database);
        options.lease_clock = clock;
        return std::make_shared<PostgresCheckpointer>(std::move(options));
    };
    testing::StoreUnderTest subject;
    subject.make = [&] {
        RawPostgres(PostgresServer::shared().connection(database))
            .query("DELETE FROM cubepi_threads");
        return open();
    };
    subject.reopen = [&](std::shared_ptr<Checkpointer> store) {
        store.reset();
        return open();
    };
    subject.advance = [&](std::chrono::seconds amount) { clock->advance(amount); };
    for (const testing::StoreFailure& failure : testing::check_store(subject)) {
        ADD_FAILURE() << failure.check << ": " << failure.text;
    }
}

}  // namespace
}  // namespace cubepi
