#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_log.hpp>
#include <cubepi/testing/store_conformance.hpp>

// The tests that the stores on both servers pass: the conformance suite, loads of long threads, errors, and, over a proxy,
// connections that break.

namespace cubepi {

namespace {

using Direction = ServerProxy::Direction;

class ServerStore : public ::testing::Test {
protected:
    ServerStore() { options.connection = database->connection(); }

    std::shared_ptr<SqlCheckpointer> open() const { return ServerDatabase::open(options); }
    void check_suite(testing::StoreUnderTest subject) {
        subject.make = [&] {
            database->clear();
            return open();
        };
        for (const testing::StoreFailure& failure : testing::check_store(subject)) {
            ADD_FAILURE() << failure.check << ": " << failure.text;
        }
    }
    /// One message with an id.
    static Task<std::int64_t> append(SqlCheckpointer& store, const std::string& thread_id) {
        return store.append(thread_id, one(user("hello", "r", "id")),
                            AppendOptions().expected_position(0));
    }

    std::unique_ptr<ServerDatabase> database = ServerDatabase::create();
    SqlOptions options;
};

/// A store that connects to the proxy.
class ServerFaults : public ServerStore {
protected:
    ServerFaults() : proxy(database->proxy()) { options.connection = database->proxy_connection(); }

    ServerProxy& proxy;
};

/// A store with one connection, to the proxy.
class ServerLoad : public ServerFaults {
protected:
    ServerLoad() { options.max_connections = 1; }
};

TEST_F(ServerStore, Store_Conforms) {
    const auto clock = std::make_shared<testing::ManualClock>();
    options.lease_clock = clock;
    testing::StoreUnderTest subject;
    subject.reopen = [&](std::shared_ptr<Checkpointer> store) {
        store.reset();
        return open();
    };
    subject.advance = [&](std::chrono::seconds amount) { clock->advance(amount); };
    check_suite(std::move(subject));
}

TEST_F(ServerFaults, StoreBehindProxy_Conforms) { check_suite(testing::StoreUnderTest()); }

/// For loads over a proxy: messages of all sizes, some of them larger than the buffers of the client libraries.
MessageList long_thread() {
    MessageList list;
    for (int i = 0; i < 1500; ++i) {
        const std::size_t size = i % 300 == 7 ? 100'000 : static_cast<std::size_t>(i) % 500;
        list.push_back(
            user(std::string(size, 'x') + std::to_string(i), "r" + std::to_string(i / 10)));
    }
    return list;
}

/// Stores the long thread as "long" and one message as "short".
MessageList store_threads(SqlCheckpointer& store) {
    MessageList messages = long_thread();
    run(store.append("long", messages, AppendOptions()));
    run(store.append("short", one(user("hello")), AppendOptions()));
    return messages;
}

void expect_messages(std::optional<CheckpointData> data, const MessageList& messages) {
    ASSERT_TRUE(data);
    EXPECT_EQ(data->position, static_cast<std::int64_t>(messages.size()));
    EXPECT_EQ(data->messages, messages);
}

TEST_F(ServerLoad, ConnectionCutAnywhere_LoadIsRepeated) {
    const auto opened = open();
    SqlCheckpointer& store = *opened;
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
Task<> cancel_load(SqlCheckpointer& store, int turns) {
    std::stop_source source;
    Task<std::optional<CheckpointData>> load = store.load("long");
    Task<std::optional<CheckpointData>> stoppable = cancel_on(source.get_token(), std::move(load));
    const Executor executor = co_await this_executor;
    TaskGroup<std::optional<CheckpointData>> group(executor, ScopePolicy::collect);
    group.spawn(std::move(stoppable));
    for (int i = 0; i < turns; ++i) co_await boost::asio::post(boost::asio::use_awaitable);
    source.request_stop();
    (void)co_await group.join_failure();
    const auto outcome = std::move(group.take().front());
    EXPECT_TRUE(outcome.ok() || outcome.cancelled()) << turns;
}

TEST_F(ServerLoad, CancelledAnywhere_LoadEnds) {
    const auto opened = open();
    SqlCheckpointer& store = *opened;
    const MessageList messages = store_threads(store);
    for (int turns = 0; turns < 400; turns += 1 + turns / 8) {
        run(cancel_load(store, turns));
        EXPECT_EQ(run(store.load("short"))->messages.size(), 1U);
    }
    expect_messages(run(store.load("long")), messages);
}

TEST_F(ServerLoad, UnreadableRowAmongMany_IsNamed) {
    const auto store = open();
    store_threads(*store);
    database->damage_messages("thread_id = 'long' AND seq > 700");
    for (int i = 0; i < 2; ++i) {
        const auto error = error_of<CheckpointCorruptionError>(store->load("long"));
        EXPECT_EQ(error.row_ref(), "cubepi_messages.seq=701");
        EXPECT_EQ(error.thread_id(), "long");
        EXPECT_EQ(run(store->load("short"))->messages.size(), 1U);
    }
}

TEST_F(ServerStore, UnreadableRow_IsNamed) {
    const auto store = open();
    run(store->append("t", one(user("hello")), AppendOptions()));
    run(store->append("t", one(user("again")), AppendOptions()));
    database->damage_messages("seq = 2");
    const auto error = error_of<CheckpointCorruptionError>(store->load("t"));
    EXPECT_EQ(error.row_ref(), "cubepi_messages.seq=2");
    EXPECT_EQ(error.backend(), database->name());
    EXPECT_EQ(error.thread_id(), "t");
    expect_one_line(error);
}

TEST_F(ServerStore, DocumentedRights_Suffice) {
    options.connection = database->writer_connection();
    const auto store = open();
    run(store->append("t", one(user("hello", "r", "id")), AppendOptions()));
    run(store->claim_run("t", "r", ClaimOwner(), ClaimKind::new_run));
    HitlRequest request;
    request.question_id = "q";
    run(store->save_pending_request("t", "r", request));
    EXPECT_EQ(run(store->list_requests(QuestionQuery())).entries.size(), 1U);
    run(store->mark_run_complete("t", "r"));
    run(store->delete_thread("t"));
    EXPECT_EQ(database
                  ->query("SELECT (SELECT count(*) FROM cubepi_messages) + (SELECT count(*) FROM"
                          " cubepi_native_writes) + (SELECT count(*) FROM cubepi_native_pending)")
                  .front(),
              "0");
}

TEST_F(ServerStore, LockOfAnotherTransaction_IsBusy) {
    run(open()->append("t", one(user("hello")), AppendOptions()));
    std::shared_ptr<void> lock = database->lock_thread();
    options.lock_timeout = std::chrono::milliseconds(20);
    const cubepi::testing::MemoryLog log;
    options.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    const auto store = open();
    Task<std::int64_t> append = store->append("t", one(user("hello")), AppendOptions());
    const auto error = error_of<CheckpointerLockTimeoutError>(std::move(append));
    expect(error, ErrorCode::storage_locked, "lock_timeout");
    EXPECT_EQ(error.thread_id(), "t");
    EXPECT_EQ(log.text(), "<4>store.busy store=" + database->name() + " error=server " +
                              database->lock_code() + " repeated=false\n");
    run(store->append("u", one(user("hello")), AppendOptions()));
    lock.reset();
    run(store->append("t", one(user("hello")), AppendOptions()));
}

TEST_F(ServerStore, ExhaustedPool_IsBusy) {
    run(open()->append("t", one(user("hello")), AppendOptions()));
    std::shared_ptr<void> lock = database->lock_thread();
    options.max_connections = 1;
    options.acquire_timeout = std::chrono::milliseconds(20);
    options.lock_timeout = std::chrono::milliseconds(1000);
    const auto store = open();
    run(store->open());
    std::vector<Task<Outcome<std::int64_t>>> tasks;
    tasks.push_back(outcome_of_append(*store, "t"));
    tasks.push_back(outcome_of_append(*store, "u"));
    std::vector<Outcome<std::int64_t>> outcomes = run(when_all(std::move(tasks)));
    const auto second = [&]() -> Task<std::int64_t> {
        outcomes[1].rethrow();
        co_return 0;
    };
    expect(checked(second()), ErrorCode::timeout, "max_connections");
    EXPECT_FALSE(outcomes[0].ok()) << "the lock was never released";
    lock.reset();
    run(store->append("u", one(user("hello")), AppendOptions()));
}

TEST_F(ServerStore, ConnectionClosedByServer_IsReplaced) {
    const auto store = open();
    run(append(*store, "t"));
    database->end_connections();
    EXPECT_EQ(run(store->load("t"))->messages.size(), 1U);
}

TEST_F(ServerStore, FullDisk_ErrorNamesTheRemedy) {
    database->refuse_messages();
    const auto store = open();
    expect(checked(append(*store, "t")), ErrorCode::storage_full, "free space");
    EXPECT_FALSE(run(store->load("t")));
}

TEST_F(ServerFaults, D20_ConnectionCutAnywhere_AppendIsStoredOnce) {
    // Of some 700 bytes, or 1,700.
    const std::size_t stride = database->name() == "mysql" ? 3 : 5;
    const auto store = open();
    run(store->open());
    (void)proxy.take_count(Direction::to_server);
    (void)proxy.take_count(Direction::to_client);
    run(append(*store, "t"));
    int threads = 1;
    for (const Direction direction : {Direction::to_server, Direction::to_client}) {
        const std::size_t bytes = proxy.take_count(direction);
        ASSERT_GT(bytes, 200U);
        for (std::size_t cut = 0; cut <= bytes; cut += stride) {
            proxy.cut_after(direction, cut);
            run(append(*store, "t" + std::to_string(threads++)));
        }
        // The last cut may not have been reached.
        run(store->load("t"));
        (void)proxy.take_count(Direction::to_client);
        run(append(*store, "measured " + std::to_string(threads++)));
    }
    EXPECT_EQ(
        database->query("SELECT count(*), count(DISTINCT thread_id), min(seq), max(seq)"
                        " FROM cubepi_messages"),
        (std::vector<std::string>{std::to_string(threads), std::to_string(threads), "1", "1"}));
    EXPECT_EQ(database->query("SELECT count(*) FROM cubepi_native_message_ids").front(),
              std::to_string(threads));
}

TEST_F(ServerFaults, ConnectionCut_ReadIsRepeated) {
    const auto store = open();
    run(append(*store, "t"));
    for (const std::size_t cut : {0U, 1U, 100U, 300U}) {
        proxy.cut_after(Direction::to_client, cut);
        EXPECT_EQ(run(store->load("t"))->messages.size(), 1U);
    }
}

TEST_F(ServerFaults, SilentServer_IsATimeout) {
    options.query_timeout = std::chrono::milliseconds(50);
    const auto store = open();
    run(store->open());
    proxy.freeze();
    const CheckpointerError error = error_of<CheckpointerError>(store->load("t"));
    EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
    expect_one_line(error);
    EXPECT_FALSE(run(store->load("t"))) << "a new connection is used";
}

}  // namespace

}  // namespace cubepi
