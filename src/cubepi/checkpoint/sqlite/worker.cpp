#include <cubepi/checkpoint/sqlite/worker.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <pthread.h>
#include <unistd.h>

#include <cubepi/checkpoint/sqlite/tables.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/blocked_signals.hpp>

namespace cubepi::detail {

SqliteJob::~SqliteJob() = default;

void SqliteJob::start(Handler handler) {
    Executor executor = boost::asio::get_associated_executor(handler);
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    {
        const std::lock_guard lock(mutex_);
        executor_.emplace(boost::asio::prefer(std::move(executor),
                                              boost::asio::execution::outstanding_work.tracked));
        handler_.emplace(std::move(handler));
    }
    if (slot.is_connected()) {
        slot.assign([weak = weak_from_this()](boost::asio::cancellation_type type) {
            if (type == boost::asio::cancellation_type::none) return;
            if (const auto self = weak.lock()) self->cancel();
        });
    }
}

void SqliteJob::finish(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!handler_ || posted_) return;
    failure_ = std::move(failure);
    posted_ = true;
    // Under the lock, which resume() takes first: the executor cannot be destroyed before post() returns.
    boost::asio::post(*executor_, [self = shared_from_this()] { self->resume(); });
}

void SqliteJob::cancel() {
    const std::lock_guard lock(mutex_);
    // A result that was posted takes precedence over the cancellation (D51).
    if (!handler_ || posted_) return;
    failure_ = make_cancelled();
    posted_ = true;
    abandoned_ = true;
    boost::asio::post(*executor_, [self = shared_from_this()] { self->resume(); });
}

bool SqliteJob::is_abandoned() {
    const std::lock_guard lock(mutex_);
    return abandoned_;
}

void SqliteJob::resume() {
    std::unique_lock lock(mutex_);
    Handler handler = std::move(*handler_);
    const Executor executor = std::move(*executor_);
    std::exception_ptr failure = std::move(failure_);
    handler_.reset();
    executor_.reset();
    lock.unlock();
    boost::asio::get_associated_cancellation_slot(handler).clear();
    std::move(handler)(std::move(failure));
}

struct StartJob {
    void operator()(SqliteJob::Handler handler, std::shared_ptr<SqliteWorker> worker,
                    std::shared_ptr<SqliteJob> job) const {
        job->start(std::move(handler));
        worker->submit(std::move(job));
    }
};

Task<> run_job(std::shared_ptr<SqliteWorker> worker, std::shared_ptr<SqliteJob> job) {
    return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>,
                                       void(std::exception_ptr)>(
        StartJob(), boost::asio::use_awaitable, std::move(worker), std::move(job));
}

SqliteWorker::SqliteWorker(SQLiteOptions options) : options_(std::move(options)) {}

SqliteWorker::~SqliteWorker() { close(); }

void SqliteWorker::start_thread() {
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "cubepi-sqlite");
    thread_process_ = getpid();
}

void SqliteWorker::submit(std::shared_ptr<SqliteJob> job) {
    std::exception_ptr refused;
    try {
        // Before the lock, which may be held forever in a forked child.
        if (thread_process_ != 0 && thread_process_ != getpid()) {
            throw CheckpointerError(ErrorCode::invalid_state,
                                    "an SQLite store cannot be used after fork(); open another one "
                                    "in the child");
        }
        const std::lock_guard lock(mutex_);
        if (closed_) {
            throw CheckpointerError(ErrorCode::invalid_state, "the SQLite store is closed");
        }
        if (!thread_.joinable()) start_thread();
        queue_.push_back(job);
    } catch (...) {
        refused = std::current_exception();
    }
    if (refused) {
        job->finish(std::move(refused));
    } else {
        wake_.notify_one();
    }
}

void SqliteWorker::close() {
    if (thread_process_ != 0 && thread_process_ != getpid()) {
        if (thread_.joinable()) thread_.detach();
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
}

SQLiteStats SqliteWorker::stats() const noexcept {
    SQLiteStats stats;
    stats.writes = writes_.load();
    stats.commits = commits_.load();
    return stats;
}

void SqliteWorker::run() {
    for (;;) {
        Jobs jobs;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return closed_ || !queue_.empty(); });
            if (queue_.empty()) break;
            jobs.swap(queue_);
        }
        process(jobs);
    }
    database_.reset();
}

/// Opens the database if it is not open. If that fails, finishes the jobs with the error and returns false.
bool SqliteWorker::is_open_for(const Jobs& jobs) {
    std::exception_ptr failure;
    try {
        if (!database_) {
            database_ = std::make_unique<SqliteDatabase>(options_);
        } else if (database_->was_moved()) {
            database_->fail_moved();
        }
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) return true;
    // The next call opens the file that is then at the path.
    database_.reset();
    finish_all(jobs, std::move(failure));
    return false;
}

void SqliteWorker::process(const Jobs& jobs) {
    if (!is_open_for(jobs)) return;
    // These calls were made concurrently, so any order of them is valid.
    Jobs writes;
    for (const auto& job : jobs) {
        if (job->access() == SqliteAccess::write) writes.push_back(job);
    }
    if (!writes.empty()) write_together(writes);
    for (const auto& job : jobs) {
        if (job->access() == SqliteAccess::read) read(job);
    }
}

void SqliteWorker::finish_all(const Jobs& jobs, std::exception_ptr failure) {
    for (std::size_t i = 0; i + 1 < jobs.size(); ++i) jobs[i]->finish(failure);
    // The last job takes the exception: it is released by its receivers, and this thread keeps no reference.
    jobs.back()->finish(std::move(failure));
}

/// Executes the jobs, each in a savepoint of its own. Returns false if one failed with an error that concerns the whole
/// transaction.
bool SqliteWorker::execute_all(const Jobs& jobs, std::vector<std::exception_ptr>& failures) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        database_->prepare("SAVEPOINT job").run();
        try {
            jobs[i]->execute(*database_);
        } catch (const CheckpointerError& error) {
            failures[i] = std::current_exception();
            if (error.code() == ErrorCode::storage || error.code() == ErrorCode::storage_full)
                return false;
        } catch (...) {
            failures[i] = std::current_exception();
        }
        if (!database_->in_transaction()) return false;
        if (failures[i]) database_->prepare("ROLLBACK TO job").run();
        database_->prepare("RELEASE job").run();
    }
    return true;
}

void SqliteWorker::write_together(const Jobs& jobs) {
    if (jobs.size() == 1) return write_alone(jobs.front());
    std::vector<std::exception_ptr> failures(jobs.size());
    std::exception_ptr common;
    bool stored = false;
    try {
        database_->prepare("BEGIN IMMEDIATE").run();
        stored = execute_all(jobs, failures);
        if (stored) database_->prepare("COMMIT").run();
    } catch (const CheckpointerLockTimeoutError&) {
        // Executing them one by one would wait as long for each.
        common = std::current_exception();
    } catch (...) {
        stored = false;
    }
    if (common || !stored) database_->rollback();
    if (common) return finish_all(jobs, std::move(common));
    if (!stored) {
        for (const auto& job : jobs) write_alone(job);
        return;
    }
    std::uint64_t written = 0;
    for (const auto& failure : failures) written += failure ? 0 : 1;
    count_commit(written);
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i]->finish(std::move(failures[i]));
}

void SqliteWorker::write_alone(const std::shared_ptr<SqliteJob>& job) {
    std::exception_ptr failure;
    try {
        database_->prepare("BEGIN IMMEDIATE").run();
        job->execute(*database_);
        database_->prepare("COMMIT").run();
        count_commit(1);
    } catch (...) {
        failure = std::current_exception();
        database_->rollback();
    }
    job->finish(std::move(failure));
}

void SqliteWorker::read(const std::shared_ptr<SqliteJob>& job) {
    if (job->is_abandoned()) return;
    std::exception_ptr failure;
    try {
        // One transaction, so that all its reads see the same state.
        database_->prepare("BEGIN").run();
        job->execute(*database_);
        database_->prepare("COMMIT").run();
    } catch (...) {
        failure = std::current_exception();
        database_->rollback();
    }
    job->finish(std::move(failure));
}

void SqliteWorker::count_commit(std::uint64_t writes) noexcept {
    if (writes == 0) return;
    writes_ += writes;
    ++commits_;
}

}  // namespace cubepi::detail

namespace cubepi {

namespace {

SQLiteOptions options_for(std::string path) {
    SQLiteOptions options;
    options.path = std::move(path);
    return options;
}

SQLiteOptions with_defaults(SQLiteOptions options) {
    if (!options.clock) options.clock = std::make_shared<SystemClock>();
    if (!options.log) options.log = Runtime::standard()->log;
    return options;
}

}  // namespace

SQLiteCheckpointer::SQLiteCheckpointer(std::string path)
    : SQLiteCheckpointer(options_for(std::move(path))) {}

SQLiteCheckpointer::SQLiteCheckpointer(SQLiteOptions options)
    : SQLiteCheckpointer(
          std::make_shared<detail::SqliteWorker>(with_defaults(std::move(options)))) {}

SQLiteCheckpointer::SQLiteCheckpointer(std::shared_ptr<detail::SqliteWorker> worker)
    : StoredThreads(std::make_shared<detail::SqliteTables>(worker)), worker_(std::move(worker)) {}

SQLiteCheckpointer::~SQLiteCheckpointer() { worker_->close(); }

SQLiteStats SQLiteCheckpointer::stats() const { return worker_->stats(); }

Task<void> SQLiteCheckpointer::open() {
    // Any call opens the file.
    auto call = [](detail::SqliteDatabase&) {};
    return detail::call_sqlite(worker_, detail::SqliteAccess::read, std::move(call));
}

}  // namespace cubepi
