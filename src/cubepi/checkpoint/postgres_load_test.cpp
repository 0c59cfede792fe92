#include <string>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_load_test.hpp>

namespace cubepi {
namespace {

class PostgresLoad : public ::testing::Test {
protected:
    PostgresLoad()
        : server(PostgresServer::shared()),
          database(server.create_database()),
          proxy(server.socket_directory()) {
        options.connection = proxy.connection(database);
        options.max_connections = 1;
    }

    PostgresServer& server;
    std::string database;
    PostgresProxy proxy;
    PostgresOptions options;
};

TEST_F(PostgresLoad, a_load_is_repeated_wherever_the_connection_is_cut) {
    PostgresCheckpointer store(options);
    check_cut_loads(store, proxy);
}

TEST_F(PostgresLoad, a_load_can_be_cancelled_at_any_time) {
    PostgresCheckpointer store(options);
    check_cancelled_loads(store);
}

TEST_F(PostgresLoad, an_unreadable_row_among_many_is_named) {
    PostgresCheckpointer store(options);
    store_threads(store);
    RawPostgres(server.connection(database))
        .query(
            "UPDATE cubepi_messages SET payload = '\\xc1' WHERE thread_id = 'long' AND seq > 700");
    check_unreadable_rows(store);
}

}  // namespace
}  // namespace cubepi
