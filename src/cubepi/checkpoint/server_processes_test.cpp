// Several processes and many writers on one database. The children are this program with `--child`.
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/child_process_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {

namespace {

std::shared_ptr<SqlCheckpointer> open_store(const std::string& connection) {
    SqlOptions options;
    options.connection = connection;
    return ServerDatabase::open(options);
}

void append_on_line(SqlCheckpointer& store) {
    run(store.open());
    say("ready");
    const std::string thread_id = read_line();
    MessageList two = one(user("first", "r", "id-1"));
    two.push_back(user("second", "r", "id-2"));
    AppendOptions options = AppendOptions().extra(JsonObject{{"a", 1}});
    run(store.append(thread_id, std::move(two), std::move(options)));
    say("stored");
}

/// Kills a process before each statement of an append. Returns how many of the appends were stored.
int kill_at_each_statement(SqlCheckpointer& store, ServerProxy& proxy,
                           const std::string& connection) {
    constexpr int most_statements = 60;
    bool finished = false;
    int stored = 0;
    for (int statement = 1; !finished; ++statement) {
        EXPECT_LT(statement, most_statements);
        if (statement >= most_statements) break;
        const std::string thread_id = "t" + std::to_string(statement);
        Child child("append_on_line", connection);
        EXPECT_EQ(child.read_line(), "ready");
        proxy.before_statement(statement, [&] { child.kill_now(); });
        child.send_line(thread_id);
        finished = child.read_line() == "stored";
        child.kill_and_wait();
        proxy.before_statement(0, {});
        const std::optional<CheckpointData> data = run(store.load(thread_id));
        if (data) {
            ++stored;
            EXPECT_EQ(data->messages.size(), 2U) << statement;
            EXPECT_EQ(data->extra.at("a"), Json(1)) << statement;
        }
        // Neither a lock nor half an append is left.
        AppendOptions next = AppendOptions().expected_position(data ? data->position : 0);
        run(store.append(thread_id, one(user("after", "r2", "id-3")), std::move(next)));
        EXPECT_TRUE(run(store.find_message(thread_id, "id-3")));
    }
    return stored;
}

Task<> append_five(SqlCheckpointer& store, std::string thread_id, std::string name) {
    for (int i = 0; i < 5; ++i) {
        MessageList list = one(user(name + " " + std::to_string(i)));
        co_await store.append(thread_id, std::move(list), AppendOptions());
    }
}

class ServerProcesses : public ::testing::Test {
protected:
    std::unique_ptr<ServerDatabase> database = ServerDatabase::create();
    std::string connection = database->connection();
    std::shared_ptr<SqlCheckpointer> store = open_store(connection);
};

TEST_F(ServerProcesses, D20_TwoProcesses_NeverForkAThread) { expect_no_forks(*store, connection); }

TEST_F(ServerProcesses, D20_KillAtAnyStatement_LeavesWholeAppends) {
    const int stored =
        kill_at_each_statement(*store, database->proxy(), database->proxy_connection());
    EXPECT_GE(stored, 1);
    // A packet that has reached MySQL completely may be executed.
    if (database->name() != "mysql") {
        EXPECT_EQ(stored, 1) << "only the child that was not killed";
    }
}

TEST_F(ServerProcesses, D50_ClaimOfKilledProcess_IsSupersededAtOnce) {
    expect_killed_claim_superseded(*store, connection);
}

TEST_F(ServerProcesses, D50_FrozenProcessWakesUp_IsFencedOff) {
    const auto clock = std::make_shared<testing::ManualClock>();
    SqlOptions options;
    options.connection = connection;
    options.lease_clock = clock;
    expect_frozen_process_fenced(*ServerDatabase::open(options), *clock, connection);
}

TEST_F(ServerProcesses, D62_TwoProcessesAnswer_OneSucceeds) {
    expect_one_answer_each(*store, connection);
}

TEST_F(ServerProcesses, ProcessesForkThread_ForksAreUniqueAndWhole) {
    expect_whole_forks(*store, connection);
}

TEST_F(ServerProcesses, D20_ManyWriters_AppendWholeBatches) {
    // Four event loops share one store.
    std::vector<std::thread> loops;
    for (int loop = 0; loop < 4; ++loop) {
        loops.emplace_back([this, loop] {
            std::vector<Task<>> writers;
            for (int i = 0; i < 16; ++i) {
                const std::string name = std::to_string(loop) + "-" + std::to_string(i);
                writers.push_back(append_five(*store, name, name));
                if (i < 2) writers.push_back(append_five(*store, "shared", name));
            }
            run(when_all(std::move(writers)));
        });
    }
    for (std::thread& loop : loops) loop.join();
    EXPECT_EQ(database->query("SELECT count(*), count(DISTINCT thread_id) FROM cubepi_messages"
                              " WHERE thread_id <> 'shared'"),
              (std::vector<std::string>{"320", "64"}));
    EXPECT_EQ(database->query("SELECT count(*), min(seq), max(seq) FROM cubepi_messages"
                              " WHERE thread_id = 'shared'"),
              (std::vector<std::string>{"40", "1", "40"}));
    expect_in_order(run(store->load("shared"))->messages);
}

/// Writes a thread, lets `command` read it and continue it with CubePi, and reads what that has written. Returns an exit
/// status. Run by tools/check-interchange.
int check_interchange(SqlCheckpointer& store, const std::string& command) {
    const std::string thread_id = "interchange";
    ClaimOwner owner;
    owner.owner_id = "interchange";
    run(store.claim_run(thread_id, "ours", owner, ClaimKind::new_run));
    MessageList list = one(user("Größe \U0001f600?", "ours", "m1"));
    AssistantMessage answer;
    answer.content.emplace_back(TextContent{"Looking."});
    ToolCall call;
    call.id = "c1";
    call.name = "look";
    call.arguments = JsonObject{{"b", 1}, {"a", JsonArray(1, Json(2))}};
    answer.content.emplace_back(std::move(call));
    answer.stop_reason = "tool_use";
    answer.run_id = "ours";
    list.push_back(std::move(answer));
    ToolResultMessage result;
    result.tool_call_id = "c1";
    result.tool_name = "look";
    result.content.emplace_back(TextContent{"seen"});
    result.run_id = "ours";
    list.push_back(std::move(result));
    AppendOptions options = AppendOptions().extra(JsonObject{{"note", JsonObject{{"z", 1}}}});
    run(store.append(thread_id, std::move(list), std::move(options)));
    run(store.complete_run(thread_id, "ours", owner.owner_id));
    HitlRequest request;
    request.question_id = "q1";
    request.payload = ConfirmRequest{.prompt = "Continue?"};
    run(store.save_pending_request(thread_id, "ours", std::move(request)));
    if (std::system(command.c_str()) != 0) return 1;
    const std::optional<CheckpointData> data = run(store.load(thread_id));
    const bool correct =
        data && data->messages.size() == 4 && data->messages[3].text() == "from CubePi" &&
        data->messages[3].run_id() == "theirs" && data->extra.contains("theirs") &&
        data->extra.contains("note") && run(store.is_run_complete(thread_id, "theirs")) &&
        run(store.load_pending_requests(thread_id)).empty();
    if (!correct) {
        std::cerr << "what CubePi has written was not read completely\n";
        return 1;
    }
    run(store.append(thread_id, one(user("and on", "r3", "m9")),
                     AppendOptions().expected_position(data->position)));
    std::cout << "CubePi and this library continue each other's thread\n";
    return 0;
}

}  // namespace

int run_store_child(const std::string& mode, const std::string& connection) {
    using Work = void (*)(SqlCheckpointer&);
    const std::map<std::string, Work> children{
        {"answer_on_line", answer_on_line<SqlCheckpointer>},
        {"append_in_turns", append_in_turns<SqlCheckpointer>},
        {"append_on_line", append_on_line},
        {"claim_and_append_on_line", claim_and_append_on_line<SqlCheckpointer>},
        {"fork_on_line", fork_on_line<SqlCheckpointer>},
    };
    const auto child = children.find(mode);
    if (child == children.end()) return 2;
    child->second(*open_store(connection));
    return 0;
}

/// `interpreter` is a Python with CubePi, `script` tests/conformance/databases_in_cubepi.py.
int check_interchange_with(const std::string& interpreter, const std::string& script) {
    const std::unique_ptr<ServerDatabase> database = ServerDatabase::create();
    return check_interchange(
        *open_store(database->connection()),
        interpreter + " " + script + " " + database->name() + " " + database->script_arguments());
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
