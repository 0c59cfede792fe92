#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <utility>

#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/checkpoint/sqlite/worker.hpp>
#include <cubepi/core/runtime.hpp>

namespace cubepi {

namespace {

using detail::call_sqlite;
using detail::SqliteDatabase;
constexpr auto read = detail::SqliteAccess::read;
constexpr auto write = detail::SqliteAccess::write;

/// Calls `function(database, arguments...)` on the worker. The call owns the arguments.
template <class Result, class... Parameters, class... Arguments>
Task<Result> call(std::shared_ptr<detail::SqliteWorker> worker, detail::SqliteAccess access,
                  Result (*function)(SqliteDatabase&, Parameters...), Arguments... arguments) {
    auto bound = [function, ... arguments = std::move(arguments)](SqliteDatabase& database) {
        return function(database, arguments...);
    };
    return call_sqlite(std::move(worker), access, std::move(bound));
}

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
    : worker_(std::make_shared<detail::SqliteWorker>(with_defaults(std::move(options)))) {}

SQLiteCheckpointer::~SQLiteCheckpointer() { worker_->close(); }

SQLiteStats SQLiteCheckpointer::stats() const { return worker_->stats(); }

Task<void> SQLiteCheckpointer::open() {
    // Any call opens the file.
    auto call = [](SqliteDatabase&) {};
    return call_sqlite(worker_, read, std::move(call));
}

Task<std::optional<CheckpointData>> SQLiteCheckpointer::load(std::string thread_id) {
    return call(worker_, read, detail::load_thread, std::move(thread_id));
}

Task<std::int64_t> SQLiteCheckpointer::append(std::string thread_id, MessageList messages,
                                              AppendOptions options) {
    return call(worker_, write, detail::append_messages, std::move(thread_id), std::move(messages),
                std::move(options));
}

Task<void> SQLiteCheckpointer::save_extra(std::string thread_id, JsonObject extra) {
    return call(worker_, write, detail::save_extra, std::move(thread_id), std::move(extra));
}

Task<ClaimResult> SQLiteCheckpointer::claim_run(std::string thread_id, std::string run_id,
                                                ClaimOwner owner, ClaimKind kind) {
    return call(worker_, write, detail::claim_run, std::move(thread_id), std::move(run_id),
                std::move(owner), kind);
}

Task<void> SQLiteCheckpointer::renew_claim(std::string thread_id, std::string run_id,
                                           std::string owner_id) {
    return call(worker_, write, detail::renew_claim, std::move(thread_id), std::move(run_id),
                std::move(owner_id));
}

Task<void> SQLiteCheckpointer::release_claim(std::string thread_id, std::string run_id,
                                             std::string owner_id) {
    return call(worker_, write, detail::release_claim, std::move(thread_id), std::move(run_id),
                std::move(owner_id));
}

Task<void> SQLiteCheckpointer::mark_run_complete(std::string thread_id, std::string run_id) {
    return call(worker_, write, detail::mark_run_complete, std::move(thread_id), std::move(run_id));
}

Task<void> SQLiteCheckpointer::complete_run(std::string thread_id, std::string run_id,
                                            std::string owner_id) {
    return call(worker_, write, detail::complete_run, std::move(thread_id), std::move(run_id),
                std::move(owner_id));
}

Task<bool> SQLiteCheckpointer::is_run_complete(std::string thread_id, std::string run_id) {
    return call(worker_, read, detail::is_run_complete, std::move(thread_id), std::move(run_id));
}

Task<std::optional<Message>> SQLiteCheckpointer::find_message(std::string thread_id,
                                                              std::string message_id) {
    return call(worker_, read, detail::find_message, std::move(thread_id), std::move(message_id));
}

Task<void> SQLiteCheckpointer::save_pending_request(std::string thread_id, std::string run_id,
                                                    HitlRequest request) {
    return call(worker_, write, detail::save_pending_request, std::move(thread_id),
                std::move(run_id), std::move(request));
}

Task<std::vector<PendingRequest>> SQLiteCheckpointer::load_pending_requests(std::string thread_id) {
    return call(worker_, read, detail::load_pending_requests, std::move(thread_id));
}

Task<bool> SQLiteCheckpointer::clear_pending_request(std::string thread_id, std::string run_id,
                                                     std::string question_id) {
    return call(worker_, write, detail::clear_pending_request, std::move(thread_id),
                std::move(run_id), std::move(question_id));
}

Task<void> SQLiteCheckpointer::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    return call(worker_, write, detail::save_hitl_answer, std::move(thread_id), std::move(answer));
}

Task<std::optional<Json>> SQLiteCheckpointer::load_hitl_answer(std::string thread_id,
                                                               std::string run_id,
                                                               std::string question_id) {
    return call(worker_, read, detail::load_hitl_answer, std::move(thread_id), std::move(run_id),
                std::move(question_id));
}

Task<void> SQLiteCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                                  std::vector<std::string> question_ids) {
    return call(worker_, write, detail::clear_hitl_answers, std::move(thread_id), std::move(run_id),
                std::move(question_ids));
}

Task<void> SQLiteCheckpointer::mark_batch_started(std::string thread_id, BatchStart start) {
    return call(worker_, write, detail::mark_batch_started, std::move(thread_id), std::move(start));
}

Task<std::optional<StartedBatch>> SQLiteCheckpointer::load_started_batch(std::string thread_id,
                                                                         std::string run_id) {
    return call(worker_, read, detail::load_started_batch, std::move(thread_id), std::move(run_id));
}

Task<QuestionPage> SQLiteCheckpointer::list_requests(QuestionQuery query) {
    const std::shared_ptr<detail::SqliteWorker> worker = worker_;
    auto list = [query](SqliteDatabase& database) {
        return detail::list_requests(database, query);
    };
    std::optional<QuestionPage> page = co_await call_sqlite(worker, read, std::move(list));
    if (page) co_return std::move(*page);
    auto adopt_and_list = [query](SqliteDatabase& database) {
        detail::adopt_all_changes(database);
        return detail::list_requests(database, query).value();
    };
    co_return co_await call_sqlite(worker, write, std::move(adopt_and_list));
}

Task<std::vector<QuestionEntry>> SQLiteCheckpointer::expire_due(double now, std::size_t limit) {
    return call(worker_, write, detail::expire_due, now, limit);
}

Task<void> SQLiteCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    // agent/typed_answer.hpp overloads the name, so that call() cannot deduce the function.
    auto answer = [thread_id = std::move(thread_id),
                   record = std::move(record)](SqliteDatabase& database) {
        detail::answer_request(database, thread_id, record);
    };
    return call_sqlite(worker_, write, std::move(answer));
}

Task<std::vector<AnswerRecord>> SQLiteCheckpointer::load_answer_records(std::string thread_id) {
    return call(worker_, read, detail::load_answer_records, std::move(thread_id));
}

Task<std::size_t> SQLiteCheckpointer::discard_requests(std::string thread_id) {
    return call(worker_, write, detail::discard_requests, std::move(thread_id));
}

Task<MessageList> SQLiteCheckpointer::snapshot(std::string thread_id, std::string after_run_id) {
    return call(worker_, read, detail::snapshot_thread, std::move(thread_id),
                std::move(after_run_id));
}

Task<void> SQLiteCheckpointer::fork(std::string source_thread_id, std::string new_thread_id,
                                    std::string after_run_id, std::optional<JsonObject> metadata) {
    return call(worker_, write, detail::fork_thread, std::move(source_thread_id),
                std::move(new_thread_id), std::move(after_run_id), std::move(metadata));
}

Task<std::vector<ThreadInfo>> SQLiteCheckpointer::list_threads() {
    return call(worker_, read, detail::list_threads);
}

Task<void> SQLiteCheckpointer::delete_thread(std::string thread_id) {
    return call(worker_, write, detail::delete_thread, std::move(thread_id));
}

}  // namespace cubepi
