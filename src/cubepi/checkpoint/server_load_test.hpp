// Loads of long threads, whose rows arrive in many parts, over a proxy.
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi {

/// Messages of all sizes, some of them larger than the buffers of the client libraries.
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
inline MessageList store_threads(ServerCheckpointer& store) {
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

inline void check_cut_loads(ServerCheckpointer& store, ServerProxy& proxy) {
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
inline Task<> cancel_load(ServerCheckpointer& store, int turns) {
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
inline void check_cancelled_loads(ServerCheckpointer& store) {
    const MessageList messages = store_threads(store);
    for (int turns = 0; turns < 400; turns += 1 + turns / 8) {
        run(cancel_load(store, turns));
        EXPECT_EQ(run(store.load("short"))->messages.size(), 1U);
    }
    expect_messages(run(store.load("long")), messages);
}

/// `store` has one connection, and the rows after the 700th of the long thread are unreadable.
inline void check_unreadable_rows(ServerCheckpointer& store) {
    for (int i = 0; i < 2; ++i) {
        const auto error = error_of<CheckpointCorruptionError>(store.load("long"));
        EXPECT_EQ(error.row_ref(), "cubepi_messages.seq=701");
        EXPECT_EQ(error.thread_id(), "long");
        EXPECT_EQ(run(store.load("short"))->messages.size(), 1U);
    }
}

}  // namespace cubepi
