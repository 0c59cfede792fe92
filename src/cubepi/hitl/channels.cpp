#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/rand.h>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/thread_queue.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/schema/python_json.hpp>

// Both channels: a question is a request of the RequestTable until it ends; the channel that stores its requests adds a RequestStorage.

namespace cubepi {

namespace detail {

/// Assigns question ids as CubePi does (D61): the tool call id for `approve`, and for `confirm` if one is given; otherwise
/// a digest of the question and a counter of equal questions. Not thread-safe.
class QuestionIds {
public:
    std::string next(const HitlPayload& payload, const HitlOptions& options);

private:
    std::map<std::string, std::size_t> asked_;  // by digest
};

/// An answer and its origin, if that was recorded.
struct StoredAnswer {
    Json value = {};
    std::string request_id = {};  ///< of the request that was answered
    AnswerOrigin origin = {};
};

/// The requests of one thread in a checkpointer, and their answers. Uses the store's QuestionStore if it has one, so that of several
/// processes that answer a question one succeeds, and answers are recorded with their origin. Used on the executor of the run that asks,
/// except for store_answer(), which may be called on any executor.
class RequestStorage {
public:
    /// Throws Error(invalid_argument) if the store is not a HitlStore.
    RequestStorage(std::shared_ptr<Checkpointer> store, std::string thread_id,
                   std::shared_ptr<Clock> clock);

    /// Returns the unused answer to the request, which was asked earlier in the same run (D62).
    Task<std::optional<StoredAnswer>> find_answer(std::string run_id, HitlRequest request);
    /// Stores the request and returns it. In a continued run it may be stored already: returns the stored one, with its
    /// age.
    Task<PendingRequest> save(std::string run_id, bool continued, HitlRequest request);
    /// Removes the request, because it ended without an answer.
    Task<> clear(std::string run_id, HitlRequest request);
    Task<> store_answer(std::string run_id, HitlRequest request, Json answer, AnswerOrigin origin);

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

/// The requests of a channel that wait for an answer, and the way of a request from the question to its end. Thread-safe except
/// for ask().
class RequestTable {
public:
    struct Settings {
        std::chrono::nanoseconds default_timeout = std::chrono::nanoseconds::zero();
        std::optional<std::string> thread_id = {};
        std::shared_ptr<Clock> clock = {};  ///< null: the system clock
    };
    /// `storage` may be null.
    RequestTable(Settings settings, std::shared_ptr<RequestStorage> storage);

    /// Asks and waits for the answer. `run` may be null.
    static Task<Json> ask(std::shared_ptr<RequestTable> table, std::shared_ptr<HitlRun> run,
                          HitlPayload payload, HitlOptions options);

    std::vector<HitlRequest> pending() const;
    HitlRequestStream subscribe() { return feed_.subscribe(); }
    static Task<> answer(std::shared_ptr<RequestTable> table, std::string question_id, Json value,
                         AnswerOrigin origin);
    void cancel(const std::string& question_id, std::string reason);
    /// Cancels all requests and ends the streams.
    void close(const std::string& reason);
    /// Question ids are counted from 0 again (D61).
    void restart_ids();

private:
    /// A request that waits. The fields are guarded by the mutex; the result is written before the signal is set.
    struct Waiting {
        HitlRequest request = {};
        std::string run_id = {};
        bool being_answered = false;  ///< its answer is being stored
        std::optional<Json> answer = {};
        AnswerOrigin origin = {};
        std::exception_ptr failure = {};
        ThreadSignal ended = {};
    };
    struct Withdrawal;

    /// One question on its way through the table.
    struct Question {
        std::shared_ptr<HitlRun> run;  ///< may be null
        HitlRequest request = {};
        std::string asking_call = {};
        AnswerOrigin origin = {};  ///< of its answer
    };

    Question make_question(std::shared_ptr<HitlRun> run, HitlPayload payload, HitlOptions options);
    std::shared_ptr<Waiting> add(const Question& question);
    /// Removes the request if it is pending. The lock is held.
    void remove(const std::shared_ptr<Waiting>& one) { std::erase(pending_, one); }
    /// Returns the pending request with this `request_id` or `question_id`; throws Error(stale_answer). The lock is held.
    std::shared_ptr<Waiting> find(const std::string& name) const;
    Task<Json> ask_stored(Question question);
    Task<Json> ask_and_wait(Question question);
    /// Waits until the request has ended, or its time is over and answers to it are stale.
    Task<> wait_for_end(std::shared_ptr<Waiting> one);
    /// Ends the request in the storage and for the run.
    Task<> conclude(Question question, HitlEnd how, Json answer);
    std::optional<std::chrono::nanoseconds> time_left(const HitlRequest& request) const;

    const Settings settings_;
    const std::shared_ptr<RequestStorage> storage_;
    mutable std::mutex mutex_;
    QuestionIds ids_;
    std::vector<std::shared_ptr<Waiting>> pending_;  // oldest first
    HitlRequestFeed feed_;
};

namespace {

/// A timer and the stored time of a request may differ by the rounding of a number of seconds.
constexpr std::chrono::milliseconds rounding{1};

[[noreturn]] void throw_stale(const std::string& question_id) {
    throw Error(ErrorCode::stale_answer,
                "there is no pending request '" + question_id +
                    "': it was answered, cancelled or timed out before, or never made");
}

std::chrono::nanoseconds limit_of(const HitlRequest& request) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(request.timeout_seconds.value_or(0)));
}

RequestTable::Settings with_clock(RequestTable::Settings settings) {
    if (!settings.clock) settings.clock = Runtime::standard()->clock;
    return settings;
}

/// Returns the value with the keys of all objects in ascending order.
Json sorted(const Json& value) {
    if (value.is_array()) {
        JsonArray items;
        for (const Json& item : value.get_array()) items.push_back(sorted(item));
        return items;
    }
    if (!value.is_object()) return value;
    std::vector<std::pair<std::string_view, const Json*>> members;
    for (const auto& [key, member] : value.get_object()) members.emplace_back(key, &member);
    std::sort(members.begin(), members.end());
    JsonObject object;
    for (const auto& [key, member] : members) object[key] = sorted(*member);
    return object;
}

/// Returns a HitlRequest::request_id: ten digits, which fit into a button of a chat and are short enough to type. It does not
/// protect a question, because who may answer is checked; it must only differ from those of other questions.
std::string new_request_id() {
    std::array<unsigned char, 5> bytes = {};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
        throw Error(ErrorCode::unsupported, "OpenSSL has no random bytes");
    return hex_of(std::string(bytes.begin(), bytes.end()));
}

/// Returns the first 32 hexadecimal digits of the SHA-256 digest.
std::string digest(std::string_view text) { return sha256_hex(text).substr(0, 32); }

HitlStore& hitl_store_of(Checkpointer* store) {
    auto* found = dynamic_cast<HitlStore*>(store);
    if (found) return *found;
    throw Error(ErrorCode::invalid_argument,
                store ? "the checkpointer cannot store requests to the user (HitlStore)"
                      : "CheckpointedChannel needs a checkpointer");
}

/// Compares the files of two approvals: a link may lead elsewhere since the question. Earlier versions did not store the file, and rules
/// that have changed since may judge none.
bool has_same_target(const HitlRequest& asked, const HitlRequest& now) {
    const Json* const before = asked.extra.if_contains("target");
    const Json* const after = now.extra.if_contains("target");
    return !before || !after || *before == *after;
}

/// Returns true if an answer to `asked` answers `now`: the digest of D17, taken by comparing the requests themselves. An
/// approval holds for one tool with exactly these arguments, and for the file to which its path led. The id of an `ask` is a digest of
/// its questions, unless the caller has chosen it.
bool is_same_question(const HitlRequest& asked, const HitlRequest& now) {
    if (asked.question_id != now.question_id) return false;
    if (asked.payload.index() != now.payload.index()) return false;
    if (const auto* approve = std::get_if<ApproveRequest>(&asked.payload)) {
        const auto& other = std::get<ApproveRequest>(now.payload);
        return approve->tool_name == other.tool_name && approve->args == other.args &&
               has_same_target(asked, now);
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

}  // namespace

/// Removes a request when the coroutine that waits for it ends, however it ends.
struct RequestTable::Withdrawal {
    ~Withdrawal() {
        const std::lock_guard lock(table.mutex_);
        table.remove(one);
    }
    RequestTable& table;
    std::shared_ptr<Waiting> one;
};

RequestTable::RequestTable(Settings settings, std::shared_ptr<RequestStorage> storage)
    : settings_(with_clock(std::move(settings))), storage_(std::move(storage)) {}

RequestTable::Question RequestTable::make_question(std::shared_ptr<HitlRun> run,
                                                   HitlPayload payload, HitlOptions options) {
    Question question;
    question.run = std::move(run);
    HitlRequest& request = question.request;
    const std::chrono::nanoseconds limit = options.timeout.value_or(settings_.default_timeout);
    if (limit.count() > 0) request.timeout_seconds = std::chrono::duration<double>(limit).count();
    request.created_at =
        std::chrono::duration<double>(settings_.clock->wall().time_since_epoch()).count();
    request.thread_id = settings_.thread_id;
    request.request_id = new_request_id();
    {
        const std::lock_guard lock(mutex_);
        request.question_id = ids_.next(payload, options);
    }
    if (const auto* approve = std::get_if<ApproveRequest>(&payload))
        question.asking_call = approve->tool_call_id;
    if (!options.asking_call.empty()) question.asking_call = std::move(options.asking_call);
    request.extra = std::move(options.extra);
    request.payload = std::move(payload);
    return question;
}

std::shared_ptr<RequestTable::Waiting> RequestTable::add(const Question& question) {
    auto one = std::make_shared<Waiting>();
    one->request = question.request;
    if (question.run) one->run_id = question.run->run_id();
    const std::lock_guard lock(mutex_);
    for (const auto& other : pending_) {
        if (other->request.question_id == one->request.question_id)
            throw HitlError(ErrorCode::hitl, "the request '" + one->request.question_id +
                                                 "' is already pending; wait for its answer");
    }
    pending_.push_back(one);
    feed_.publish(one->request);
    return one;
}

std::shared_ptr<RequestTable::Waiting> RequestTable::find(const std::string& name) const {
    const auto named = [this](const auto& matches) {
        return std::find_if(pending_.begin(), pending_.end(),
                            [&](const auto& one) { return matches(one->request); });
    };
    auto found =
        named([&](const HitlRequest& one) { return !name.empty() && one.request_id == name; });
    if (found == pending_.end())
        found = named([&](const HitlRequest& one) { return one.question_id == name; });
    if (found == pending_.end() || (*found)->being_answered) throw_stale(name);
    return *found;
}

std::optional<std::chrono::nanoseconds> RequestTable::time_left(const HitlRequest& request) const {
    if (!request.timeout_seconds) return std::nullopt;
    const double now =
        std::chrono::duration<double>(settings_.clock->wall().time_since_epoch()).count();
    const double left = request.created_at + *request.timeout_seconds - now;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(left));
}

Task<Json> RequestTable::ask(std::shared_ptr<RequestTable> table, std::shared_ptr<HitlRun> run,
                             HitlPayload payload, HitlOptions options) {
    Question question =
        table->make_question(std::move(run), std::move(payload), std::move(options));
    // A separate statement per case: see docs/guides/coroutines.md.
    if (!table->storage_) co_return co_await table->ask_and_wait(std::move(question));
    co_return co_await table->ask_stored(std::move(question));
}

Task<Json> RequestTable::ask_stored(Question question) {
    const HitlRun& run = *question.run;
    if (run.is_continued()) {
        std::optional<StoredAnswer> known =
            co_await storage_->find_answer(run.run_id(), question.request);
        if (known) {
            Json answer = check_answer(question.request, std::move(known->value));
            question.request.request_id = std::move(known->request_id);
            co_await question.run->end_request(question.request, question.asking_call,
                                               HitlEnd::answered, answer, known->origin);
            co_return answer;
        }
    }
    PendingRequest stored =
        co_await storage_->save(run.run_id(), run.is_continued(), question.request);
    question.request = std::move(stored.request);
    if (!stored.expired) co_return co_await ask_and_wait(std::move(question));
    const std::chrono::nanoseconds limit = limit_of(question.request);
    co_await conclude(std::move(question), HitlEnd::timed_out, Json());
    throw HitlTimedOut(limit);
}

Task<Json> RequestTable::ask_and_wait(Question question) {
    const std::shared_ptr<Waiting> one = add(question);
    const Withdrawal withdrawal{*this, one};
    std::exception_ptr failure;
    if (question.run) {
        Task<> begin = question.run->begin_request(question.request, question.asking_call);
        const Outcome<> begun = co_await outcome_of(std::move(begin));
        failure = begun.failure();
    }
    if (!failure) {
        const Outcome<> waited = co_await outcome_of(wait_for_end(one));
        failure = waited.failure();
    }
    std::optional<Json> answer;
    {
        const std::lock_guard lock(mutex_);
        remove(one);  // from here on an answer is stale
        // An answer that arrived together with the timeout counts.
        answer = one->answer;
        question.origin = one->origin;
        if (!answer && !failure) failure = one->failure;
    }
    const bool suspending = question.run && question.run->is_suspending();
    // Its answer is stored, and the run is continued with it.
    if (answer && failure && suspending) std::rethrow_exception(failure);
    const std::chrono::nanoseconds limit = limit_of(question.request);
    HitlEnd how = HitlEnd::timed_out;
    if (answer) {
        how = HitlEnd::answered;
    } else if (failure && failure == one->failure) {
        how = HitlEnd::cancelled;
    } else if (failure) {
        how = suspending && storage_ ? HitlEnd::detached : HitlEnd::aborted;
    }
    Json value = answer ? *answer : Json();
    co_await shield();
    const Outcome<> concluded =
        co_await outcome_of(conclude(std::move(question), how, std::move(value)));
    co_await unshield();
    if (failure && !answer) std::rethrow_exception(failure);
    concluded.rethrow();
    if (!answer) throw HitlTimedOut(limit);
    co_return std::move(*answer);
}

Task<> RequestTable::wait_for_end(std::shared_ptr<Waiting> one) {
    bool out_of_time = false;
    for (;;) {
        const std::optional<std::chrono::nanoseconds> left = time_left(one->request);
        Task<> wait = one->ended.wait();
        if (left && !out_of_time) {
            const std::chrono::nanoseconds limit = std::max(*left, std::chrono::nanoseconds(0));
            wait = with_timeout(*settings_.clock, limit, std::move(wait));
        }
        const Outcome<> waited = co_await outcome_of(std::move(wait));
        if (waited.cancelled()) waited.rethrow();
        const std::lock_guard lock(mutex_);
        if (one->answer || one->failure) co_return;
        out_of_time = out_of_time || !waited.ok();
        // Expiry goes by the date: after a clock was set back the request has time left again.
        const auto remaining = time_left(one->request);
        if (remaining && *remaining > rounding) out_of_time = false;
        if (!out_of_time || one->being_answered) continue;
        remove(one);
        co_return;
    }
}

Task<> RequestTable::conclude(Question question, HitlEnd how, Json answer) {
    const bool unanswered = how != HitlEnd::answered && how != HitlEnd::detached;
    Outcome<> cleared{std::monostate()};
    if (storage_ && unanswered) {
        Task<> clear = storage_->clear(question.run->run_id(), question.request);
        cleared = co_await outcome_of(std::move(clear));
    }
    if (question.run) {
        Task<> end =
            question.run->end_request(std::move(question.request), std::move(question.asking_call),
                                      how, std::move(answer), std::move(question.origin));
        co_await std::move(end);
    }
    cleared.rethrow();
}

std::vector<HitlRequest> RequestTable::pending() const {
    const std::lock_guard lock(mutex_);
    std::vector<HitlRequest> requests;
    for (const auto& one : pending_) requests.push_back(one->request);
    return requests;
}

Task<> RequestTable::answer(std::shared_ptr<RequestTable> table, std::string question_id,
                            Json value, AnswerOrigin origin) {
    std::shared_ptr<Waiting> one;
    Json checked;
    {
        const std::lock_guard lock(table->mutex_);
        one = table->find(question_id);
        checked = check_answer(one->request, std::move(value));
        one->being_answered = true;
    }
    if (table->storage_) {
        // Stored before the run continues: an answer that was accepted is not lost.
        co_await shield();
        Task<> storing = table->storage_->store_answer(one->run_id, one->request, checked, origin);
        const Outcome<> stored = co_await outcome_of(std::move(storing));
        co_await unshield();
        if (!stored.ok()) {
            const std::lock_guard lock(table->mutex_);
            one->being_answered = false;
            one->ended.set();  // its time may be over
            stored.rethrow();
        }
    }
    const std::lock_guard lock(table->mutex_);
    one->answer = std::move(checked);
    one->origin = std::move(origin);
    table->remove(one);
    one->ended.set();
}

void RequestTable::cancel(const std::string& question_id, std::string reason) {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<Waiting> one = find(question_id);
    remove(one);
    one->failure = std::make_exception_ptr(HitlCancelled(std::move(reason)));
    one->ended.set();
}

void RequestTable::close(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    for (const auto& one : std::exchange(pending_, {})) {
        one->failure = std::make_exception_ptr(HitlCancelled(reason));
        one->ended.set();
    }
    feed_.close();
}

void RequestTable::restart_ids() {
    const std::lock_guard lock(mutex_);
    ids_ = QuestionIds();
}

std::string QuestionIds::next(const HitlPayload& payload, const HitlOptions& options) {
    if (!options.question_id.empty()) return options.question_id;
    if (const auto* approve = std::get_if<ApproveRequest>(&payload)) return approve->tool_call_id;
    const auto* confirm = std::get_if<ConfirmRequest>(&payload);
    if (confirm && options.tool_call_id) return *options.tool_call_id;
    HitlRequest request;
    request.payload = payload;
    JsonObject body = to_json(request)["payload"].get_object();
    Json content = confirm
                       ? Json(JsonObject{{"details", body["details"]}, {"prompt", body["prompt"]}})
                       : body["questions"];
    const JsonObject all{{"kind", body["kind"]}, {"payload", std::move(content)}};
    std::string id = digest(to_python_json(sorted(all)));
    const std::size_t count = asked_[id]++;
    return id + "." + std::to_string(count);
}

// The stored requests.

RequestStorage::RequestStorage(std::shared_ptr<Checkpointer> store, std::string thread_id,
                               std::shared_ptr<Clock> clock)
    : store_(std::move(store)),
      thread_id_(std::move(thread_id)),
      clock_(clock ? std::move(clock) : Runtime::standard()->clock),
      requests_(&hitl_store_of(store_.get())),
      inbox_(dynamic_cast<QuestionStore*>(store_.get())) {}

double RequestStorage::now() const {
    return std::chrono::duration<double>(clock_->wall().time_since_epoch()).count();
}

/// The request to which an answer belongs, and where the answer came from.
struct RequestStorage::Answered {
    std::optional<HitlRequest> request = {};
    AnswerOrigin origin = {};
};

/// Returns the request to which the stored answer belongs. A store with an inbox keeps it with the answer; in another one
/// it stays pending until its answer is used.
Task<RequestStorage::Answered> RequestStorage::answered_request(std::string run_id,
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

Task<std::optional<StoredAnswer>> RequestStorage::find_answer(std::string run_id,
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

Task<PendingRequest> RequestStorage::save(std::string run_id, bool continued, HitlRequest request) {
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

Task<> RequestStorage::clear(std::string run_id, HitlRequest request) {
    (void)co_await requests_->clear_pending_request(thread_id_, std::move(run_id),
                                                    request.question_id);
}

Task<> RequestStorage::store_answer(std::string run_id, HitlRequest request, Json answer,
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

}  // namespace detail

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
        std::make_shared<detail::RequestStorage>(std::move(store), thread_id_, options.clock);
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

Task<bool> CheckpointedChannel::has_answer(HitlRequest request) {
    const std::shared_ptr<HitlRun> asking = run();
    if (!asking || !asking->is_continued()) co_return false;
    request.question_id = std::get<ApproveRequest>(request.payload).tool_call_id;
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
