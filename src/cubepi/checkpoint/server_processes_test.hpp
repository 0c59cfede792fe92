// Shared by the tests of several processes on one database server. The children are the test program with `--child`.
#pragma once

#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include <gtest/gtest.h>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/child_process_test.hpp>
#include <cubepi/checkpoint/child_work_test.hpp>
#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>

namespace cubepi {

// The work of the child processes. Each takes a connection string.

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
inline void expect_no_forks(ServerCheckpointer& store, const std::string& connection) {
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
inline int kill_at_each_statement(ServerCheckpointer& store, ServerProxy& proxy,
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

}  // namespace cubepi
