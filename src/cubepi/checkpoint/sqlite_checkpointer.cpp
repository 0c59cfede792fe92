#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <utility>

#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/checkpoint/sqlite/shared_requests.hpp>
#include <cubepi/checkpoint/sqlite/worker.hpp>
#include <cubepi/core/runtime.hpp>

namespace cubepi {

namespace {

using detail::call_sqlite;
using detail::SqliteDatabase;
constexpr auto read = detail::SqliteAccess::read;
constexpr auto write = detail::SqliteAccess::write;

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
    auto call = [thread_id = std::move(thread_id)](SqliteDatabase& database) {
        return detail::load_thread(database, thread_id);
    };
    return call_sqlite(worker_, read, std::move(call));
}

Task<std::int64_t> SQLiteCheckpointer::append(std::string thread_id, MessageList messages,
                                              AppendOptions options) {
    auto call = [thread_id = std::move(thread_id), messages = std::move(messages),
                 options = std::move(options)](SqliteDatabase& database) {
        return detail::append_messages(database, thread_id, messages, options);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<void> SQLiteCheckpointer::save_extra(std::string thread_id, JsonObject extra) {
    auto call = [thread_id = std::move(thread_id), extra = std::move(extra)](
                    SqliteDatabase& database) { detail::save_extra(database, thread_id, extra); };
    return call_sqlite(worker_, write, std::move(call));
}

Task<ClaimResult> SQLiteCheckpointer::claim_run(std::string thread_id, std::string run_id,
                                                ClaimOwner owner, ClaimKind kind) {
    auto call = [thread_id = std::move(thread_id), run_id = std::move(run_id),
                 owner = std::move(owner), kind](SqliteDatabase& database) {
        return detail::claim_run(database, thread_id, run_id, owner, kind);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<void> SQLiteCheckpointer::renew_claim(std::string thread_id, std::string run_id,
                                           std::string owner_id) {
    auto call = [thread_id = std::move(thread_id), run_id = std::move(run_id),
                 owner_id = std::move(owner_id)](SqliteDatabase& database) {
        detail::renew_claim(database, thread_id, run_id, owner_id);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<void> SQLiteCheckpointer::release_claim(std::string thread_id, std::string run_id,
                                             std::string owner_id) {
    auto call = [thread_id = std::move(thread_id), run_id = std::move(run_id),
                 owner_id = std::move(owner_id)](SqliteDatabase& database) {
        detail::release_claim(database, thread_id, run_id, owner_id);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<void> SQLiteCheckpointer::mark_run_complete(std::string thread_id, std::string run_id) {
    auto call = [thread_id = std::move(thread_id),
                 run_id = std::move(run_id)](SqliteDatabase& database) {
        detail::mark_run_complete(database, thread_id, run_id);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<void> SQLiteCheckpointer::complete_run(std::string thread_id, std::string run_id,
                                            std::string owner_id) {
    auto call = [thread_id = std::move(thread_id), run_id = std::move(run_id),
                 owner_id = std::move(owner_id)](SqliteDatabase& database) {
        detail::complete_run(database, thread_id, run_id, owner_id);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<bool> SQLiteCheckpointer::is_run_complete(std::string thread_id, std::string run_id) {
    auto call = [thread_id = std::move(thread_id),
                 run_id = std::move(run_id)](SqliteDatabase& database) {
        return detail::is_run_complete(database, thread_id, run_id);
    };
    return call_sqlite(worker_, read, std::move(call));
}

Task<std::optional<Message>> SQLiteCheckpointer::find_message(std::string thread_id,
                                                              std::string message_id) {
    auto call = [thread_id = std::move(thread_id),
                 message_id = std::move(message_id)](SqliteDatabase& database) {
        return detail::find_message(database, thread_id, message_id);
    };
    return call_sqlite(worker_, read, std::move(call));
}

Task<void> SQLiteCheckpointer::save_pending_request(std::string thread_id, std::string run_id,
                                                    HitlRequest request) {
    auto call = [thread_id = std::move(thread_id), run_id = std::move(run_id),
                 request = std::move(request)](SqliteDatabase& database) {
        detail::save_pending_request(database, thread_id, run_id, request);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<std::vector<PendingRequest>> SQLiteCheckpointer::load_pending_requests(std::string thread_id) {
    auto call = [thread_id = std::move(thread_id)](SqliteDatabase& database) {
        return detail::load_pending_requests(database, thread_id);
    };
    return call_sqlite(worker_, read, std::move(call));
}

Task<bool> SQLiteCheckpointer::clear_pending_request(std::string thread_id, std::string run_id,
                                                     std::string question_id) {
    auto call = [thread_id = std::move(thread_id), run_id = std::move(run_id),
                 question_id = std::move(question_id)](SqliteDatabase& database) {
        return detail::clear_pending_request(database, thread_id, run_id, question_id);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<void> SQLiteCheckpointer::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    auto call = [thread_id = std::move(thread_id),
                 answer = std::move(answer)](SqliteDatabase& database) {
        detail::save_hitl_answer(database, thread_id, answer);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<std::optional<Json>> SQLiteCheckpointer::load_hitl_answer(std::string thread_id,
                                                               std::string run_id,
                                                               std::string question_id) {
    auto call = [thread_id = std::move(thread_id), run_id = std::move(run_id),
                 question_id = std::move(question_id)](SqliteDatabase& database) {
        return detail::load_hitl_answer(database, thread_id, run_id, question_id);
    };
    return call_sqlite(worker_, read, std::move(call));
}

Task<void> SQLiteCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                                  std::vector<std::string> question_ids) {
    auto call = [thread_id = std::move(thread_id), run_id = std::move(run_id),
                 question_ids = std::move(question_ids)](SqliteDatabase& database) {
        detail::clear_hitl_answers(database, thread_id, run_id, question_ids);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<void> SQLiteCheckpointer::mark_batch_started(std::string thread_id, BatchStart start) {
    auto call = [thread_id = std::move(thread_id),
                 start = std::move(start)](SqliteDatabase& database) {
        detail::mark_batch_started(database, thread_id, start);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<std::optional<StartedBatch>> SQLiteCheckpointer::load_started_batch(std::string thread_id,
                                                                         std::string run_id) {
    auto call = [thread_id = std::move(thread_id),
                 run_id = std::move(run_id)](SqliteDatabase& database) {
        return detail::load_started_batch(database, thread_id, run_id);
    };
    return call_sqlite(worker_, read, std::move(call));
}

Task<InboxPage> SQLiteCheckpointer::list_requests(InboxQuery query) {
    const std::shared_ptr<detail::SqliteWorker> worker = worker_;
    auto list = [query](SqliteDatabase& database) {
        return detail::list_requests(database, query);
    };
    std::optional<InboxPage> page = co_await call_sqlite(worker, read, std::move(list));
    if (page) co_return std::move(*page);
    auto adopt_and_list = [query](SqliteDatabase& database) {
        detail::adopt_all_changes(database);
        return detail::list_requests(database, query).value();
    };
    co_return co_await call_sqlite(worker, write, std::move(adopt_and_list));
}

Task<std::vector<InboxEntry>> SQLiteCheckpointer::expire_due(double now, std::size_t limit) {
    auto call = [now, limit](SqliteDatabase& database) {
        return detail::expire_due(database, now, limit);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<void> SQLiteCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    auto call = [thread_id = std::move(thread_id),
                 record = std::move(record)](SqliteDatabase& database) {
        detail::answer_request(database, thread_id, record);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<std::vector<AnswerRecord>> SQLiteCheckpointer::load_answer_records(std::string thread_id) {
    auto call = [thread_id = std::move(thread_id)](SqliteDatabase& database) {
        return detail::load_answer_records(database, thread_id);
    };
    return call_sqlite(worker_, read, std::move(call));
}

Task<std::size_t> SQLiteCheckpointer::discard_requests(std::string thread_id) {
    auto call = [thread_id = std::move(thread_id)](SqliteDatabase& database) {
        return detail::discard_requests(database, thread_id);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<MessageList> SQLiteCheckpointer::snapshot(std::string thread_id, std::string after_run_id) {
    auto call = [thread_id = std::move(thread_id),
                 after_run_id = std::move(after_run_id)](SqliteDatabase& database) {
        return detail::snapshot_thread(database, thread_id, after_run_id);
    };
    return call_sqlite(worker_, read, std::move(call));
}

Task<void> SQLiteCheckpointer::fork(std::string source_thread_id, std::string new_thread_id,
                                    std::string after_run_id, std::optional<JsonObject> metadata) {
    auto call = [source = std::move(source_thread_id), target = std::move(new_thread_id),
                 after_run_id = std::move(after_run_id),
                 metadata = std::move(metadata)](SqliteDatabase& database) {
        detail::fork_thread(database, source, target, after_run_id, metadata);
    };
    return call_sqlite(worker_, write, std::move(call));
}

Task<std::vector<ThreadInfo>> SQLiteCheckpointer::list_threads() {
    auto call = [](SqliteDatabase& database) { return detail::list_threads(database); };
    return call_sqlite(worker_, read, std::move(call));
}

Task<void> SQLiteCheckpointer::delete_thread(std::string thread_id) {
    auto call = [thread_id = std::move(thread_id)](SqliteDatabase& database) {
        detail::delete_thread(database, thread_id);
    };
    return call_sqlite(worker_, write, std::move(call));
}

}  // namespace cubepi
