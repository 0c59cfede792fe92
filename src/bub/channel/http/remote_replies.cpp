#include <bub/channel/http/remote_replies.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include <bub/questions.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub {

Task<std::optional<JsonObject>> HttpSessions::ask_elsewhere(JsonObject, std::string) {
    std::optional<JsonObject> none;
    co_return none;
}

Task<bool> HttpSessions::wait_for_end(std::string, std::string, std::chrono::milliseconds limit) {
    constexpr std::chrono::milliseconds soon{200};
    co_await cubepi::Runtime::standard()->clock->sleep_for(std::min(limit, soon));
    co_return true;
}

}  // namespace bub

namespace bub::detail {

using cubepi::Outcome;
using cubepi::detail::flag_member;
using cubepi::detail::text_member;
using ExchangePtr = std::shared_ptr<HttpExchange>;

namespace {

/// The key of Envelope::rest of a message whose client reads the text while it is generated.
constexpr std::string_view shared_text_key = "shared_text";
constexpr std::string_view text_request = "text";

HttpExchange::Refusal known_before(const std::string& id, const std::string& session) {
    HttpExchange::Refusal refusal;
    refusal.status = 409;
    // The records of older versions do not name the session.
    refusal.text = session.empty()
                       ? "the message '" + id +
                             "' was received before; its answer is in the history of its session"
                       : "the message '" + id + "' of session '" + session +
                             "' was received before with this Idempotency-Key; GET /v1/messages/" +
                             id + " returns its state and its answer";
    return refusal;
}

/// Returns a number that another gateway has sent; 0 if it is absent.
std::size_t size_member(const JsonObject& object, std::string_view key) {
    const std::optional<std::int64_t> number = cubepi::detail::integer_member(object, key);
    return static_cast<std::size_t>(std::max<std::int64_t>(0, number.value_or(0)));
}

/// Returns false also for a text that all gateways have refused several times: none retains it, and the outputs have it.
bool reads_text(const HttpExchange& exchange) {
    constexpr std::size_t most_refusals = 20;
    return exchange.detail == HttpReplyDetail::text && exchange.has_readers() &&
           exchange.remote.refusals < most_refusals;
}

HttpExchange::Refusal other_request() {
    HttpExchange::Refusal refusal;
    refusal.status = 422;
    refusal.text = "this Idempotency-Key belongs to another message";
    return refusal;
}

}  // namespace

bool is_open(std::string_view state) {
    return state == "pending" || state == "running" || state == "held";
}

void RemoteReplies::announce(HttpExchange& exchange, Envelope& message) const {
    const bool is_read = exchange.detail == HttpReplyDetail::text && options_.sessions;
    if (!is_read || !options_.sessions->is_shared()) return;
    message.rest[shared_text_key] = true;
    note(exchange, message);
}

void RemoteReplies::note(HttpExchange& exchange, const Envelope& message) {
    if (message.rest.contains(shared_text_key)) exchange.shares_text = true;
}

Task<> RemoteReplies::follow(ExchangePtr exchange, std::stop_token draining) {
    const bool is_over = co_await read_record(exchange);
    if (is_over) co_return;
    // After close() nothing waits for another follower.
    if (is_closed_ || draining.stop_requested()) {
        exchanges_->leave(exchange);
        co_return;
    }
    if (!work_) {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        work_ =
            std::make_unique<cubepi::BackgroundScope>(executor, [](const std::exception_ptr&) {});
    }
    work_->spawn(follow_until_end(exchange, std::move(draining)));
}

/// Reads the record of the message. Returns true if the exchange has ended.
Task<bool> RemoteReplies::read_record(ExchangePtr exchange) {
    std::optional<JsonObject> record;
    if (options_.sessions) {
        Task<std::optional<JsonObject>> reading = options_.sessions->message(exchange->id());
        record = co_await std::move(reading);
    }
    // This gateway has taken it meanwhile.
    if (exchange->admitted) co_return true;
    const std::string state = record ? text_member(*record, "state") : "";
    const std::string session = record ? text_member(*record, "session") : "";
    const std::string digest = record ? text_member(*record, request_digest_key) : "";
    const std::string& asked = exchange->request_digest;
    if (!asked.empty() && !digest.empty() && asked != digest) {
        exchanges_->refuse(exchange, other_request());
        co_return true;
    }
    const bool is_processed =
        (state == "pending" || state == "running") && exchange->chat() == session;
    if (is_processed) {
        exchange->recorded = true;
        if (record->contains(background_key)) exchange->is_in_background = true;
        co_return false;
    }
    // A message without an Idempotency-Key has no digest, nor has the record of a request to stop that is finished: their ids name the
    // user, and their texts are the same.
    const bool are_stops = exchange->is_stop && record && flag_member(*record, stop_key);
    const bool is_same = exchange->chat() == session && (asked == digest || are_stops);
    const bool has_ended = record && !is_open(state);
    if (has_ended && exchange->recorded) {
        // The text that was generated since it was read last, in pieces.
        bool has_more = reads_text(*exchange);
        while (has_more) has_more = co_await read_text(exchange, false);
        exchange->end_elsewhere(*record);
        exchanges_->end_turn(exchange, exchange->error());
    } else if (has_ended && is_same) {
        // Its turn has ended before the first look. The record has the reply, also one that changes later.
        exchange->end_elsewhere(*record);
        exchanges_->forget(exchange);
    } else {
        exchanges_->refuse(exchange, known_before(exchange->id(), session));
    }
    co_return true;
}

Task<> RemoteReplies::follow_until_end(ExchangePtr exchange, std::stop_token draining) {
    const std::shared_ptr<HttpExchanges> exchanges = exchanges_;
    Task<> reading = read_until_end(exchange, std::move(draining));
    const Outcome<> read = co_await cubepi::outcome_of(std::move(reading));
    // It is asked for again, at any gateway.
    if (!exchange->admitted && !exchange->done()) exchanges->leave(exchange);
    if (read.cancelled()) read.rethrow();
}

Task<> RemoteReplies::read_until_end(ExchangePtr exchange, std::stop_token draining) {
    constexpr std::chrono::milliseconds shortest{200};
    constexpr std::chrono::milliseconds longest{1'000};
    // No end is announced of a message that waits for an operator.
    constexpr std::chrono::milliseconds longest_without_read{5'000};
    std::chrono::milliseconds waited{0};
    std::chrono::milliseconds text_interval = shortest;
    for (bool is_over = false; !is_over;) {
        // Without a reader of the text little is read before the end is known (D273).
        const std::chrono::milliseconds limit = reads_text(*exchange) ? text_interval : longest;
        Task<bool> waiting =
            options_.sessions->wait_for_end(exchange->id(), exchange->chat(), limit);
        const bool may_be_over = co_await std::move(waiting);
        const bool is_awaited = exchange->waiting > 0 || exchange->has_readers();
        if (exchange->admitted || draining.stop_requested() || !is_awaited) co_return;
        text_interval = std::min(text_interval + text_interval / 4, longest);
        if (reads_text(*exchange)) {
            (void)co_await read_text(exchange, true);
            // The owner answers when there is text, or after a second.
            if (!exchange->remote.is_lost) text_interval = shortest;
        }
        waited += limit;
        if (!may_be_over && waited < longest_without_read) continue;
        waited = {};
        is_over = co_await read_record(exchange);
    }
}

/// Reads the next text of the turn. `waits`: for a second at most, until there is some. Returns true if there may be more.
Task<bool> RemoteReplies::read_text(ExchangePtr exchange, bool waits) {
    RemoteText& at = exchange->remote;
    JsonObject request;
    request["about"] = text_request;
    request["message"] = exchange->id();
    request["turn"] = at.turn;
    request["position"] = at.position;
    request["waits"] = waits;
    std::string gateway = at.is_lost ? std::string() : at.gateway;
    Task<std::optional<JsonObject>> asking =
        options_.sessions->ask_elsewhere(std::move(request), std::move(gateway));
    cubepi::Outcome<std::optional<JsonObject>> asked =
        co_await cubepi::outcome_of(std::move(asking));
    if (asked.cancelled()) asked.rethrow();
    // The records have the text as well, later.
    std::optional<JsonObject> answer;
    if (asked) answer = std::move(asked).value();
    at.is_lost = !answer;
    at.refusals = answer ? 0 : at.refusals + 1;
    // This gateway may have taken the message meanwhile.
    if (!answer || exchange->admitted || exchange->done()) co_return false;
    const std::size_t turn = size_member(*answer, "turn");
    const std::size_t position = size_member(*answer, "position");
    const std::string from = text_member(*answer, "gateway");
    if (turn == 0) {
        // The message waits there: the others are not asked again.
        at.gateway = from;
        at.turn = at.position = 0;
        co_return false;
    }
    if (turn != at.turn || from != at.gateway) {
        // The text of another turn is read from its beginning.
        at.gateway = from;
        at.position = 0;
        at.turn = position == 0 ? turn : 0;
        if (position > 0) co_return true;
        exchange->begin();
    }
    if (position != at.position) co_return false;
    std::string text = text_member(*answer, "text");
    at.position += text.size();
    const bool has_text = !text.empty();
    exchange->add_text(std::move(text), options_.max_waiting_text);
    co_return has_text;
}

Task<std::optional<JsonObject>> RemoteReplies::text_for(JsonObject request) const {
    constexpr std::chrono::seconds longest_wait{1};
    constexpr std::size_t longest_piece = std::size_t{64} << 10U;
    std::optional<JsonObject> answer;
    if (text_member(request, "about") != text_request) co_return answer;
    const ExchangePtr exchange = exchanges_->find(text_member(request, "message"));
    // Not of a turn that this gateway reads elsewhere itself.
    if (!exchange || !exchange->shares_text || !exchange->admitted) co_return answer;
    const std::size_t turn = size_member(request, "turn");
    const std::size_t asked = size_member(request, "position");
    const bool is_new =
        turn != exchange->turns() || asked < exchange->shared_text().size() || exchange->done();
    if (flag_member(request, "waits") && !is_new) {
        cubepi::Clock& clock = *cubepi::Runtime::standard()->clock;
        const auto end = cubepi::deadline_after(clock.now(), longest_wait);
        (void)co_await cubepi::detail::run_until(clock, end, exchange->wait());
    }
    const std::string_view text = exchange->shared_text();
    const std::size_t position = turn == exchange->turns() ? std::min(asked, text.size()) : 0;
    const std::string_view piece = text.substr(position, longest_piece);
    answer.emplace();
    (*answer)["turn"] = exchange->turns();
    (*answer)["position"] = position;
    (*answer)["text"] = piece.substr(0, cubepi::complete_utf8_prefix(piece));
    co_return answer;
}

Task<> RemoteReplies::close() {
    is_closed_ = true;
    if (work_) co_await work_->close();
}

}  // namespace bub::detail
