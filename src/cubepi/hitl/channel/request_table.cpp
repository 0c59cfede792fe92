#include <cubepi/hitl/channel/request_table.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <openssl/rand.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

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

}  // namespace cubepi::detail
