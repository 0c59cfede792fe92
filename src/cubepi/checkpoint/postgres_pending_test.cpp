// Requests, answers and extra when CubePi works on the same database in between, and values that its columns do not hold.
#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {
namespace {

class PostgresShared : public ::testing::Test {
protected:
    PostgresShared()
        : connection(
              PostgresServer::shared().connection(PostgresServer::shared().create_database())),
          store(connection) {}

    void ask(const std::string& call_id) {
        ApproveRequest payload;
        payload.tool_name = "rm";
        payload.tool_call_id = call_id;
        payload.args["path"] = call_id;
        HitlRequest request;
        request.question_id = call_id;
        request.thread_id = "t";
        request.payload = std::move(payload);
        request.created_at = 1700000003.0;
        request.extra["approval_digest"] = "digest of " + call_id;
        run(store.save_pending_request("t", "r", std::move(request)));
    }
    std::string pending() {
        std::string ids;
        const std::vector<PendingRequest> list = run(store.load_pending_requests("t"));
        for (const PendingRequest& entry : list)
            ids += entry.run_id + ":" + entry.request.question_id + " ";
        return ids;
    }
    std::string inbox() {
        std::string ids;
        const QuestionPage page = run(store.list_requests(QuestionQuery()));
        for (const QuestionEntry& entry : page.entries) ids += entry.question_id + " ";
        return ids;
    }
    std::vector<std::string> query(const std::string& sql) {
        return RawPostgres(connection).query(sql);
    }
    /// As CubePi does it: one request in the row of the thread.
    void cubepi_asks(const std::string& call_id) {
        query("INSERT INTO cubepi_threads (thread_id, pending_request, run_id) VALUES ('t', '" +
              request(call_id) +
              "', 'r') ON CONFLICT (thread_id) DO UPDATE SET"
              " pending_request = excluded.pending_request, run_id = excluded.run_id");
    }
    static std::string request(const std::string& call_id) {
        return R"({"question_id": ")" + call_id +
               R"(", "thread_id": "t", "payload": {"kind": "approve", "tool_name": "rm",)"
               R"( "tool_call_id": ")" +
               call_id + R"(", "args": {"path": ")" + call_id +
               R"("}, "details": null}, "created_at": 1700000003.0, "timeout_seconds": null})";
    }
    void cubepi_clears() {
        query("UPDATE cubepi_threads SET pending_request = NULL, run_id = NULL");
    }

    std::string connection;
    PostgresCheckpointer store;
};

TEST_F(PostgresShared, D18_RowOfCubePi_HoldsTheFirstRequest) {
    ask("a");
    ask("b");
    EXPECT_EQ(pending(), "r:a r:b ");
    EXPECT_EQ(query("SELECT pending_request->>'question_id', run_id FROM cubepi_threads"),
              (std::vector<std::string>{"a", "r"}));
    EXPECT_EQ(query("SELECT pending_request->'approval_digest' FROM cubepi_threads").front(),
              "NULL")
        << "a key of ours";
    EXPECT_TRUE(run(store.clear_pending_request("t", "r", "a")));
    EXPECT_EQ(query("SELECT pending_request->>'question_id' FROM cubepi_threads").front(), "b");
    EXPECT_EQ(run(store.load_pending_requests("t")).at(0).request.extra.at("approval_digest"),
              Json("digest of b"));
    EXPECT_EQ(query("SELECT count(*) FROM cubepi_native_changed_pending").front(), "0")
        << "our own writes are not noted";
}

TEST_F(PostgresShared, D18_ChangesOfCubePi_AreAdopted) {
    ask("a");
    ask("b");
    cubepi_asks("b");
    EXPECT_EQ(pending(), "r:b ") << "the first was answered";
    EXPECT_EQ(inbox(), "b ");
    cubepi_asks("c");
    EXPECT_EQ(pending(), "r:c ");
    EXPECT_EQ(inbox(), "c ");
    cubepi_clears();
    EXPECT_EQ(pending(), "");
    EXPECT_EQ(inbox(), "");
    EXPECT_EQ(query("SELECT count(*) FROM cubepi_native_pending").front(), "0");
    cubepi_asks("d");
    EXPECT_EQ(run(store.discard_requests("t")), 1U);
    EXPECT_EQ(query("SELECT pending_request FROM cubepi_threads").front(), "NULL");
}

TEST_F(PostgresShared, D65_RequestOfCubePi_ExpiresAndIsAnswered) {
    query(
        "INSERT INTO cubepi_threads (thread_id, pending_request, run_id) VALUES ('t',"
        " jsonb_set('" +
        request("a") + "', '{timeout_seconds}', '10'), 'r')");
    EXPECT_TRUE(run(store.expire_due(1700000000, 10)).empty());
    EXPECT_EQ(run(store.expire_due(1700000013, 10)).size(), 1U);
    EXPECT_EQ(inbox(), "");
    EXPECT_TRUE(run(store.load_pending_requests("t")).at(0).expired);
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = "a";
    record.answered_at = 1700000004;
    EXPECT_EQ(error_of(store.answer_request("t", record)).code(), ErrorCode::stale_answer);
}

TEST_F(PostgresShared, UnreadableRequest_IsNamedAndDiscardable) {
    query(
        "INSERT INTO cubepi_threads (thread_id, pending_request, run_id) VALUES ('t', '[1]',"
        " 'r')");
    const auto error = error_of<CheckpointCorruptionError>(store.load_pending_requests("t"));
    EXPECT_EQ(error.row_ref(), "cubepi_threads.thread_id=t");
    expect_one_line(error);
    const QuestionPage page = run(store.list_requests(QuestionQuery()));
    ASSERT_EQ(page.entries.size(), 1U);
    EXPECT_FALSE(page.entries[0].damage.empty());
    EXPECT_EQ(run(store.discard_requests("t")), 1U);
    EXPECT_EQ(pending(), "");
}

JsonObject odd_values() {
    JsonObject object;
    object["z"] = 1;
    object["a"] = JsonObject{{"y", 9007199254740993}, {"x", "a\xff"}};
    object["nul"] = std::string("a\0b", 3);
    object["big"] = std::numeric_limits<std::uint64_t>::max();
    object["small"] = std::numeric_limits<std::int64_t>::min();
    object["tiny"] = 5e-324;
    object["huge"] = 1e300;
    object["one"] = 1.0;
    return object;
}

TEST_F(PostgresShared, D71_MessagesAndExtra_KeepOrderAndNumbers) {
    const std::string wanted = to_python_json(odd_values());
    UserMessage message;
    message.metadata = odd_values();
    TextContent text;
    text.text = std::string("nul \0.", 6);
    message.content.emplace_back(std::move(text));
    run(store.append("t", one(message), AppendOptions().extra(odd_values())));
    const CheckpointData data = *run(store.load("t"));
    EXPECT_EQ(to_python_json(data.extra), wanted);
    EXPECT_EQ(to_python_json(data.messages[0].user()->metadata.get()), wanted);
    EXPECT_EQ(data.messages[0].text(), Message(message).text());
    HitlAnswer answer;
    answer.run_id = "r";
    answer.question_id = "q";
    answer.answer = odd_values();
    run(store.save_hitl_answer("t", answer));
    EXPECT_EQ(to_python_json(*run(store.load_hitl_answer("t", "r", "q"))), wanted);
    EXPECT_EQ(query("SELECT extra->>'nul', extra->>'big', answer->>'small', metadata->>'nul'"
                    " FROM cubepi_threads, cubepi_hitl_answers, cubepi_messages"),
              (std::vector<std::string>{"a\xef\xbf\xbd"
                                        "b",
                                        "18446744073709551615", "-9223372036854775808",
                                        "a\xef\xbf\xbd"
                                        "b"}));
}

TEST_F(PostgresShared, D71_ChangedColumnOfCubePi_Wins) {
    UserMessage message;
    message.metadata = odd_values();
    run(store.append("t", one(message), AppendOptions().extra(odd_values())));
    // CubePi merges key by key.
    query(R"(UPDATE cubepi_threads SET extra = extra || '{"z": 2, "new": true}')");
    query(R"(UPDATE cubepi_messages SET metadata = '{"tag": "b"}')");
    const CheckpointData data = *run(store.load("t"));
    JsonObject wanted = odd_values();
    wanted["z"] = 2;
    wanted["new"] = true;
    EXPECT_EQ(to_python_json(data.extra), to_python_json(wanted));
    EXPECT_EQ(to_python_json(data.messages[0].user()->metadata.get()), R"({"tag": "b"})");
    run(store.save_extra("t", JsonObject{{"a", nullptr}, {"z", 3}}));
    wanted.stable_erase("a");
    wanted["z"] = 3;
    EXPECT_EQ(to_python_json(run(store.load("t"))->extra), to_python_json(wanted));
}

TEST_F(PostgresShared, D21_NumberBeyond64Bits_IsNotWrittenBack) {
    query(R"(INSERT INTO cubepi_threads (thread_id, extra) VALUES ('t',)"
          R"( '{"n": 1180591620717411303424, "a": 1}'))");
    JsonObject extra = run(store.load("t"))->extra;
    EXPECT_TRUE(extra.at("n").is_double());
    extra["a"] = 2;
    run(store.save_extra("t", extra));
    EXPECT_EQ(query("SELECT extra FROM cubepi_threads").front(),
              R"({"a": 2, "n": 1180591620717411303424})");
}

TEST_F(PostgresShared, ThreadWithForks_CanBeDeleted) {
    run(store.claim_run("t", "r", ClaimOwner(), ClaimKind::new_run));
    run(store.append("t", one(user("x", "r", "id")), AppendOptions()));
    run(store.mark_run_complete("t", "r"));
    run(store.fork("t", "fork", "r", std::nullopt));
    EXPECT_EQ(query("SELECT forked_at_seq FROM cubepi_threads WHERE thread_id = 'fork'").front(),
              "1");
    run(store.delete_thread("t"));
    EXPECT_TRUE(run(store.find_message("fork", "id")));
    EXPECT_FALSE(run(store.load("fork"))->parent_thread_id);
}

TEST_F(PostgresShared, StoreAfterFork_IsRefused) {
    run(store.open());
    const int pid = ::fork();
    if (pid == 0) {
        int code = 1;
        try {
            run(store.load("t"));
        } catch (const CheckpointerError& error) {
            code = error.code() == ErrorCode::invalid_state ? 0 : 2;
        }
        _exit(code);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(run(store.load("t"))) << "the session of the parent continues";
}

}  // namespace
}  // namespace cubepi
