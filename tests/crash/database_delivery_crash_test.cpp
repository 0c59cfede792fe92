#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "delivery_worker.hpp"
#include "directory_channel.hpp"
#include "worker_process.hpp"

// A gateway with its records in PostgreSQL is killed before and after each request to the server, and at every external effect; the next
// one recovers.

/// libpq sends its requests with this function.
extern "C" ssize_t send(int socket, const void* bytes, size_t size, int flags) {
    cubepi::crash_tests::step();
    const ssize_t sent = sendto(socket, bytes, size, flags, nullptr, 0);
    cubepi::crash_tests::step();
    return sent;
}

namespace cubepi::crash_tests {

namespace {

constexpr const char* connection_variable = "CUBEPI_TEST_DATABASE";

/// The records of the gateway in `directory`, in the database of the variable.
std::shared_ptr<bub::PostgresDeliveryLog> log_of(const std::filesystem::path& directory) {
    bub::PostgresDeliveryLogOptions options;
    options.database.connection = getenv(connection_variable);
    options.account = directory.string();
    // A process that was killed is known by its number, and one that lives is not taken for dead.
    options.lease = std::chrono::hours(1);
    options.poll = std::chrono::hours(1);
    return std::make_shared<bub::PostgresDeliveryLog>(std::move(options));
}

class DatabaseDeliveryCrash : public ::testing::Test {
protected:
    DatabaseDeliveryCrash()
        : database_(PostgresServer::shared().create_database(bub::postgres_delivery_tables())) {
        setenv(connection_variable, PostgresServer::shared().connection(database_).c_str(), 1);
    }
    /// The server executes what a killed process has sent.
    void wait_for_server() const {
        RawPostgres watcher(PostgresServer::shared().connection(database_));
        const std::string others =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <>"
            " pg_backend_pid()";
        while (watcher.query(others) != std::vector<std::string>{"0"}) {
        }
    }
    Ended run_gateway(const std::filesystem::path& directory, std::size_t kill_at = 0) const {
        wait_for_server();
        const Ended ended =
            run_worker({"--deliveries", directory.string(), std::to_string(kill_at)});
        wait_for_server();
        return ended;
    }

private:
    std::string database_;
};

TEST_F(DatabaseDeliveryCrash, B18_Kill_LosesNothingAndMarksRepeatedAnswers) {
    std::size_t again = 0;
    const auto check = [&](const Remains& remains) {
        EXPECT_EQ(run_gateway(remains.directory).status, 0);
        const Count count =
            expect_dealt_with(remains.directory, answer_to, log_of(remains.directory));
        EXPECT_EQ(count.held, 0u) << "one kill holds nothing";
        again += count.again;
    };
    const std::size_t steps = kill_at_each_step("--deliveries", check, kill_stride);
    // Calls at the same time share a transaction, so their number differs.
    EXPECT_GT(steps, 40u);
    EXPECT_GT(again, 4u / kill_stride);
}

TEST_F(DatabaseDeliveryCrash, B18_TwoKills_LoseNothing) {
    const auto check = [&](const Remains& remains) {
        if (!remains.killed) return;
        const std::size_t then = remains.step * 7 % 90 + 1;
        SCOPED_TRACE("then at " + std::to_string(then));
        (void)run_gateway(remains.directory, then);
        EXPECT_EQ(run_gateway(remains.directory).status, 0);
        (void)expect_dealt_with(remains.directory, answer_to, log_of(remains.directory));
    };
    (void)kill_at_each_step("--deliveries", check, 5 * kill_stride);
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return tests_or_worker(
        argc, argv, {{"--deliveries", [](const std::vector<std::string>& arguments) {
                          return run_delivery_worker(log_of(arguments.at(0)), arguments.at(0),
                                                     std::stoul(arguments.at(1)), {});
                      }}});
}
