#include <cubepi/checkpoint/mysql_checkpointer.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace cubepi {
namespace {

TEST(MySQLCheckpointer, conforms) {
    const std::string connection =
        MySQLServer::shared().connection(MySQLServer::shared().create_database());
    const std::string database = connection.substr(0, connection.find('?'));
    auto clock = std::make_shared<testing::ManualClock>();
    const auto open = [&] {
        MySQLOptions options;
        options.connection = connection;
        options.lease_clock = clock;
        return std::make_shared<MySQLCheckpointer>(std::move(options));
    };
    testing::StoreUnderTest subject;
    subject.make = [&] {
        RawMySQL raw(database.substr(database.rfind('/') + 1));
        for (const char* table :
             {"cubepi_messages", "cubepi_runs", "cubepi_hitl_answers", "cubepi_native_claims",
              "cubepi_native_message_ids", "cubepi_native_writes", "cubepi_native_exact",
              "cubepi_native_pending", "cubepi_native_changed_pending", "cubepi_native_answers",
              "cubepi_native_started", "cubepi_native_used_answers"})
            raw.query(std::string("DELETE FROM ") + table);
        raw.query("UPDATE cubepi_threads SET parent_thread_id = NULL");
        raw.query("DELETE FROM cubepi_threads");
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
