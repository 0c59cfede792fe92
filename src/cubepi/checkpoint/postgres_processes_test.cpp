// Several processes and many writers on one database. The children are this program with `--child`.
#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/child_process_test.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

void claim_and_append_when_told(const std::string& connection) {
    PostgresCheckpointer store(connection);
    const ClaimOwner owner = current_process_owner();
    run(store.claim_run("t", "child-run", owner, ClaimKind::new_run));
    say(owner.owner_id);
    read_line();
    AppendOptions options = AppendOptions().claim("child-run", owner.owner_id);
    try {
        run(store.append("t", one(user("from the child", "child-run")), std::move(options)));
        say("stored");
    } catch (const StaleAppendError&) {
        say("stale");
    }
}

constexpr int questions = 15;

void answer_when_told(const std::string& connection) {
    PostgresCheckpointer store(connection);
    run(store.open());
    say("ready");
    const std::string name = read_line();
    int accepted = 0;
    for (int i = 0; i < questions; ++i) {
        AnswerRecord record;
        record.run_id = "r";
        record.question_id = "q" + std::to_string(i);
        record.answer = true;
        record.answered_at = 20;
        record.user = name;
        try {
            run(store.answer_request("t", std::move(record)));
            ++accepted;
        } catch (const CheckpointerError& error) {
            if (error.code() != ErrorCode::stale_answer) throw;
        }
    }
    say(std::to_string(accepted));
}

class PostgresProcesses : public ::testing::Test {
protected:
    PostgresProcesses()
        : database(PostgresServer::shared().create_database()),
          connection(PostgresServer::shared().connection(database)) {}

    std::vector<std::string> query(const std::string& sql) {
        return RawPostgres(connection).query(sql);
    }

    std::string database;
    std::string connection;
};

TEST_F(PostgresProcesses, D20_two_processes_never_fork_a_thread) {
    PostgresCheckpointer store(connection);
    expect_no_forks(store, connection);
}

TEST_F(PostgresProcesses, D20_a_process_that_is_killed_at_any_statement_leaves_whole_appends) {
    PostgresProxy proxy(PostgresServer::shared().socket_directory());
    PostgresCheckpointer store(connection);
    EXPECT_EQ(kill_at_each_statement(store, proxy, proxy.connection(database)), 1)
        << "only the child that was not killed";
}

TEST_F(PostgresProcesses, D50_the_claim_of_a_killed_process_is_superseded_at_once) {
    PostgresCheckpointer store(connection);
    Child child("claim_and_append_when_told", connection);
    const std::string owner = child.read_line();
    const ClaimOwner ours = current_process_owner();
    Task<ClaimResult> claim = store.claim_run("t", "ours", ours, ClaimKind::new_run);
    const auto error = error_of<RunAlreadyClaimedError>(std::move(claim));
    EXPECT_NE(std::string(error.what()).find("pid " + std::to_string(child.pid())),
              std::string::npos)
        << error.what();
    child.kill_and_wait();
    const ClaimResult result = run(store.claim_run("t", "ours", ours, ClaimKind::new_run));
    ASSERT_TRUE(result.superseded);
    EXPECT_EQ(result.superseded->owner_id, owner);
}

TEST_F(PostgresProcesses, D50_a_frozen_process_that_wakes_up_is_fenced_off) {
    PostgresOptions options;
    options.connection = connection;
    auto clock = std::make_shared<testing::ManualClock>();
    options.lease_clock = clock;
    PostgresCheckpointer store(options);
    Child child("claim_and_append_when_told", connection);
    child.read_line();
    clock->set_wall(std::chrono::system_clock::now() + std::chrono::seconds(61));
    const ClaimOwner ours = current_process_owner();
    const ClaimResult result = run(store.claim_run("t", "ours", ours, ClaimKind::new_run));
    EXPECT_TRUE(result.superseded);
    AppendOptions under = AppendOptions().claim("ours", ours.owner_id);
    run(store.append("t", one(user("ours", "ours")), std::move(under)));
    child.tell("go");
    EXPECT_EQ(child.read_line(), "stale");
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
}

TEST_F(PostgresProcesses, D62_of_two_processes_that_answer_a_question_one_succeeds) {
    PostgresCheckpointer store(connection);
    for (int i = 0; i < questions; ++i) {
        HitlRequest request;
        request.question_id = "q" + std::to_string(i);
        request.created_at = 10;
        run(store.save_pending_request("t", "r", std::move(request)));
    }
    Child first("answer_when_told", connection);
    Child second("answer_when_told", connection);
    EXPECT_EQ(first.read_line(), "ready");
    EXPECT_EQ(second.read_line(), "ready");
    first.tell("anna");
    second.tell("ben");
    const int anna = std::stoi(first.read_line());
    const int ben = std::stoi(second.read_line());
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    EXPECT_EQ(anna + ben, questions);
    std::map<std::string, int> recorded;
    const std::vector<AnswerRecord> records = run(store.load_answer_records("t"));
    for (const AnswerRecord& record : records) ++recorded[record.user];
    EXPECT_EQ(recorded["anna"], anna);
    EXPECT_EQ(recorded["ben"], ben);
    EXPECT_TRUE(run(store.load_pending_requests("t")).empty());
}

Task<> append_five(PostgresCheckpointer& store, std::string thread_id, std::string name) {
    for (int i = 0; i < 5; ++i) {
        MessageList list = one(user(name + " " + std::to_string(i)));
        co_await store.append(thread_id, std::move(list), AppendOptions());
    }
}

TEST_F(PostgresProcesses, D20_many_writers_on_distinct_threads_and_on_one) {
    PostgresCheckpointer store(connection);
    // Four event loops share one store.
    std::vector<std::thread> loops;
    for (int loop = 0; loop < 4; ++loop) {
        loops.emplace_back([&store, loop] {
            std::vector<Task<>> writers;
            for (int i = 0; i < 16; ++i) {
                const std::string name = std::to_string(loop) + "-" + std::to_string(i);
                writers.push_back(append_five(store, name, name));
                if (i < 2) writers.push_back(append_five(store, "shared", name));
            }
            run(when_all(std::move(writers)));
        });
    }
    for (std::thread& loop : loops) loop.join();
    EXPECT_EQ(query("SELECT count(*), count(DISTINCT thread_id) FROM cubepi_messages"
                    " WHERE thread_id <> 'shared'"),
              (std::vector<std::string>{"320", "64"}));
    EXPECT_EQ(query("SELECT count(*), min(seq), max(seq) FROM cubepi_messages"
                    " WHERE thread_id = 'shared'"),
              (std::vector<std::string>{"40", "1", "40"}));
    std::map<std::string, int> next;
    const MessageList messages = run(store.load("shared"))->messages;
    for (const Message& message : messages) {
        const std::string text = message.text();
        const std::string name = text.substr(0, text.find(' '));
        EXPECT_EQ(text, name + " " + std::to_string(next[name]++));
    }
}

}  // namespace

int run_store_child(const std::string& mode, const std::string& connection) {
    using Work = void (*)(const std::string&);
    const std::map<std::string, Work> children{
        {"answer_when_told", answer_when_told},
        {"append_in_turns", append_in_turns<PostgresCheckpointer>},
        {"append_when_told", append_when_told<PostgresCheckpointer>},
        {"claim_and_append_when_told", claim_and_append_when_told},
    };
    const auto child = children.find(mode);
    if (child == children.end()) return 2;
    child->second(connection);
    return 0;
}

/// `interpreter` is a Python with CubePi, `script` tests/conformance/databases_in_cubepi.py.
int check_interchange_with(const std::string& interpreter, const std::string& script) {
    PostgresServer& server = PostgresServer::shared();
    const std::string database = server.create_database();
    PostgresCheckpointer store(server.connection(database));
    return check_interchange(store, interpreter + " " + script + " postgres " +
                                        server.socket_directory() + " " + database);
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
