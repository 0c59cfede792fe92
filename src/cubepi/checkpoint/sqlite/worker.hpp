#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/checkpoint/sqlite/database.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

class SqliteWorker;

enum class SqliteAccess : std::uint8_t { read, write };

/// A call that is executed on the thread of the database and resumes the coroutine that waits for it.
class SqliteJob : public std::enable_shared_from_this<SqliteJob> {
public:
    explicit SqliteJob(SqliteAccess access) noexcept : access_(access) {}
    virtual ~SqliteJob();
    SqliteJob(const SqliteJob&) = delete;
    SqliteJob& operator=(const SqliteJob&) = delete;

    SqliteAccess access() const noexcept { return access_; }
    /// Called on the thread of the database, in a transaction. May be called again after a rollback.
    virtual void execute(SqliteDatabase& database) = 0;
    /// Ends the wait. Called once, on any thread.
    void finish(std::exception_ptr failure);
    /// Returns true if no coroutine waits for the result any more.
    bool is_abandoned();

private:
    friend struct StartJob;
    using Handler = boost::asio::async_result<boost::asio::use_awaitable_t<>,
                                              void(std::exception_ptr)>::handler_type;

    void start(Handler handler);
    void cancel();
    void resume();

    const SqliteAccess access_;
    // The coroutine is resumed through its executor only, by finish or by cancel, whichever comes first.
    std::mutex mutex_;
    std::optional<Handler> handler_;
    std::optional<Executor> executor_;
    std::exception_ptr failure_;
    bool posted_ = false;
    bool abandoned_ = false;
};

/// Submits the job to the worker and waits. A cancelled wait ends at once, and the job is executed nevertheless.
Task<> run_job(std::shared_ptr<SqliteWorker> worker, std::shared_ptr<SqliteJob> job);

/// The thread that owns the connection, with its queue of jobs. Writes that are queued together are committed together.
class SqliteWorker {
public:
    /// Starts no thread: the first job does.
    explicit SqliteWorker(SQLiteOptions options);
    ~SqliteWorker();
    SqliteWorker(const SqliteWorker&) = delete;
    SqliteWorker& operator=(const SqliteWorker&) = delete;

    /// May be called on any thread.
    void submit(std::shared_ptr<SqliteJob> job);
    /// Executes the queued jobs, closes the file and ends the thread. Later jobs fail.
    void close();
    SQLiteStats stats() const noexcept;
    const SQLiteOptions& options() const noexcept { return options_; }

private:
    using Jobs = std::vector<std::shared_ptr<SqliteJob>>;

    void start_thread();
    void run();
    bool is_open_for(const Jobs& jobs);
    void process(const Jobs& jobs);
    void write_together(const Jobs& jobs);
    static void finish_all(const Jobs& jobs, std::exception_ptr failure);
    void write_alone(const std::shared_ptr<SqliteJob>& job);
    bool execute_all(const Jobs& jobs, std::vector<std::exception_ptr>& failures);
    void read(const std::shared_ptr<SqliteJob>& job);
    void count_commit(std::uint64_t writes) noexcept;

    const SQLiteOptions options_;
    std::unique_ptr<SqliteDatabase> database_;  ///< used by the thread only

    std::mutex mutex_;
    std::condition_variable wake_;
    Jobs queue_;
    bool closed_ = false;
    std::thread thread_;
    /// The process in which the thread runs: not in a forked child. 0: not started.
    std::atomic<std::int64_t> thread_process_{0};

    std::atomic<std::uint64_t> writes_{0};
    std::atomic<std::uint64_t> commits_{0};
};

template <class F>
class SqliteCall final : public SqliteJob {
public:
    using Result = std::invoke_result_t<const F&, SqliteDatabase&>;

    SqliteCall(SqliteAccess access, F function)
        : SqliteJob(access), function_(std::move(function)) {}

    void execute(SqliteDatabase& database) override {
        if constexpr (std::is_void_v<Result>) {
            function_(database);
        } else {
            result_.emplace(function_(database));
        }
    }
    Result take() {
        if constexpr (!std::is_void_v<Result>) return std::move(*result_);
    }

private:
    const F function_;
    std::optional<std::conditional_t<std::is_void_v<Result>, std::monostate, Result>> result_;
};

/// Calls `function(SqliteDatabase&)` on the worker and returns its result. The function owns everything that it uses.
template <class F>
auto call_sqlite(std::shared_ptr<SqliteWorker> worker, SqliteAccess access, F function)
    -> Task<typename SqliteCall<F>::Result> {
    auto job = std::make_shared<SqliteCall<F>>(access, std::move(function));
    std::shared_ptr<SqliteJob> base = job;
    co_await run_job(std::move(worker), std::move(base));
    co_return job->take();
}

/// Calls `function(database, arguments...)` on the worker. The call owns the arguments.
template <class Result, class... Parameters, class... Arguments>
Task<Result> call_sqlite(std::shared_ptr<SqliteWorker> worker, SqliteAccess access,
                         Result (*function)(SqliteDatabase&, Parameters...),
                         Arguments... arguments) {
    auto bound = [function, ... arguments = std::move(arguments)](SqliteDatabase& database) {
        return function(database, arguments...);
    };
    return call_sqlite(std::move(worker), access, std::move(bound));
}

}  // namespace cubepi::detail
