#include <string>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/server_load_test.hpp>

namespace cubepi {
namespace {

class MySQLLoad : public ::testing::Test {
protected:
    MySQLLoad()
        : server(MySQLServer::shared()),
          database(server.create_database()),
          proxy(server.socket()) {
        options.connection = proxy.connection(database);
        options.max_connections = 1;
    }

    MySQLServer& server;
    std::string database;
    MySQLProxy proxy;
    MySQLOptions options;
};

TEST_F(MySQLLoad, a_load_is_repeated_wherever_the_connection_is_cut) {
    MySQLCheckpointer store(options);
    check_cut_loads(store, proxy);
}

TEST_F(MySQLLoad, a_load_can_be_cancelled_at_any_time) {
    MySQLCheckpointer store(options);
    check_cancelled_loads(store);
}

TEST_F(MySQLLoad, an_unreadable_row_among_many_is_named) {
    MySQLCheckpointer store(options);
    store_threads(store);
    RawMySQL(database).query(
        "UPDATE cubepi_messages SET payload = X'c1' WHERE thread_id = 'long' AND seq > 700");
    check_unreadable_rows(store);
}

}  // namespace
}  // namespace cubepi
