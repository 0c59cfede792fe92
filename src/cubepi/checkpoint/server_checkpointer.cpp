#include <cubepi/checkpoint/server_checkpointer.hpp>

#include <utility>

#include <cubepi/checkpoint/server/operations.hpp>

namespace cubepi {

namespace {

Task<void> connect(detail::SqlStorePtr store) {
    // Any call connects.
    detail::SqlBatch nothing;
    (void)co_await store->read(std::move(nothing));
}

}  // namespace

SqlCheckpointer::SqlCheckpointer(SqlOptions options,
                                 std::shared_ptr<const detail::SqlDriver> driver)
    : store_(std::make_shared<detail::SqlStore>(std::move(options), std::move(driver))) {}

SqlCheckpointer::~SqlCheckpointer() = default;

Task<void> SqlCheckpointer::open() { return connect(store_); }

Task<std::optional<CheckpointData>> SqlCheckpointer::load(std::string thread_id) {
    return detail::load_thread(store_, std::move(thread_id));
}

Task<std::int64_t> SqlCheckpointer::append(std::string thread_id, MessageList messages,
                                           AppendOptions options) {
    return detail::append_messages(store_, std::move(thread_id), std::move(messages),
                                   std::move(options));
}

Task<void> SqlCheckpointer::save_extra(std::string thread_id, JsonObject extra) {
    return detail::save_extra(store_, std::move(thread_id), std::move(extra));
}

Task<ClaimResult> SqlCheckpointer::claim_run(std::string thread_id, std::string run_id,
                                             ClaimOwner owner, ClaimKind kind) {
    return detail::claim_run(store_, std::move(thread_id), std::move(run_id), std::move(owner),
                             kind);
}

Task<void> SqlCheckpointer::renew_claim(std::string thread_id, std::string run_id,
                                        std::string owner_id) {
    return detail::renew_claim(store_, std::move(thread_id), std::move(run_id),
                               std::move(owner_id));
}

Task<void> SqlCheckpointer::release_claim(std::string thread_id, std::string run_id,
                                          std::string owner_id) {
    return detail::release_claim(store_, std::move(thread_id), std::move(run_id),
                                 std::move(owner_id));
}

Task<void> SqlCheckpointer::mark_run_complete(std::string thread_id, std::string run_id) {
    return detail::mark_run_complete(store_, std::move(thread_id), std::move(run_id));
}

Task<void> SqlCheckpointer::complete_run(std::string thread_id, std::string run_id,
                                         std::string owner_id) {
    return detail::complete_run(store_, std::move(thread_id), std::move(run_id),
                                std::move(owner_id));
}

Task<bool> SqlCheckpointer::is_run_complete(std::string thread_id, std::string run_id) {
    return detail::is_run_complete(store_, std::move(thread_id), std::move(run_id));
}

Task<std::optional<Message>> SqlCheckpointer::find_message(std::string thread_id,
                                                           std::string message_id) {
    return detail::find_message(store_, std::move(thread_id), std::move(message_id));
}

Task<void> SqlCheckpointer::save_pending_request(std::string thread_id, std::string run_id,
                                                 HitlRequest request) {
    return detail::save_pending_request(store_, std::move(thread_id), std::move(run_id),
                                        std::move(request));
}

Task<std::vector<PendingRequest>> SqlCheckpointer::load_pending_requests(std::string thread_id) {
    return detail::load_pending_requests(store_, std::move(thread_id));
}

Task<bool> SqlCheckpointer::clear_pending_request(std::string thread_id, std::string run_id,
                                                  std::string question_id) {
    return detail::clear_pending_request(store_, std::move(thread_id), std::move(run_id),
                                         std::move(question_id));
}

Task<void> SqlCheckpointer::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    return detail::save_hitl_answer(store_, std::move(thread_id), std::move(answer));
}

Task<std::optional<Json>> SqlCheckpointer::load_hitl_answer(std::string thread_id,
                                                            std::string run_id,
                                                            std::string question_id) {
    return detail::load_hitl_answer(store_, std::move(thread_id), std::move(run_id),
                                    std::move(question_id));
}

Task<void> SqlCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                               std::vector<std::string> question_ids) {
    return detail::clear_hitl_answers(store_, std::move(thread_id), std::move(run_id),
                                      std::move(question_ids));
}

Task<void> SqlCheckpointer::mark_batch_started(std::string thread_id, BatchStart start) {
    return detail::mark_batch_started(store_, std::move(thread_id), std::move(start));
}

Task<std::optional<StartedBatch>> SqlCheckpointer::load_started_batch(std::string thread_id,
                                                                      std::string run_id) {
    return detail::load_started_batch(store_, std::move(thread_id), std::move(run_id));
}

Task<QuestionPage> SqlCheckpointer::list_requests(QuestionQuery query) {
    return detail::list_requests(store_, std::move(query));
}

Task<std::vector<QuestionEntry>> SqlCheckpointer::expire_due(double now, std::size_t limit) {
    return detail::expire_due(store_, now, limit);
}

Task<void> SqlCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    return detail::answer_request(store_, std::move(thread_id), std::move(record));
}

Task<std::vector<AnswerRecord>> SqlCheckpointer::load_answer_records(std::string thread_id) {
    return detail::load_answer_records(store_, std::move(thread_id));
}

Task<std::size_t> SqlCheckpointer::discard_requests(std::string thread_id) {
    return detail::discard_requests(store_, std::move(thread_id));
}

Task<MessageList> SqlCheckpointer::snapshot(std::string thread_id, std::string after_run_id) {
    return detail::snapshot_thread(store_, std::move(thread_id), std::move(after_run_id));
}

Task<void> SqlCheckpointer::fork(std::string source_thread_id, std::string new_thread_id,
                                 std::string after_run_id, std::optional<JsonObject> metadata) {
    return detail::fork_thread(store_, std::move(source_thread_id), std::move(new_thread_id),
                               std::move(after_run_id), std::move(metadata));
}

Task<std::vector<ThreadInfo>> SqlCheckpointer::list_threads() {
    return detail::list_threads(store_);
}

Task<void> SqlCheckpointer::delete_thread(std::string thread_id) {
    return detail::delete_thread(store_, std::move(thread_id));
}

}  // namespace cubepi
