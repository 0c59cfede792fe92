#include "live_answers.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>

#include <bub/envelope.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

/// The limit of a text, of which the end is shown: it is what is new.
constexpr std::size_t longest_text = 32 * 1024;
constexpr std::size_t longest_arguments = 2'000;
constexpr std::size_t most_calls = 64;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Appends to a text. Adds to `begin` what is removed at its beginning.
void append(LiveAnswer& answer, std::string& text, std::size_t& begin, std::string_view more) {
    text += more;
    if (text.size() <= 2 * longest_text) return;
    // Half of it at a time: a long answer has many small parts.
    std::size_t first = text.size() - longest_text;
    while (first < text.size() && is_continuation(text[first])) ++first;
    text.erase(0, first);
    begin += first;
    answer.truncated = true;
}

bool has_content(const LiveAnswer& answer) {
    return !answer.text.empty() || !answer.thinking.empty() || !answer.calls.empty();
}

/// Returns the text from a position on; nothing if the position is not one of it.
std::optional<std::string_view> after(std::string_view text, std::size_t begin,
                                      std::size_t position) {
    if (position < begin || position - begin > text.size()) return std::nullopt;
    text.remove_prefix(position - begin);
    if (!text.empty() && is_continuation(text.front())) return std::nullopt;
    return text;
}

constexpr std::size_t longest_session = 1'024;
/// Parts of an answer that arrive within this time are one event: a browser draws no more often.
constexpr std::chrono::milliseconds pause{40};
/// The interval of comments that show the client, and the proxies before it, that the stream is alive.
constexpr std::chrono::seconds heartbeat{15};
constexpr const char* comment = ":\n\n";
constexpr const char* reconnect_after = "retry: 1000\n\n";

struct LiveCalls {
    std::vector<HistoryCall> calls = {};
};

std::string event_text(std::string_view name, const JsonObject& data, const std::string& position) {
    std::string text;
    if (!position.empty()) text = "id: " + position + "\n";
    return text + server_sent_event(name, json_text(data));
}

/// The state of a stream, which the coroutine that writes it shares with nothing else.
struct LiveStream {
    std::shared_ptr<LiveAnswers> answers;
    std::shared_ptr<LiveAnswers::Watch> watch;
    std::string session;
    LivePosition position;
    LiveLists lists;  ///< which the client knows or reads next
    LiveReader reader;
    std::stop_token closed;

    bool is_over() const {
        return closed.stop_requested() || reader.ended.stop_requested() || answers->is_closed();
    }
    std::string take();
};

/// Returns the events that follow the position; empty: none.
std::string LiveStream::take() {
    std::string events;
    const LiveLists now = answers->lists();
    if (now.questions != lists.questions) events += event_text("questions", JsonObject(), "");
    if (now.sessions != lists.sessions) events += event_text("sessions", JsonObject(), "");
    lists = now;
    if (session.empty()) return events;
    LiveUpdate update = answers->read(session, position);
    const std::string id = position.answer.empty() ? std::string() : position.to_string();
    if (update.whole) events += event_text("live", to_json(*update.whole), id);
    if (!update.text.empty() || !update.thinking.empty()) {
        JsonObject delta;
        if (!update.thinking.empty()) delta["thinking"] = update.thinking;
        if (!update.text.empty()) delta["text"] = update.text;
        events += event_text("delta", delta, id);
    }
    if (update.calls) {
        LiveCalls calls;
        calls.calls = std::move(*update.calls);
        events += event_text("calls", to_json(calls), id);
    }
    // Last: a page that reads the history because of it has the end of the answer.
    if (update.has_changed) events += event_text("changed", JsonObject(), "");
    return events;
}

Task<> write_events(std::shared_ptr<LiveStream> stream, ResponseStream* out) {
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    const std::shared_ptr<LiveAnswers::Watch> watch = stream->watch;
    const auto wake = [watch] { watch->changed.set(); };
    const std::stop_callback on_close(stream->closed, wake);
    const std::stop_callback on_end(stream->reader.ended, wake);
    std::string events = reconnect_after;
    co_await out->write(std::move(events));
    Clock::time_point next = deadline_after(clock->now(), heartbeat);
    while (!stream->is_over()) {
        if (clock->now() >= next) {
            if (stream->reader.is_valid && !stream->reader.is_valid()) co_return;
            next = deadline_after(clock->now(), heartbeat);
            std::string alive = comment;
            co_await out->write(std::move(alive));
        }
        watch->changed.reset();
        events = stream->take();
        if (!events.empty()) {
            co_await out->write(std::move(events));
            co_await clock->sleep_for(pause);
            continue;
        }
        Task<> waiting = watch->changed.wait();
        Task<bool> limited = detail::run_until(*clock, next, std::move(waiting));
        (void)co_await std::move(limited);
    }
}

}  // namespace

bool shorten(std::string& text, std::size_t limit) {
    if (text.size() <= limit) return false;
    text.resize(complete_utf8_prefix(std::string_view(text).substr(0, limit)));
    return true;
}

std::string LivePosition::to_string() const {
    return answer + "." + std::to_string(text) + "." + std::to_string(thinking);
}

LivePosition LivePosition::parse(const std::string& text) {
    LivePosition position;
    constexpr std::size_t longest = 100;
    const std::size_t second = text.rfind('.');
    if (text.size() > longest || second == std::string::npos || second == 0) return position;
    const std::size_t first = text.rfind('.', second - 1);
    if (first == std::string::npos) return position;
    const auto of_text = detail::parsed_number<std::size_t>(
        std::string_view(text).substr(first + 1, second - first - 1));
    const auto of_thinking =
        detail::parsed_number<std::size_t>(std::string_view(text).substr(second + 1));
    if (!of_text || !of_thinking) return position;
    position.answer = text.substr(0, first);
    position.text = *of_text;
    position.thinking = *of_thinking;
    // Of a reader who shows something that may be stored by now.
    position.has_content = true;
    return position;
}

LiveAnswers::LiveAnswers()
    : process_(detail::sha256_hex(Runtime::standard()->ids->next()).substr(0, 12)) {}

void LiveAnswers::begin_message(Entry& entry) {
    entry.answer.text.clear();
    entry.answer.thinking.clear();
    entry.answer.truncated = false;
    entry.text_begin = 0;
    entry.thinking_begin = 0;
    entry.name = process_ + "-" + std::to_string(++messages_);
}

void LiveAnswers::follow(const std::shared_ptr<LiveAnswers>& answers,
                         const std::shared_ptr<Agent>& agent, std::string session) {
    {
        const std::lock_guard lock(answers->mutex_);
        std::erase_if(answers->entries_,
                      [](const auto& one) { return one.second.agent.expired(); });
        Entry& entry = answers->entries_[session];
        entry = Entry();
        entry.agent = agent;
        answers->begin_message(entry);
        answers->wake(session);
        wake(answers->sessions_watch_);
    }
    agent->subscribe([answers, session = std::move(session)](const AgentEvent& event) {
        answers->note(session, event);
    });
}

void LiveAnswers::end(const std::string& session) {
    const std::lock_guard lock(mutex_);
    entries_.erase(session);
    wake(session);
    wake(sessions_watch_);
}

std::optional<LiveAnswer> LiveAnswers::find(const std::string& session) const {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(session);
    if (found == entries_.end() || found->second.agent.expired()) return std::nullopt;
    if (!has_content(found->second.answer)) return std::nullopt;
    return found->second.answer;
}

void LiveAnswers::note(const std::string& session, const AgentEvent& event) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(session);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    LiveAnswer& answer = entry.answer;
    if (const std::string_view* const text = event.text_delta()) {
        append(answer, answer.text, entry.text_begin, *text);
    } else if (const std::string_view* const thinking = event.thinking_delta()) {
        append(answer, answer.thinking, entry.thinking_begin, *thinking);
    } else if (event.get_if<MessageStartEvent>()) {
        begin_message(entry);
    } else if (event.get_if<MessageEndEvent>()) {
        // A complete message is stored, and therefore in the history.
        begin_message(entry);
        const auto changes = changes_.find(session);
        if (changes != changes_.end()) ++changes->second;
        // Also of a call whose question was answered.
        wake(sessions_watch_);
    } else if (const auto* const start = event.get_if<ToolExecutionStartEvent>()) {
        if (answer.calls.size() >= most_calls) return;
        HistoryCall& call = answer.calls.emplace_back();
        call.id = start->tool_call_id.str();
        call.name = start->tool_name.str();
        call.arguments = boost::json::serialize(start->args);
        (void)shorten(*call.arguments, longest_arguments);
        ++entry.calls;
        wake(sessions_watch_);
    } else if (const auto* const done = event.get_if<ToolExecutionEndEvent>()) {
        std::erase_if(answer.calls, [done](const HistoryCall& call) {
            return call.id == done->tool_call_id.str();
        });
        ++entry.calls;
    } else {
        return;
    }
    wake(session);
}

void LiveAnswers::wake(const std::weak_ptr<Watch>& watching) {
    std::shared_ptr<Watch> watch = watching.lock();
    if (!watch || watch->is_posted.exchange(true)) return;
    const Executor executor = watch->executor;
    boost::asio::post(executor, [watch = std::move(watch)] {
        watch->is_posted = false;
        watch->changed.set();
    });
}

/// Without a reader, this is a search in an empty map.
void LiveAnswers::wake(const std::string& session) {
    const auto [first, last] = watches_.equal_range(session);
    for (auto at = first; at != last; ++at) wake(at->second);
}

void LiveAnswers::forget_readers() {
    std::erase_if(watches_, [](const auto& one) { return one.second.expired(); });
    std::erase_if(changes_, [this](const auto& one) { return !watches_.contains(one.first); });
}

std::shared_ptr<LiveAnswers::Watch> LiveAnswers::watch(const std::string& session,
                                                       Executor executor) {
    const auto made = std::make_shared<Watch>(std::move(executor));
    const std::lock_guard lock(mutex_);
    forget_readers();
    watches_.emplace(session, made);
    changes_.try_emplace(session, 1);
    return made;
}

LiveUpdate LiveAnswers::read(const std::string& session, LivePosition& position) const {
    LiveUpdate update;
    const std::lock_guard lock(mutex_);
    const auto changes = changes_.find(session);
    if (changes != changes_.end() &&
        std::exchange(position.changes, changes->second) != changes->second)
        update.has_changed = true;
    const auto found = entries_.find(session);
    const bool is_running = found != entries_.end() && !found->second.agent.expired();
    const Entry none;
    const Entry& entry = is_running ? found->second : none;
    const LiveAnswer& answer = entry.answer;
    std::optional<std::string_view> text;
    std::optional<std::string_view> thinking;
    if (is_running && position.answer == entry.name) {
        text = after(answer.text, entry.text_begin, position.text);
        thinking = after(answer.thinking, entry.thinking_begin, position.thinking);
    }
    if (text && thinking) {
        update.text = *text;
        update.thinking = *thinking;
        if (position.calls != entry.calls) update.calls = answer.calls;
    } else if (position.has_content || has_content(answer)) {
        update.whole = answer;
    }
    position.answer = entry.name;
    position.text = entry.text_begin + answer.text.size();
    position.thinking = entry.thinking_begin + answer.thinking.size();
    position.calls = entry.calls;
    position.has_content = has_content(answer);
    return update;
}

LiveLists LiveAnswers::lists() const {
    const std::lock_guard lock(mutex_);
    return lists_;
}

std::shared_ptr<LiveAnswers::Watch> LiveAnswers::watch_sessions(Executor executor) {
    auto made = std::make_shared<Watch>(std::move(executor));
    const std::lock_guard lock(mutex_);
    sessions_watch_ = made;
    return made;
}

bool LiveAnswers::has_readers() const {
    const std::lock_guard lock(mutex_);
    return std::any_of(watches_.begin(), watches_.end(),
                       [](const auto& one) { return !one.second.expired(); });
}

void LiveAnswers::list_changed(bool questions, bool sessions) {
    if (!questions && !sessions) return;
    const std::lock_guard lock(mutex_);
    lists_.questions += questions ? 1 : 0;
    lists_.sessions += sessions ? 1 : 0;
    for (const auto& one : watches_) wake(one.second);
}

void LiveAnswers::touch(const std::string& session) {
    const std::lock_guard lock(mutex_);
    wake(sessions_watch_);
    const auto changes = changes_.find(session);
    if (changes == changes_.end()) return;
    ++changes->second;
    wake(session);
}

void LiveAnswers::close() {
    is_closed_ = true;
    const std::lock_guard lock(mutex_);
    forget_readers();
    for (const auto& one : changes_) wake(one.first);
}

void LiveObserver::touch(const bub::Envelope& message) const noexcept {
    try {
        answers_->touch(message.session_id.value_or(bub::default_session(message)));
    } catch (...) {
        // Without memory for the name, the readers see it with the next change.
    }
}

void LiveObserver::received(const bub::Envelope& message) noexcept {
    if (next_) next_->received(message);
    touch(message);
}

void LiveObserver::turn_ended(const bub::EndedTurn& turn) noexcept {
    if (next_) next_->turn_ended(turn);
    touch(turn.message);
}

HttpServerResponse live_events(std::shared_ptr<LiveAnswers> answers,
                               const HttpServerRequest& request, Executor executor,
                               LiveReader reader) {
    const std::string session(request.parameter("id"));
    if (!answers || session.size() > longest_session)
        return HttpServerResponse::error(400, "the id of the session is too long");
    auto stream = std::make_shared<LiveStream>();
    stream->watch = answers->watch(session, std::move(executor));
    stream->lists = answers->lists();
    stream->answers = std::move(answers);
    stream->session = session;
    // A browser that connects again by itself has the newer one in the header.
    std::string position(request.headers.get("last-event-id"));
    const std::string_view encoded = detail::query_value(request.query, "after").value_or("");
    if (position.empty()) position = detail::percent_decoded(encoded).value_or(std::string());
    stream->position = LivePosition::parse(position);
    stream->reader = std::move(reader);
    stream->closed = request.closed;
    HttpServerResponse response = HttpServerResponse::events(
        [stream](ResponseStream& out) { return write_events(stream, &out); });
    response.headers.set("x-content-type-options", "nosniff");
    // nginx would collect the events.
    response.headers.set("x-accel-buffering", "no");
    return response;
}

}  // namespace cubepi::app
