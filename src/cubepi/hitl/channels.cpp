#include <optional>
#include <utility>

#include <cubepi/agent/question_store.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/hitl/channel/request_table.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>

namespace cubepi {

InMemoryChannel::InMemoryChannel(InMemoryChannelOptions options) {
    detail::RequestTable::Settings settings;
    settings.default_timeout = options.default_timeout;
    settings.thread_id = std::move(options.thread_id);
    settings.clock = std::move(options.clock);
    table_ = std::make_shared<detail::RequestTable>(std::move(settings), nullptr);
}

InMemoryChannel::~InMemoryChannel() { table_->close("the channel was closed"); }

void InMemoryChannel::connect(std::shared_ptr<HitlRun> run) {
    HitlChannel::connect(std::move(run));
    table_->restart_ids();
}

Task<Json> InMemoryChannel::request(HitlPayload payload, HitlOptions options) {
    return detail::RequestTable::ask(table_, run(), std::move(payload), std::move(options));
}

std::vector<HitlRequest> InMemoryChannel::pending() const { return table_->pending(); }

HitlRequestStream InMemoryChannel::subscribe() { return table_->subscribe(); }

Task<> InMemoryChannel::answer(std::string question_id, Json value, AnswerOrigin origin) {
    return detail::RequestTable::answer(table_, std::move(question_id), std::move(value),
                                        std::move(origin));
}

Task<> InMemoryChannel::cancel(std::string question_id, std::string reason) {
    const std::shared_ptr<detail::RequestTable> table = table_;
    table->cancel(question_id, std::move(reason));
    co_return;
}

namespace detail {

namespace {

/// The requests of one thread in a checkpointer. Uses the store's QuestionStore if it has one, so that of several processes
/// that answer a question one succeeds, and answers are recorded with their origin.
class StoredRequests final : public RequestStorage {
public:
    /// Throws Error(invalid_argument) if the store is not a HitlStore.
    StoredRequests(std::shared_ptr<Checkpointer> store, std::string thread_id,
                   std::shared_ptr<Clock> clock);

    Task<std::optional<StoredAnswer>> find_answer(std::string run_id, HitlRequest request) override;
    Task<PendingRequest> save(std::string run_id, bool continued, HitlRequest request) override;
    Task<> clear(std::string run_id, HitlRequest request) override;
    Task<> store_answer(std::string run_id, HitlRequest request, Json answer,
                        AnswerOrigin origin) override;

private:
    struct Answered;
    Task<Answered> answered_request(std::string run_id, std::string question_id);
    double now() const;

    const std::shared_ptr<Checkpointer> store_;
    const std::string thread_id_;
    const std::shared_ptr<Clock> clock_;
    HitlStore* const requests_;
    QuestionStore* const inbox_;  // null: the store has none
};

HitlStore& hitl_store_of(Checkpointer* store) {
    auto* found = dynamic_cast<HitlStore*>(store);
    if (found) return *found;
    throw Error(ErrorCode::invalid_argument,
                store ? "the checkpointer cannot store requests to the user (HitlStore)"
                      : "CheckpointedChannel needs a checkpointer");
}

/// Returns true if an answer to `asked` answers `now`: the digest of D17, taken by comparing the requests themselves. An
/// approval holds for one tool with exactly these arguments. The id of an `ask` is a digest of its questions, unless the caller has
/// chosen it.
bool is_same_question(const HitlRequest& asked, const HitlRequest& now) {
    if (asked.question_id != now.question_id) return false;
    if (asked.payload.index() != now.payload.index()) return false;
    if (const auto* approve = std::get_if<ApproveRequest>(&asked.payload)) {
        const auto& other = std::get<ApproveRequest>(now.payload);
        return approve->tool_name == other.tool_name && approve->args == other.args;
    }
    if (const auto* confirm = std::get_if<ConfirmRequest>(&asked.payload))
        return confirm->prompt == std::get<ConfirmRequest>(now.payload).prompt;
    return to_json(asked).at("payload") == to_json(now).at("payload");
}

/// Returns true if the stored answer passes the checks of its request. It may have been written without them.
bool is_valid_answer(const HitlRequest& request, const Json& answer) {
    try {
        (void)check_answer(request, answer);
        return true;
    } catch (const Error&) {
        return false;
    }
}

StoredRequests::StoredRequests(std::shared_ptr<Checkpointer> store, std::string thread_id,
                               std::shared_ptr<Clock> clock)
    : store_(std::move(store)),
      thread_id_(std::move(thread_id)),
      clock_(clock ? std::move(clock) : Runtime::standard()->clock),
      requests_(&hitl_store_of(store_.get())),
      inbox_(dynamic_cast<QuestionStore*>(store_.get())) {}

double StoredRequests::now() const {
    return std::chrono::duration<double>(clock_->wall().time_since_epoch()).count();
}

/// The request to which an answer belongs, and where the answer came from.
struct StoredRequests::Answered {
    std::optional<HitlRequest> request = {};
    AnswerOrigin origin = {};
};

/// Returns the request to which the stored answer belongs. A store with an inbox keeps it with the answer; in another one
/// it stays pending until its answer is used.
Task<StoredRequests::Answered> StoredRequests::answered_request(std::string run_id,
                                                                std::string question_id) {
    Answered found;
    std::vector<PendingRequest> pending = co_await requests_->load_pending_requests(thread_id_);
    for (PendingRequest& one : pending) {
        if (one.run_id == run_id && one.request.question_id == question_id)
            found.request = std::move(one.request);
    }
    if (found.request || !inbox_) co_return found;
    std::vector<AnswerRecord> records = co_await inbox_->load_answer_records(thread_id_, run_id);
    for (AnswerRecord& one : records) {
        if (one.run_id != run_id || one.question_id != question_id) continue;
        found.request = std::move(one.request);
        // The answer to an unreadable request must not be used for another one.
        if (!found.request) found.request.emplace();
        found.origin.user = std::move(one.user);
        found.origin.channel = std::move(one.channel);
    }
    co_return found;
}

Task<std::optional<StoredAnswer>> StoredRequests::find_answer(std::string run_id,
                                                              HitlRequest request) {
    std::optional<StoredAnswer> found;
    std::optional<Json> answer =
        co_await requests_->load_hitl_answer(thread_id_, run_id, request.question_id);
    if (!answer) co_return found;
    Answered asked = co_await answered_request(run_id, request.question_id);
    // The answer of a thread that CubePi suspended has no request any more.
    const bool same = !asked.request || is_same_question(*asked.request, request);
    if (same && is_valid_answer(request, *answer)) {
        found.emplace();
        found->value = std::move(*answer);
        found->origin = std::move(asked.origin);
        if (asked.request) found->request_id = std::move(asked.request->request_id);
        co_return found;
    }
    std::vector<std::string> ids{request.question_id};
    co_await requests_->clear_hitl_answers(thread_id_, run_id, std::move(ids));
    co_return found;
}

Task<PendingRequest> StoredRequests::save(std::string run_id, bool continued, HitlRequest request) {
    PendingRequest saved;
    saved.run_id = run_id;
    std::vector<PendingRequest> pending;
    if (continued) pending = co_await requests_->load_pending_requests(thread_id_);
    for (PendingRequest& one : pending) {
        const bool same_run = one.run_id == run_id || one.run_id.empty();
        if (!same_run || one.request.question_id != request.question_id) continue;
        const bool same = is_same_question(one.request, request);
        if (same && !one.run_id.empty()) {
            const double deadline =
                one.request.created_at + one.request.timeout_seconds.value_or(0);
            if (one.request.timeout_seconds && deadline <= now()) one.expired = true;
            saved = std::move(one);
            co_return saved;
        }
        // Another question, or a row of an old file that names no run.
        const std::string row_run = one.run_id;
        if (same) request.request_id = one.request.request_id;
        if (same) request.created_at = one.request.created_at;
        if (same) request.timeout_seconds = one.request.timeout_seconds;
        (void)co_await requests_->clear_pending_request(thread_id_, row_run, request.question_id);
    }
    co_await requests_->save_pending_request(thread_id_, run_id, request);
    saved.request = std::move(request);
    co_return saved;
}

Task<> StoredRequests::clear(std::string run_id, HitlRequest request) {
    (void)co_await requests_->clear_pending_request(thread_id_, std::move(run_id),
                                                    request.question_id);
}

Task<> StoredRequests::store_answer(std::string run_id, HitlRequest request, Json answer,
                                    AnswerOrigin origin) {
    if (!inbox_) {
        HitlAnswer stored;
        stored.run_id = std::move(run_id);
        stored.question_id = std::move(request.question_id);
        stored.answer = std::move(answer);
        co_await requests_->save_hitl_answer(thread_id_, std::move(stored));
        co_return;
    }
    AnswerRecord record;
    record.run_id = std::move(run_id);
    record.question_id = std::move(request.question_id);
    record.answer = std::move(answer);
    record.answered_at = now();
    record.user = std::move(origin.user);
    record.channel = std::move(origin.channel);
    co_await inbox_->answer_request(thread_id_, std::move(record));
}

}  // namespace

}  // namespace detail

CheckpointedChannel::CheckpointedChannel(std::shared_ptr<Checkpointer> store, std::string thread_id,
                                         CheckpointedChannelOptions options)
    : store_(store),
      thread_id_(std::move(thread_id)),
      allow_inside_custom_tool_(options.allow_inside_custom_tool),
      extra_(std::move(options.extra)) {
    if (thread_id_.empty())
        throw Error(ErrorCode::invalid_argument, "CheckpointedChannel needs a thread id");
    detail::RequestTable::Settings settings;
    settings.default_timeout = options.default_timeout;
    settings.thread_id = thread_id_;
    settings.clock = options.clock;
    storage_ =
        std::make_shared<detail::StoredRequests>(std::move(store), thread_id_, options.clock);
    table_ = std::make_shared<detail::RequestTable>(std::move(settings), storage_);
}

CheckpointedChannel::~CheckpointedChannel() { table_->close("the channel was closed"); }

void CheckpointedChannel::connect(std::shared_ptr<HitlRun> run) {
    if (run->thread_id() != thread_id_) {
        throw Error(ErrorCode::invalid_argument, "the channel is for thread '" + thread_id_ +
                                                     "', the agent has thread '" +
                                                     run->thread_id() + "'");
    }
    HitlChannel::connect(std::move(run));
    table_->restart_ids();
}

Task<Json> CheckpointedChannel::request(HitlPayload payload, HitlOptions options) {
    (void)run_id();
    if (!allow_inside_custom_tool_ && !run()->can_ask_again(options)) {
        throw HitlDurabilityNotGuaranteed(
            "a question was asked in the body of a tool, which would begin again after a restart: "
            "set replay_policy = ReplayPolicy::idempotent if that is harmless, ask in "
            "before_tool_call instead, or set "
            "CheckpointedChannelOptions::allow_inside_custom_tool");
    }
    for (const auto& [key, value] : extra_) options.extra[key] = value;
    return detail::RequestTable::ask(table_, run(), std::move(payload), std::move(options));
}

Task<bool> CheckpointedChannel::has_answer(std::string tool_name, std::string tool_call_id,
                                           JsonObject args) {
    const std::shared_ptr<HitlRun> asking = run();
    if (!asking || !asking->is_continued()) co_return false;
    ApproveRequest approval;
    approval.tool_name = std::move(tool_name);
    approval.tool_call_id = tool_call_id;
    approval.args = std::move(args);
    HitlRequest request;
    request.question_id = std::move(tool_call_id);
    request.payload = std::move(approval);
    std::optional<detail::StoredAnswer> answer =
        co_await storage_->find_answer(asking->run_id(), std::move(request));
    co_return answer.has_value();
}

const std::string& CheckpointedChannel::run_id() const {
    if (run()) return run()->run_id();
    throw HitlError(ErrorCode::hitl,
                    "a request was made outside of a run of the channel's agent: pass the "
                    "channel as AgentOptions::channel");
}

Task<> CheckpointedChannel::save_note(std::string id, std::string text) {
    HitlAnswer note;
    note.run_id = run_id();
    note.question_id = std::move(id);
    note.answer = Json(std::move(text));
    const std::shared_ptr<Checkpointer> store = store_;
    co_await detail::hitl_store_of(store.get()).save_hitl_answer(thread_id_, std::move(note));
}

Task<std::optional<std::string>> CheckpointedChannel::load_note(std::string id) {
    const std::shared_ptr<Checkpointer> store = store_;
    const std::optional<Json> note = co_await detail::hitl_store_of(store.get())
                                         .load_hitl_answer(thread_id_, run_id(), std::move(id));
    std::optional<std::string> text;
    if (note && note->is_string()) text = std::string(note->get_string());
    co_return text;
}

std::vector<HitlRequest> CheckpointedChannel::pending() const { return table_->pending(); }

HitlRequestStream CheckpointedChannel::subscribe() { return table_->subscribe(); }

Task<> CheckpointedChannel::answer(std::string question_id, Json value, AnswerOrigin origin) {
    return detail::RequestTable::answer(table_, std::move(question_id), std::move(value),
                                        std::move(origin));
}

Task<> CheckpointedChannel::cancel(std::string question_id, std::string reason) {
    const std::shared_ptr<detail::RequestTable> table = table_;
    table->cancel(question_id, std::move(reason));
    co_return;
}

}  // namespace cubepi
