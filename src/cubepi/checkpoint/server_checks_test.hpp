#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/child_process_test.hpp>
#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

// Checks of the stores on database servers: errors, loads over a proxy, plans, and several processes.

namespace cubepi {

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

/// For loads over a proxy: messages of all sizes, some of them larger than the buffers of the client libraries.
inline MessageList long_thread() {
    MessageList list;
    for (int i = 0; i < 1500; ++i) {
        const std::size_t size = i % 300 == 7 ? 100'000 : static_cast<std::size_t>(i) % 500;
        list.push_back(
            user(std::string(size, 'x') + std::to_string(i), "r" + std::to_string(i / 10)));
    }
    return list;
}

/// Stores the long thread as "long" and one message as "short".
inline MessageList store_threads(SqlCheckpointer& store) {
    MessageList messages = long_thread();
    run(store.append("long", messages, AppendOptions()));
    run(store.append("short", one(user("hello")), AppendOptions()));
    return messages;
}

inline void expect_messages(std::optional<CheckpointData> data, const MessageList& messages) {
    ASSERT_TRUE(data);
    EXPECT_EQ(data->position, static_cast<std::int64_t>(messages.size()));
    EXPECT_EQ(data->messages, messages);
}

inline void check_cut_loads(SqlCheckpointer& store, ServerProxy& proxy) {
    const MessageList messages = store_threads(store);
    (void)proxy.take_count(ServerProxy::Direction::to_client);
    expect_messages(run(store.load("long")), messages);
    const std::size_t bytes = proxy.take_count(ServerProxy::Direction::to_client);
    ASSERT_GT(bytes, 800'000U);
    for (std::size_t cut = 0; cut < bytes; cut += bytes / 40) {
        proxy.cut_after(ServerProxy::Direction::to_client, cut);
        expect_messages(run(store.load("long")), messages);
    }
}

/// Starts a load, and cancels it after the event loop has run so many times.
inline Task<> cancel_load(SqlCheckpointer& store, int turns) {
    std::stop_source source;
    Task<std::optional<CheckpointData>> load = store.load("long");
    Task<std::optional<CheckpointData>> stoppable = cancel_on(source.get_token(), std::move(load));
    const Executor executor = co_await this_executor;
    TaskGroup<std::optional<CheckpointData>> group(executor, ScopePolicy::collect);
    group.spawn(std::move(stoppable));
    for (int i = 0; i < turns; ++i) co_await boost::asio::post(boost::asio::use_awaitable);
    source.request_stop();
    (void)co_await group.settle();
    const auto outcome = std::move(group.take().front());
    EXPECT_TRUE(outcome.ok() || outcome.cancelled()) << turns;
}

/// `store` has one connection.
inline void check_cancelled_loads(SqlCheckpointer& store) {
    const MessageList messages = store_threads(store);
    for (int turns = 0; turns < 400; turns += 1 + turns / 8) {
        run(cancel_load(store, turns));
        EXPECT_EQ(run(store.load("short"))->messages.size(), 1U);
    }
    expect_messages(run(store.load("long")), messages);
}

/// `store` has one connection, and the rows after the 700th of the long thread are unreadable.
inline void check_unreadable_rows(SqlCheckpointer& store) {
    for (int i = 0; i < 2; ++i) {
        const auto error = error_of<CheckpointCorruptionError>(store.load("long"));
        EXPECT_EQ(error.row_ref(), "cubepi_messages.seq=701");
        EXPECT_EQ(error.thread_id(), "long");
        EXPECT_EQ(run(store.load("short"))->messages.size(), 1U);
    }
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
    EXPECT_EQ(run(store.load_answer_records("t400")).size(), 1U);
    EXPECT_EQ(run(store.discard_requests("t500")), 1U);
}

/// The work of a child process, which takes a connection string. It is the test program with `--child`.
template <class Store>
void append_when_told(const std::string& connection) {
    Store store(connection);
    run(store.open());
    say("ready");
    const std::string thread_id = read_line();
    MessageList two = one(user("first", "r", "id-1"));
    two.push_back(user("second", "r", "id-2"));
    AppendOptions options = AppendOptions().extra(JsonObject{{"a", 1}});
    run(store.append(thread_id, std::move(two), std::move(options)));
    say("stored");
}

/// Two processes append to one thread.
inline void expect_no_forks(SqlCheckpointer& store, const std::string& connection) {
    Child first("append_in_turns", connection);
    Child second("append_in_turns", connection);
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    std::map<std::string, int> next;
    const MessageList messages = run(store.load("t"))->messages;
    EXPECT_EQ(messages.size(), 2U * appends_per_process);
    for (const Message& message : messages) {
        const std::string text = message.text();
        const std::string name = text.substr(0, text.find(' '));
        EXPECT_EQ(text, name + " " + std::to_string(next[name]++))
            << "in order, none twice, none lost";
    }
}

/// Kills a process before each statement of an append. Returns how many of the appends were stored.
inline int kill_at_each_statement(SqlCheckpointer& store, ServerProxy& proxy,
                                  const std::string& connection) {
    constexpr int most_statements = 60;
    bool finished = false;
    int stored = 0;
    for (int statement = 1; !finished; ++statement) {
        EXPECT_LT(statement, most_statements);
        if (statement >= most_statements) break;
        const std::string thread_id = "t" + std::to_string(statement);
        Child child("append_when_told", connection);
        EXPECT_EQ(child.read_line(), "ready");
        proxy.before_statement(statement, [&] { child.kill_now(); });
        child.tell(thread_id);
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

/// Writes a thread, lets `command` read it and continue it with CubePi, and reads what that has written. Returns an exit
/// status. Run by tools/check-interchange.
template <class Store>
int check_interchange(Store& store, const std::string& command) {
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

}  // namespace cubepi
