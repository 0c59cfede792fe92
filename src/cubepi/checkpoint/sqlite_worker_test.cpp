#include <cubepi/checkpoint/sqlite/worker.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi {
namespace {

/// Holds the database, so that writes pile up in the store's queue.
class HeldDatabase {
public:
    explicit HeldDatabase(const std::string& path) : raw_(path) { raw_.query("BEGIN IMMEDIATE"); }
    void release() { raw_.query("COMMIT"); }

private:
    RawDatabase raw_;
};

Task<std::int64_t> release(HeldDatabase& held) {
    held.release();
    co_return 0;
}

Task<std::vector<Outcome<std::int64_t>>> append_while_held(SQLiteCheckpointer& store,
                                                           HeldDatabase& held, int writers,
                                                           int stale_writer) {
    std::vector<Task<std::int64_t>> tasks;
    for (int i = 0; i < writers; ++i) {
        AppendOptions options;
        if (i == stale_writer) options = AppendOptions().expected_position(1000);
        MessageList message = one(user(std::to_string(i)));
        tasks.push_back(
            store.append("t" + std::to_string(i), std::move(message), std::move(options)));
    }
    // Starts after all the others have asked.
    tasks.push_back(release(held));
    auto outcomes = co_await collect_all(std::move(tasks));
    outcomes.pop_back();
    co_return outcomes;
}

class SQLiteWorkerTest : public ::testing::Test {
protected:
    TempDirectory directory;
    std::string path = directory.file("sessions.db");
};

TEST_F(SQLiteWorkerTest, D21_ConcurrentAppends_ShareOneCommit) {
    SQLiteCheckpointer store(path);
    run(store.open());
    HeldDatabase held(path);
    for (const auto& outcome : run(append_while_held(store, held, 64, -1))) {
        EXPECT_TRUE(outcome.ok());
    }
    EXPECT_EQ(store.stats().writes, 64U);
    // The thread may have taken the first ones before the others came.
    EXPECT_LE(store.stats().commits, 3U);
    EXPECT_EQ(run(store.list_threads()).size(), 64U);
}

TEST_F(SQLiteWorkerTest, D20_StaleWriter_DoesNotFailSharedCommit) {
    SQLiteCheckpointer store(path);
    run(store.open());
    HeldDatabase held(path);
    const auto outcomes = run(append_while_held(store, held, 20, 7));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        EXPECT_EQ(outcomes[i].ok(), i != 7) << i;
    }
    EXPECT_THROW(std::rethrow_exception(outcomes[7].failure()), StaleAppendError);
    EXPECT_EQ(run(store.list_threads()).size(), 19U);
}

Task<std::exception_ptr> append_and_cancel(SQLiteCheckpointer& store) {
    std::stop_source source;
    MessageList message = one(user("whole"));
    message.push_back(user("or not at all"));
    Task<std::int64_t> append = store.append("t", std::move(message), AppendOptions());
    TaskGroup<std::int64_t> group(co_await this_executor, ScopePolicy::collect);
    group.spawn(cancel_on(source.get_token(), std::move(append)));
    source.request_stop();
    (void)co_await group.join_failure();
    auto outcomes = group.take();
    co_return outcomes.front().failure();
}

TEST_F(SQLiteWorkerTest, D7_CancelledAppend_ReturnsAtOnceAndStaysWhole) {
    SQLiteCheckpointer store(path);
    run(store.open());
    HeldDatabase held(path);
    // Comes back although the database is held: no coroutine waits for the write.
    const std::exception_ptr failure = run(append_and_cancel(store));
    EXPECT_TRUE(is_cancellation(failure));
    held.release();
    EXPECT_EQ(run(store.load("t"))->messages.size(), 2U);
}

Task<std::exception_ptr> mark_complete_and_cancel(SQLiteCheckpointer& store) {
    std::stop_source source;
    Task<void> completion = store.complete_run("t", "r", "owner");
    TaskGroup<void> group(co_await this_executor, ScopePolicy::collect);
    group.spawn(cancel_on(source.get_token(), std::move(completion)));
    source.request_stop();
    (void)co_await group.join_failure();
    auto outcomes = group.take();
    co_return outcomes.front().failure();
}

TEST_F(SQLiteWorkerTest, D197_CancelledDecision_IsMadeWithoutItsCaller) {
    SQLiteCheckpointer store(path);
    ClaimOwner owner;
    owner.owner_id = "owner";
    run(store.claim_run("t", "r", std::move(owner), ClaimKind::new_run));
    HeldDatabase held(path);
    EXPECT_TRUE(is_cancellation(run(mark_complete_and_cancel(store))));
    held.release();
    EXPECT_TRUE(run(store.is_run_complete("t", "r")));
}

TEST_F(SQLiteWorkerTest, Destructor_FinishesPendingWrites) {
    std::optional<SQLiteCheckpointer> store(path);
    run(store->open());
    HeldDatabase held(path);
    (void)run(append_and_cancel(*store));
    held.release();
    store.reset();
    SQLiteCheckpointer again(path);
    EXPECT_EQ(run(again.load("t"))->messages.size(), 2U);
}

TEST_F(SQLiteWorkerTest, SeveralExecutors_UseOneStore) {
    SQLiteCheckpointer store(path);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&store, i] {
            const std::string name = "t" + std::to_string(i);
            std::int64_t position = 0;
            for (int j = 0; j < 20; ++j) {
                AppendOptions options = AppendOptions().expected_position(position);
                position = run(store.append(name, one(user("x", "r")), std::move(options)));
                if (run(store.load(name))->position != position)
                    ADD_FAILURE() << "an append is not seen";
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const ThreadInfo& info : run(store.list_threads())) {
        EXPECT_EQ(info.message_count, 20);
    }
    EXPECT_EQ(store.stats().writes, 80U);
}

TEST_F(SQLiteWorkerTest, CancelledAndFinishedCalls_MayOverlap) {
    SQLiteCheckpointer store(path);
    run(store.open());
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&store] {
            for (int j = 0; j < 50; ++j) (void)run(append_and_cancel(store));
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(run(store.load("t"))->messages.size(), 300U);
}

TEST_F(SQLiteWorkerTest, CallAfterFork_IsRefused) {
    SQLiteCheckpointer store(path);
    run(store.open());
    const pid_t child = fork();
    if (child == 0) {
        bool refused = false;
        try {
            run(store.load("t"));
        } catch (const Error& error) {
            refused = error.code() == ErrorCode::invalid_state;
        } catch (...) {
        }
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cubepi
