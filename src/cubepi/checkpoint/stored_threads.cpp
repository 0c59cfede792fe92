#include <cubepi/checkpoint/stored_threads.hpp>

#include <utility>

namespace cubepi {

namespace {

using Step = ClaimChange::Step;
using BackendPtr = std::shared_ptr<ThreadBackend>;

Task<void> change_thread(BackendPtr backend, std::string thread_id, ThreadChange change) {
    (void)co_await backend->change_thread(std::move(thread_id), std::move(change));
}

Task<MessageList> read_messages(BackendPtr backend, ThreadQuery query) {
    std::optional<CheckpointData> data = co_await backend->read_thread(std::move(query));
    MessageList messages;
    if (data) messages = std::move(data->messages);
    co_return messages;
}

Task<std::optional<Message>> read_message(BackendPtr backend, ThreadQuery query) {
    const MessageList messages = co_await read_messages(std::move(backend), std::move(query));
    std::optional<Message> message;
    if (!messages.empty()) message = messages.front();
    co_return message;
}

Task<void> change_claim(BackendPtr backend, std::string thread_id, Step step, std::string run_id,
                        std::string owner_id) {
    ClaimChange change;
    change.step = step;
    change.run_id = std::move(run_id);
    change.owner.owner_id = std::move(owner_id);
    (void)co_await backend->change_claim(std::move(thread_id), std::move(change));
}

Task<void> change_questions(BackendPtr backend, std::string thread_id, QuestionChange change) {
    (void)co_await backend->change_questions(std::move(thread_id), std::move(change));
}

Task<bool> remove_request(BackendPtr backend, std::string thread_id, RequestRemoval removal) {
    QuestionChange change = std::move(removal);
    const std::size_t removed =
        co_await backend->change_questions(std::move(thread_id), std::move(change));
    co_return removed > 0;
}

}  // namespace

StoredThreads::StoredThreads(std::shared_ptr<ThreadBackend> backend)
    : backend_(std::move(backend)) {}

StoredThreads::~StoredThreads() = default;

Task<std::optional<CheckpointData>> StoredThreads::load(std::string thread_id) {
    return backend_->read_thread(ThreadQuery{std::move(thread_id)});
}

Task<std::int64_t> StoredThreads::append(std::string thread_id, MessageList messages,
                                         AppendOptions options) {
    ThreadAppend append{std::move(messages), std::move(options)};
    return backend_->change_thread(std::move(thread_id), std::move(append));
}

Task<void> StoredThreads::save_extra(std::string thread_id, JsonObject extra) {
    ThreadAppend append;
    append.options = AppendOptions().extra(std::move(extra));
    return change_thread(backend_, std::move(thread_id), std::move(append));
}

Task<std::optional<Message>> StoredThreads::find_message(std::string thread_id,
                                                         std::string message_id) {
    ThreadQuery query{std::move(thread_id), ThreadPart::message, std::move(message_id)};
    return read_message(backend_, std::move(query));
}

Task<MessageList> StoredThreads::snapshot(std::string thread_id, std::string after_run_id) {
    ThreadQuery query{std::move(thread_id), ThreadPart::completed, std::move(after_run_id)};
    return read_messages(backend_, std::move(query));
}

Task<void> StoredThreads::fork(std::string source_thread_id, std::string new_thread_id,
                               std::string after_run_id, std::optional<JsonObject> metadata) {
    ThreadFork fork{std::move(new_thread_id), std::move(after_run_id), std::move(metadata)};
    return change_thread(backend_, std::move(source_thread_id), std::move(fork));
}

Task<std::vector<ThreadInfo>> StoredThreads::list_threads() { return backend_->list_threads(); }

Task<void> StoredThreads::delete_thread(std::string thread_id) {
    return change_thread(backend_, std::move(thread_id), ThreadRemoval());
}

Task<ClaimResult> StoredThreads::claim_run(std::string thread_id, std::string run_id,
                                           ClaimOwner owner, ClaimKind kind) {
    ClaimChange change;
    change.run_id = std::move(run_id);
    change.owner = std::move(owner);
    change.kind = kind;
    return backend_->change_claim(std::move(thread_id), std::move(change));
}

Task<void> StoredThreads::renew_claim(std::string thread_id, std::string run_id,
                                      std::string owner_id) {
    return change_claim(backend_, std::move(thread_id), Step::renew, std::move(run_id),
                        std::move(owner_id));
}

Task<void> StoredThreads::release_claim(std::string thread_id, std::string run_id,
                                        std::string owner_id) {
    return change_claim(backend_, std::move(thread_id), Step::release, std::move(run_id),
                        std::move(owner_id));
}

Task<void> StoredThreads::mark_run_complete(std::string thread_id, std::string run_id) {
    return change_claim(backend_, std::move(thread_id), Step::mark_complete, std::move(run_id), {});
}

Task<void> StoredThreads::complete_run(std::string thread_id, std::string run_id,
                                       std::string owner_id) {
    return change_claim(backend_, std::move(thread_id), Step::complete, std::move(run_id),
                        std::move(owner_id));
}

Task<bool> StoredThreads::is_run_complete(std::string thread_id, std::string run_id) {
    return backend_->is_run_complete(std::move(thread_id), std::move(run_id));
}

Task<void> StoredThreads::save_pending_request(std::string thread_id, std::string run_id,
                                               HitlRequest request) {
    PendingRequest pending;
    pending.run_id = std::move(run_id);
    pending.request = std::move(request);
    return change_questions(backend_, std::move(thread_id), std::move(pending));
}

Task<std::vector<PendingRequest>> StoredThreads::load_pending_requests(std::string thread_id) {
    return backend_->load_pending_requests(std::move(thread_id));
}

Task<bool> StoredThreads::clear_pending_request(std::string thread_id, std::string run_id,
                                                std::string question_id) {
    RequestRemoval removal;
    removal.run_id = std::move(run_id);
    removal.question_id = std::move(question_id);
    return remove_request(backend_, std::move(thread_id), std::move(removal));
}

Task<void> StoredThreads::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    return change_questions(backend_, std::move(thread_id), std::move(answer));
}

Task<std::optional<Json>> StoredThreads::load_hitl_answer(std::string thread_id, std::string run_id,
                                                          std::string question_id) {
    return backend_->load_hitl_answer(std::move(thread_id), std::move(run_id),
                                      std::move(question_id));
}

Task<void> StoredThreads::clear_hitl_answers(std::string thread_id, std::string run_id,
                                             std::vector<std::string> question_ids) {
    AnswerRemoval removal;
    removal.run_id = std::move(run_id);
    removal.question_ids = std::move(question_ids);
    return change_questions(backend_, std::move(thread_id), std::move(removal));
}

Task<void> StoredThreads::mark_batch_started(std::string thread_id, BatchStart start) {
    return change_questions(backend_, std::move(thread_id), std::move(start));
}

Task<std::optional<StartedBatch>> StoredThreads::load_started_batch(std::string thread_id,
                                                                    std::string run_id) {
    return backend_->load_started_batch(std::move(thread_id), std::move(run_id));
}

Task<QuestionPage> StoredThreads::list_requests(QuestionQuery query) {
    return backend_->list_requests(std::move(query));
}

Task<std::vector<QuestionEntry>> StoredThreads::expire_due(double now, std::size_t limit) {
    return backend_->expire_due(now, limit);
}

Task<void> StoredThreads::answer_request(std::string thread_id, AnswerRecord record) {
    return change_questions(backend_, std::move(thread_id), std::move(record));
}

Task<std::vector<AnswerRecord>> StoredThreads::load_answer_records(std::string thread_id,
                                                                   std::string run_id) {
    return backend_->load_answer_records(std::move(thread_id), std::move(run_id));
}

Task<std::size_t> StoredThreads::discard_requests(std::string thread_id) {
    RequestRemoval removal;
    removal.all = true;
    return backend_->change_questions(std::move(thread_id), std::move(removal));
}

}  // namespace cubepi
