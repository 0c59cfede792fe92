#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/checkpoint/server_schema.hpp>
#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>

// Helpers of the tests of stores on database servers.

namespace cubepi {

/// A database with our tables on the server that a test binary starts, and a proxy of the server. The tests in server_store_test.cpp and
/// server_processes_test.cpp use it, which are a part of the binaries of both servers.
class ServerDatabase {
public:
    virtual ~ServerDatabase() = default;
    ServerDatabase(const ServerDatabase&) = delete;
    ServerDatabase& operator=(const ServerDatabase&) = delete;

    /// Creates a database on the server, with our tables or empty.
    static std::unique_ptr<ServerDatabase> create(bool with_tables = true);
    /// Opens a store of the server. `options` name the connection.
    static std::shared_ptr<SqlCheckpointer> open(const SqlOptions& options);

    /// "mysql" or "postgres".
    virtual std::string name() const = 0;
    virtual std::string connection() const = 0;
    virtual std::string proxy_connection() const = 0;
    virtual ServerProxy& proxy() = 0;
    virtual std::vector<std::string> query(const std::string& sql) = 0;
    /// Removes all threads.
    virtual void clear() = 0;
    /// Locks the thread "t" in another transaction, until the result is destroyed.
    virtual std::shared_ptr<void> lock_thread() = 0;
    /// The field of the log with the server's code for a lock timeout.
    virtual std::string lock_code() const = 0;
    /// Ends the connections of stores.
    virtual void end_connections() = 0;
    /// Makes the payload of these messages unreadable.
    virtual void damage_messages(const std::string& condition) = 0;
    /// Makes the server refuse each message as if its disk were full.
    virtual void refuse_messages() = 0;
    /// The connection of a user that can only read and write the tables.
    virtual std::string writer_connection() = 0;
    /// Executes a file of tests/conformance/databases with the client of the server.
    virtual void run_file(const std::string& name) = 0;
    /// The columns, indexes and constraints of the tables of CubePi.
    virtual std::string shape() = 0;
    /// Changes tables of CubePi of version 5, which have no rows but those of a thread "old", to an older version.
    virtual void make_older(int version) = 0;
    /// A literal of bytes in SQL, and the hexadecimal digits of a column.
    virtual std::string bytes(const std::string& hex) const = 0;
    virtual std::string hex_of(const std::string& column) const = 0;
    // The functions of the schema of the server.
    virtual SqlSchemaStatus apply_schema() = 0;
    virtual SqlSchemaStatus schema_status() = 0;
    virtual std::string schema_sql(const SqlSchemaStatus& from) = 0;
    virtual StoreReport check() = 0;
    /// The database as arguments of tests/conformance/databases_in_cubepi.py.
    virtual std::string script_arguments() const = 0;

protected:
    ServerDatabase() = default;
};

/// Returns the error of a task. It has the form for a terminal and contains no password.
template <class T>
CheckpointerError checked(Task<T> task) {
    const CheckpointerError error = error_of<CheckpointerError>(std::move(task));
    expect_one_line(error);
    EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos) << error.what();
    return error;
}

/// The error names the next step.
inline void expect(const CheckpointerError& error, ErrorCode code, const std::string& step) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(step), std::string::npos) << error.what();
}

inline Task<Outcome<std::int64_t>> outcome_of_append(SqlCheckpointer& store,
                                                     std::string thread_id) {
    MessageList list = one(user("hello"));
    Task<std::int64_t> append =
        store.append(std::move(thread_id), std::move(list), AppendOptions());
    co_return co_await outcome_of(std::move(append));
}

/// A text that does not compress.
inline std::string noise(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string text(size, ' ');
    for (char& c : text) c = static_cast<char>('!' + random() % 90);
    return text;
}

/// Appends long messages to "t" until the server refuses one, and returns that error. `stored` is the position.
inline std::exception_ptr fill_disk(SqlCheckpointer& store, std::int64_t& stored) {
    constexpr std::size_t megabyte = 1U << 20U;
    std::exception_ptr refusal;
    for (unsigned i = 0; i < 40 && !refusal; ++i) {
        AppendOptions next = AppendOptions().expected_position(stored);
        const Outcome<std::int64_t> outcome =
            run(outcome_of(store.append("t", one(user(noise(megabyte, i))), std::move(next))));
        refusal = outcome.failure();
        if (!refusal) ++stored;
    }
    return refusal;
}

inline ClaimOwner owner_elsewhere() {
    ClaimOwner one;
    one.owner_id = "me";
    one.host = "elsewhere";
    return one;
}

/// For tests of plans: calls every function of a store on a server whose work is limited to one thread or one page. The database has the threads
/// t1 to t20000, each with the request "q" of the run "r0"; t1 has messages of the runs r0 to r3, which are complete.
inline void use_store(SqlCheckpointer& store) {
    const std::string id = "t1";
    const std::int64_t position = run(store.load(id))->position;
    run(store.claim_run(id, "new", owner_elsewhere(), ClaimKind::new_run));
    run(store.renew_claim(id, "new", "me"));
    AppendOptions options = AppendOptions()
                                .expected_position(position)
                                .extra(JsonObject{{"z", 1}, {"b", "x"}})
                                .claim("new", "me")
                                .settle("new", {"q9"});
    run(store.append(id, one(user("hello", "new", "message")), std::move(options)));
    EXPECT_TRUE(run(store.find_message(id, "message")));
    run(store.save_extra(id, JsonObject{{"c", 1}}));
    HitlAnswer answer;
    answer.run_id = "new";
    answer.question_id = "q1";
    answer.answer = JsonObject{{"z", 1}, {"b", 2}};
    run(store.save_hitl_answer(id, answer));
    EXPECT_TRUE(run(store.load_hitl_answer(id, "new", "q1")));
    BatchStart start;
    start.run_id = "new";
    start.owner_id = "me";
    start.batch_id = "b";
    start.tool_call_ids = {"call"};
    start.question_ids = {"q1"};
    run(store.mark_batch_started(id, start));
    EXPECT_TRUE(run(store.load_started_batch(id, "new")));
    run(store.clear_hitl_answers(id, "new", {}));
    run(store.complete_run(id, "new", "me"));
    EXPECT_TRUE(run(store.is_run_complete(id, "new")));
    HitlRequest request;
    request.question_id = "q2";
    run(store.save_pending_request("t2", "r", request));
    EXPECT_TRUE(run(store.clear_pending_request("t2", "r", "q2")));
    EXPECT_FALSE(run(store.snapshot(id, "r3")).empty());
    run(store.fork(id, "fork", "r3", JsonObject{{"why", "test"}}));
    run(store.delete_thread("t3"));
    for (const QuestionOrder order : {QuestionOrder::age, QuestionOrder::deadline}) {
        QuestionQuery query = QuestionQuery().order(order);
        const QuestionPage page = run(store.list_requests(std::move(query)));
        QuestionQuery next = QuestionQuery().order(order).after(page.next);
        EXPECT_EQ(run(store.list_requests(std::move(next))).entries.size(), 50U);
    }
    EXPECT_EQ(run(store.expire_due(300, 10)).size(), 10U);
    AnswerRecord record;
    record.run_id = "r0";
    record.question_id = "q";
    record.answer = true;
    run(store.answer_request("t400", std::move(record)));
    EXPECT_EQ(run(store.load_answer_records("t400", "")).size(), 1U);
    EXPECT_EQ(run(store.discard_requests("t500")), 1U);
}

}  // namespace cubepi
