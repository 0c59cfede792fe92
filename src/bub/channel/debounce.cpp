#include <bub/channel/debounce.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/trimmed.hpp>

namespace bub {

namespace {

/// The combined lifespans of merged messages.
class Lifespans final : public Lifespan {
public:
    explicit Lifespans(std::vector<std::shared_ptr<Lifespan>> all) : all_(std::move(all)) {}

    Task<> open() override {
        for (; opened_ < all_.size(); ++opened_) co_await all_[opened_]->open();
    }

    Task<> close(std::exception_ptr error) override {
        std::exception_ptr first;
        // A lifespan whose open() failed was also called, so it is closed too.
        const std::size_t begun = std::min(opened_ + 1, all_.size());
        for (std::size_t i = begun; i > 0; --i) {
            const auto closed = co_await cubepi::outcome_of(close_one(all_[i - 1], error));
            if (!first) first = closed.failure();
        }
        if (first) std::rethrow_exception(first);
    }

private:
    static Task<> close_one(std::shared_ptr<Lifespan> one, std::exception_ptr error) {
        co_await one->close(std::move(error));
    }

    std::vector<std::shared_ptr<Lifespan>> all_;
    std::size_t opened_ = 0;
};

void merge_into(JsonObject& target, JsonObject later) {
    for (auto& [key, value] : later) target[key] = std::move(value);
}

}  // namespace

std::string_view session_command(std::string_view text) {
    text = cubepi::detail::trimmed(text);
    if (text == "/todo") return ",todo";
    if (text == "/goal") return ",goal";
    if (text == "/goal clear") return ",goal clear";
    if (text == "/tasks") return ",tasks";
    // The command line begins after its first character.
    constexpr std::string_view cancel = "/tasks cancel ";
    const auto is_plain = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               c == '-' || c == '_';
    };
    if (text.starts_with(cancel) && std::all_of(text.begin() + cancel.size(), text.end(), is_plain))
        return text;
    return {};
}

bool is_command(const Envelope& message) {
    const std::string& text = message.content_text();
    const bool of_operator = text.starts_with(',') && message.is_operator();
    return (of_operator || !session_command(text).empty()) && !message.answer;
}

bool is_stop(const Envelope& message) {
    const std::string_view text = cubepi::detail::trimmed(message.content_text());
    return text == "/stop" || text == ",stop";
}

Envelope withdrawal_of(Envelope stop) {
    stop.content = ",abandon";
    stop.answer.emplace().action = AnswerAction::abandon;
    note_answer(stop);
    stop.rest[stop_key] = true;
    return stop;
}

bool is_prompt(const Envelope& message) {
    return !is_command(message) && !message.answer && !message.rest.contains(task_results_key);
}

Envelope merge_messages(std::vector<Envelope> messages) {
    if (messages.empty())
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument, "there are no messages to merge");
    if (messages.size() == 1) return std::move(messages.front());
    std::string text;
    std::vector<MediaItem> media;
    std::vector<std::shared_ptr<Lifespan>> lifespans;
    JsonObject context;
    const Json* const first = messages.front().context.if_contains(arrived_key);
    const Json arrived = first ? *first : Json();
    JsonObject rest;
    std::vector<std::string> receipts;
    std::optional<Answer> answer;
    bool active = false;
    bool operators = true;
    bool one_sender = true;
    const std::string sender = sender_of(messages.front());
    for (Envelope& message : messages) {
        if (&message != &messages.front()) text += '\n';
        text += message.content_text();
        for (MediaItem& item : message.media) media.push_back(std::move(item));
        if (message.lifespan) lifespans.push_back(std::move(message.lifespan));
        if (!answer) answer = std::move(message.answer);
        for (std::string& receipt : message.receipts) receipts.push_back(std::move(receipt));
        active = active || message.is_active;
        operators = operators && message.is_operator();
        one_sender = one_sender && sender_of(message) == sender;
        merge_into(context, std::move(message.context));
        merge_into(rest, std::move(message.rest));
    }
    if (!one_sender) context.erase("sender_id");
    if (!arrived.is_null()) context[arrived_key] = arrived;
    Envelope merged = std::move(messages.back());
    merged.content = std::move(text);
    merged.media = std::move(media);
    merged.answer = std::move(answer);
    merged.context = std::move(context);
    merged.rest = std::move(rest);
    merged.receipts = std::move(receipts);
    merged.is_active = active;
    merged.from_operator = operators;
    merged.lifespan = nullptr;
    if (lifespans.size() == 1) merged.lifespan = std::move(lifespans.front());
    if (lifespans.size() > 1) merged.lifespan = std::make_shared<Lifespans>(std::move(lifespans));
    return merged;
}

Debouncer::Debouncer(cubepi::Clock& clock, cubepi::Executor executor, DebounceOptions options,
                     Flush flush, Idle idle)
    : clock_(clock),
      options_(options),
      flush_(std::move(flush)),
      idle_(std::move(idle)),
      timer_(clock.timer(std::move(executor))) {}

bool Debouncer::in_window(TimePoint now) const {
    return last_active_ && now - *last_active_ <= options_.active_window;
}

void Debouncer::arm(TimePoint deadline) {
    timer_->expires_at(deadline, [this] { on_timer(); });
}

bool Debouncer::wants(const Envelope& message) const {
    return !is_prompt(message) || message.is_active || in_window(clock_.now());
}

bool Debouncer::add(Envelope message) {
    if (!is_prompt(message)) {
        flush_(std::move(message));
        return true;
    }
    const TimePoint now = clock_.now();
    if (!message.is_active && !in_window(now)) {
        last_active_.reset();
        if (idle_ && messages_.empty()) arm(now);
        return false;
    }
    // The rules of the sender hold for the turn, and a goal begins its message.
    const bool apart = !messages_.empty() && (sender_of(messages_.front()) != sender_of(message) ||
                                              message.content_text().starts_with("/goal "));
    if (apart) flush();
    const bool first = messages_.empty();
    if (first) first_ = now;
    const bool active = message.is_active;
    messages_.push_back(std::move(message));
    if (messages_.size() >= options_.max_messages) {
        flush();
        return true;
    }
    const TimePoint latest = cubepi::deadline_after(first_, options_.max_wait);
    if (active) {
        last_active_ = now;
        arm(std::min(cubepi::deadline_after(now, options_.delay), latest));
    } else if (first) {
        arm(latest);
    }
    return true;
}

bool Debouncer::collects_from(const std::string& sender) const {
    return !messages_.empty() && sender_of(messages_.front()) == sender;
}

void Debouncer::on_timer() {
    if (!messages_.empty()) return flush();
    last_active_.reset();
    if (idle_) idle_();
}

void Debouncer::flush() {
    if (messages_.empty()) return;
    // The active window continues; after it, no state has to be remembered.
    arm(cubepi::deadline_after(last_active_.value_or(clock_.now()), options_.active_window));
    flush_(merge_messages(std::exchange(messages_, {})));
}

std::vector<Envelope> Debouncer::drain() {
    timer_->cancel();
    return std::exchange(messages_, {});
}

}  // namespace bub
