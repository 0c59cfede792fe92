#include "turn_reports.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>

#include <bub/envelope.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi::app {

namespace {

/// Describes a failure without naming a part of the system: by what the sender can do about it.
std::string neutral_text(const std::exception_ptr& failure) {
    constexpr const char* limit = "The answer is incomplete: a limit of this service was reached.";
    try {
        std::rethrow_exception(failure);
    } catch (const bub::TurnError& error) {
        if (error.details().contains("limit")) return limit;
    } catch (const Error& error) {
        switch (error.code()) {
            case ErrorCode::limit: return limit;
            case ErrorCode::rate_limited:
            case ErrorCode::unavailable:
                return "The service is overloaded at the moment. Send the message again later.";
            case ErrorCode::context_length:
                return "The conversation has become too long to continue.";
            case ErrorCode::content_filtered:
                return "The message was rejected because of its content, or that of the "
                       "conversation.";
            default: break;
        }
    } catch (...) {
    }
    return std::string(general_failure);
}

/// A log cuts longer values.
constexpr std::size_t longest_field = 256;

std::string new_error_id() {
    char text[9] = {};
    std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(detail::random_word()));
    return text;
}

Attributes by_channel(std::string channel) {
    Attributes attributes;
    attributes.add("channel", SharedString(std::move(channel)));
    return attributes;
}

Attributes by_type(std::string channel, const char* type) {
    Attributes attributes = by_channel(std::move(channel));
    attributes.add("type", SharedString(type));
    return attributes;
}

std::vector<double> latency_bounds() {
    return {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800};
}

std::int64_t prompt_tokens(const Usage& usage) {
    return usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0) +
           usage.cache_write_tokens.value_or(0);
}

}  // namespace

TurnReports::TurnReports(MetricRegistry& registry, bub::WarningHandler warn)
    : warn_(std::move(warn)),
      received_(registry.counter("cubepi.gateway.messages.received", "{message}",
                                 "Messages that were accepted.")),
      answered_(registry.counter("cubepi.gateway.messages.answered", "{message}",
                                 "Messages whose turn ended with an answer or a question.")),
      failed_(registry.counter("cubepi.gateway.messages.failed", "{message}",
                               "Messages whose turn failed; their senders were told.")),
      held_(registry.counter("cubepi.gateway.messages.held", "{message}",
                             "Messages that were held for the operator.")),
      latency_(registry.histogram("cubepi.gateway.latency", "s",
                                  "Time from the admission of a message to the end of its turn.",
                                  latency_bounds())),
      tokens_(registry.counter("cubepi.gateway.tokens", "{token}", "Tokens of turns.")),
      cost_(registry.counter("cubepi.gateway.cost", "USD", "Cost of turns with a known price.")) {}

void TurnReports::add_channels(const std::vector<std::string>& names) {
    {
        const std::lock_guard lock(mutex_);
        for (const std::string& name : names) {
            if (std::find(channels_.begin(), channels_.end(), name) == channels_.end())
                channels_.push_back(name);
        }
    }
    for (const std::string& name : names) {
        const Attributes channel = by_channel(name);
        for (const Counter* counter : {&received_, &answered_, &failed_, &held_, &cost_})
            counter->add(0, channel);
        for (const char* const type : {"input", "output"}) tokens_.add(0, by_type(name, type));
    }
}

std::vector<std::string> TurnReports::channels() const {
    const std::lock_guard lock(mutex_);
    return channels_;
}

std::string TurnReports::label_of(const std::string& channel) const {
    const std::lock_guard lock(mutex_);
    const bool is_known = std::find(channels_.begin(), channels_.end(), channel) != channels_.end();
    return is_known ? channel : "other";
}

std::string TurnReports::label_of(const bub::Envelope& message) const {
    return label_of(message.channel.value_or(""));
}

bub::FailureText TurnReports::failure_text(std::shared_ptr<const TurnReports> reports,
                                           bool with_details) {
    return [reports = std::move(reports), with_details](const std::exception_ptr& failure) {
        return reports->describe(failure, with_details);
    };
}

std::string TurnReports::describe(const std::exception_ptr& failure, bool with_details) const {
    try {
        std::rethrow_exception(failure);
    } catch (const bub::SenderError& error) {
        return error.what();
    } catch (...) {
    }
    const std::string id = new_error_id();
    const std::string details = bub::describe(failure);
    std::vector<LogField> fields = {{"id", id}, {"error", logged_error(failure)}};
    std::string_view rest = details;
    for (const char* const name : {"text", "text_2", "text_3", "text_4"}) {
        if (rest.empty()) break;
        fields.emplace_back(name, rest.substr(0, longest_field));
        rest.remove_prefix(std::min(rest.size(), longest_field));
    }
    Runtime::standard()->log.write(LogLevel::warning, "turn.error",
                                   std::span<const LogField>(fields));
    if (warn_) warn_("error " + id + ": " + details);
    const std::string text = neutral_text(failure) + " (error " + id + ")";
    return with_details ? text + "\n" + details : text;
}

void TurnReports::note_result(const std::string& session_id, const RunResult& result) {
    Spending spent{result.usage, result.cost};
    for (const Message& message : result.new_messages) {
        const AssistantMessage* const answer = message.assistant();
        if (answer && !answer->model_id.empty()) spent.model = answer->model_id.str();
    }
    const std::lock_guard lock(mutex_);
    spending_[session_id] = std::move(spent);
}

TurnReports::Spending TurnReports::take_spending(const std::string& session_id) {
    const std::lock_guard lock(mutex_);
    Spending spent;
    const auto found = spending_.find(session_id);
    if (found == spending_.end()) return spent;
    spent = std::move(found->second);
    spending_.erase(found);
    return spent;
}

void TurnReports::received(const bub::Envelope& message) noexcept {
    try {
        received_.add(1, by_channel(label_of(message)));
    } catch (...) {
        // A message does not depend on its metrics.
    }
}

void TurnReports::turn_ended(const bub::EndedTurn& turn) noexcept {
    try {
        const Spending spent = take_spending(turn.message.session_id.value_or(""));
        log(turn, spent);
        measure(turn, spent);
    } catch (...) {
        // See received().
    }
}

void TurnReports::log(const bub::EndedTurn& turn, const Spending& spent) const {
    const Logger& log = Runtime::standard()->log;
    if (!log.is_on(LogLevel::info)) return;
    const bub::Envelope& message = turn.message;
    const std::string session = message.session_id.value_or("");
    const std::string channel = message.channel.value_or("");
    const std::string id = message.inbound_id.value_or("");
    const std::chrono::duration<double, std::milli> took = turn.duration;
    std::vector<LogField> fields = {{"session", session}, {"message", id}};
    if (!message.receipts.empty()) fields.emplace_back("record", message.receipts.front());
    fields.emplace_back("channel", channel);
    fields.emplace_back("outcome", to_string(turn.outcome));
    fields.emplace_back("duration_ms", static_cast<std::int64_t>(took.count()));
    fields.emplace_back("input_tokens", prompt_tokens(spent.usage));
    fields.emplace_back("output_tokens", spent.usage.output_tokens.value_or(0));
    if (spent.cost) fields.emplace_back("cost_usd", *spent.cost);
    if (!spent.model.empty()) fields.emplace_back("model", spent.model);
    if (turn.failure) fields.emplace_back("error", logged_error(turn.failure));
    log.write(LogLevel::info, "turn.ended", std::span<const LogField>(fields));
}

void TurnReports::measure(const bub::EndedTurn& turn, const Spending& spent) const {
    using bub::TurnOutcome;
    const std::string name = label_of(turn.message);
    const Attributes channel = by_channel(name);
    tokens_.add(static_cast<double>(prompt_tokens(spent.usage)), by_type(name, "input"));
    tokens_.add(static_cast<double>(spent.usage.output_tokens.value_or(0)),
                by_type(name, "output"));
    if (spent.cost) cost_.add(*spent.cost, channel);
    // Messages that formed one prompt.
    const auto messages =
        static_cast<double>(std::max<std::size_t>(1, turn.message.receipts.size()));
    switch (turn.outcome) {
        case TurnOutcome::answered:
        case TurnOutcome::suspended: answered_.add(messages, channel); break;
        case TurnOutcome::failed:
        case TurnOutcome::cut_off: failed_.add(messages, channel); break;
        case TurnOutcome::held: held_.add(messages, channel); return;
        // Another turn follows.
        case TurnOutcome::unread:
        case TurnOutcome::postponed:
        case TurnOutcome::taken: return;
        case TurnOutcome::cancelled: return;
    }
    latency_.record(std::chrono::duration<double>(turn.latency).count(), channel);
}

struct TaskResults::State {
    State(Executor given, bub::WarningHandler warn)
        : executor(std::move(given)), on_warning(std::move(warn)), work(executor) {}

    const Executor executor;
    const bub::WarningHandler on_warning;
    bub::ChannelManager* manager = nullptr;  ///< null: the gateway does not serve
    BackgroundScope work;
};

namespace {

Task<> receive(bub::ChannelManager* manager, bub::WarningHandler warn, bub::Envelope message) {
    // Channels tell their messages apart by their ids.
    message.inbound_id = "task-" + Runtime::standard()->ids->next();
    if (const std::shared_ptr<bub::HeldTurn> held = message.held) {
        Task<> storing = manager->receive(message);
        const Outcome<> stored = co_await outcome_of(std::move(storing));
        if (stored.cancelled() || held->is_accepted()) co_return;
        // It could not be stored, or the session is another gateway's.
        co_await held->wait();
        if (held->is_dropped()) co_return;
        message.held = nullptr;
        message.inbound_id = "task-" + Runtime::standard()->ids->next();
    }
    Task<> receiving = manager->receive(std::move(message));
    const Outcome<> received = co_await outcome_of(std::move(receiving));
    if (received || received.cancelled()) co_return;
    Runtime::standard()->log.write(LogLevel::warning, "gateway.task_result_waits",
                                   {{"error", logged_error(received.failure())}});
    if (warn)
        warn("the result of a sub-agent waits for the next message of its session: " +
             exception_text(received.failure()));
}

}  // namespace

TaskResults::TaskResults(Executor executor, bub::WarningHandler on_warning)
    : state_(std::make_shared<State>(std::move(executor), std::move(on_warning))) {}

TaskResults::~TaskResults() {
    state_->manager = nullptr;
    state_->work.cancel();
}

void TaskResults::connect(bub::ChannelManager& manager) { state_->manager = &manager; }

void TaskResults::deliver(bub::Envelope message) const {
    boost::asio::post(state_->executor, [state = state_, message = std::move(message)]() mutable {
        if (!state->manager) return;
        state->work.spawn(receive(state->manager, state->on_warning, std::move(message)));
    });
}

}  // namespace cubepi::app
