#include <bub/channel/telegram/update_poll.hpp>

#include <algorithm>
#include <utility>

#include <bub/channel/telegram/update.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub::telegram {

namespace {

using cubepi::Outcome;
using cubepi::outcome_of;

constexpr std::chrono::seconds poll_time{50};
constexpr std::chrono::seconds shortest_poll{1};
/// A hundred updates of the greatest size that Telegram allows fit.
constexpr std::size_t max_batch_bytes = 16 << 20;

bool is_earlier(const Json& a, const Json& b) {
    return update_id_of(a).value_or(0) < update_id_of(b).value_or(0);
}

bool is_too_large(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::Error& error) {
        return error.code() == cubepi::ErrorCode::too_large;
    } catch (...) {
        return false;
    }
}

}  // namespace

JsonArray wanted_updates() {
    JsonArray kinds;
    for (const char* kind : {"message", "edited_message", "callback_query"})
        kinds.emplace_back(kind);
    return kinds;
}

Task<Json> UpdatePoll::fetch() const {
    JsonObject parameters;
    if (offset_ != 0) parameters["offset"] = offset_;
    parameters["limit"] = batch_;
    parameters["timeout"] = poll_time.count();
    parameters["allowed_updates"] = wanted_updates();
    CallLimits limits;
    limits.answer = poll_time + std::chrono::seconds(15);
    limits.total = poll_time + std::chrono::seconds(60);
    limits.max_response_bytes = max_batch_bytes;
    return api_->call("getUpdates", std::move(parameters), limits);
}

Task<> UpdatePoll::run() {
    while (true) {
        const cubepi::Clock::time_point asked = clock_.now();
        Outcome<Json> updates = co_await outcome_of(fetch());
        if (updates.cancelled()) updates.rethrow();
        if (!updates) {
            co_await back_off(updates.failure());
            continue;
        }
        const JsonArray* const all = updates.value().if_array();
        // Some servers answer at once instead of waiting for an update.
        const bool is_idle = !all || all->empty();
        if (is_idle && clock_.now() - asked < shortest_poll)
            co_await clock_.sleep_for(shortest_poll);
        Task<bool> accepting = accept_all(std::move(updates).value());
        const bool accepted = co_await std::move(accepting);
        if (accepted) {
            failures_ = 0;
            report({});
        } else {
            // Not confirmed: the next request returns it again.
            co_await back_off(nullptr);
        }
    }
}

Task<bool> UpdatePoll::accept_all(Json updates) {
    if (!updates.is_array()) co_return true;
    JsonArray& all = updates.get_array();
    // Everything is confirmed. After a week without updates Telegram chooses a new, possibly lower id.
    if (all.empty()) offset_ = 0;
    // An answer without a new update cannot be confirmed, and would come at once again.
    bool progressed = all.empty();
    std::sort(all.begin(), all.end(), is_earlier);
    for (Json& update : all) {
        const std::int64_t id = update_id_of(update).value_or(0);
        if (offset_ != 0 && id < offset_) continue;
        Task<bool> accepting = accept_(std::move(update));
        const bool accepted = co_await std::move(accepting);
        if (!accepted) co_return false;
        if (id == 0) continue;
        offset_ = id + 1;
        progressed = true;
    }
    co_return progressed;
}

std::chrono::nanoseconds UpdatePoll::delay_after(const std::exception_ptr& failure) {
    const std::chrono::seconds doubled(1 << std::min(failures_++, 5));
    const std::optional<ApiFailure> details = failure ? api_failure(failure) : std::nullopt;
    if (!details) return doubled;
    if (details->retry_after) return *details->retry_after;
    if (details->status == 409) return std::chrono::seconds(30);
    if (!details->is_transient()) return std::chrono::seconds(60);
    return doubled;
}

Task<> UpdatePoll::back_off(std::exception_ptr failure) {
    if (failure && is_too_large(failure) && batch_ > 1) {
        batch_ /= 2;
        co_return;
    }
    const std::chrono::nanoseconds delay = delay_after(failure);
    const std::optional<ApiFailure> details = failure ? api_failure(failure) : std::nullopt;
    if (details && details->status == 409) {
        report(
            "another process receives the updates of this bot (409): two gateways must not use "
            "the same token. It is tried again every 30 s. " +
            details->description);
    } else if (failure) {
        report(cubepi::exception_text(failure));
    }
    co_await clock_.sleep_for(delay);
}

void UpdatePoll::report(std::string trouble) {
    if (trouble.empty() == trouble_.empty()) return;
    trouble_ = trouble;
    if (on_trouble_) on_trouble_(std::move(trouble));
}

Task<> UpdatePoll::confirm() {
    if (offset_ == 0) co_return;
    JsonObject parameters;
    parameters["offset"] = std::exchange(offset_, 0);
    parameters["limit"] = 1;
    parameters["timeout"] = 0;
    CallLimits limits;
    limits.answer = limits.total = std::chrono::seconds(3);
    Task<Json> calling = api_->call("getUpdates", std::move(parameters), limits);
    (void)co_await outcome_of(std::move(calling));
}

}  // namespace bub::telegram
