// Several processes on one database. The children are this program with `--child`.
#include <cubepi/checkpoint/mysql_checkpointer.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/child_process_test.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi {
namespace {

void claim_when_told(const std::string& connection) {
    MySQLCheckpointer store(connection);
    run(store.claim_run("t", "child-run", current_process_owner(), ClaimKind::new_run));
    say("claimed");
    read_line();
}

class MySQLProcesses : public ::testing::Test {
protected:
    MySQLProcesses()
        : database(MySQLServer::shared().create_database()),
          connection(MySQLServer::shared().connection(database)) {}

    std::string database;
    std::string connection;
};

TEST_F(MySQLProcesses, D20_two_processes_never_fork_a_thread) {
    MySQLCheckpointer store(connection);
    expect_no_forks(store, connection);
}

TEST_F(MySQLProcesses, D20_a_process_that_is_killed_at_any_statement_leaves_whole_appends) {
    MySQLProxy proxy(MySQLServer::shared().socket());
    MySQLCheckpointer store(connection);
    // A packet that has reached the server completely may be executed.
    EXPECT_GE(kill_at_each_statement(store, proxy, proxy.connection(database)), 1);
}

TEST_F(MySQLProcesses, D50_the_claim_of_a_killed_process_is_superseded_at_once) {
    Child child("claim_when_told", connection);
    ASSERT_EQ(child.read_line(), "claimed");
    MySQLCheckpointer store(connection);
    const auto claim = [&] {
        return store.claim_run("t", "r2", current_process_owner(), ClaimKind::new_run);
    };
    EXPECT_THROW(run(claim()), RunAlreadyClaimedError);
    child.kill_and_wait();
    EXPECT_TRUE(run(claim()).superseded);
}

Task<Outcome<std::int64_t>> outcome_of_append(MySQLCheckpointer& store, std::string thread_id) {
    Task<std::int64_t> append =
        store.append(std::move(thread_id), one(user("hello")), AppendOptions());
    co_return co_await outcome_of(std::move(append));
}

TEST_F(MySQLProcesses, D20_many_writers_on_distinct_threads_and_on_one) {
    MySQLOptions options;
    options.connection = connection;
    options.max_connections = 16;
    MySQLCheckpointer store(options);
    std::vector<Task<Outcome<std::int64_t>>> tasks;
    for (int i = 0; i < 64; ++i)
        tasks.push_back(outcome_of_append(store, "thread " + std::to_string(i)));
    for (int i = 0; i < 8; ++i) tasks.push_back(outcome_of_append(store, "one"));
    for (const auto& outcome : run(when_all(std::move(tasks)))) EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(run(store.load("one"))->position, 8);
    EXPECT_EQ(run(store.list_threads()).size(), 65U);
}

}  // namespace

int run_store_child(const std::string& mode, const std::string& connection) {
    using Work = void (*)(const std::string&);
    const std::map<std::string, Work> children{
        {"append_in_turns", append_in_turns<MySQLCheckpointer>},
        {"append_when_told", append_when_told<MySQLCheckpointer>},
        {"claim_when_told", claim_when_told},
    };
    const auto child = children.find(mode);
    if (child == children.end()) return 2;
    child->second(connection);
    return 0;
}

/// `interpreter` is a Python with CubePi, `script` tests/conformance/databases_in_cubepi.py.
int check_interchange_with(const std::string& interpreter, const std::string& script) {
    MySQLServer& server = MySQLServer::shared();
    const std::string database = server.create_database();
    MySQLCheckpointer store(server.connection(database));
    return check_interchange(
        store, interpreter + " " + script + " mysql " + server.socket() + " " + database);
}

}  // namespace cubepi

int main(int argc, char** argv) {
    if (argc == 4 && std::string(argv[1]) == "--child")
        return cubepi::run_store_child(argv[2], argv[3]);
    if (argc == 4 && std::string(argv[1]) == "--interchange")
        return cubepi::check_interchange_with(argv[2], argv[3]);
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
