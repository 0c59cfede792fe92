#include "chat_view.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>
#include <utility>

#include <cubepi/core/stream_event.hpp>
#include <cubepi/provider/cost.hpp>

#include "text_width.hpp"

namespace cubepi::app {

namespace {

constexpr std::array<const char*, 10> frames{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
constexpr std::chrono::milliseconds frame_time(120);
constexpr std::size_t kept_cards = 20;
constexpr std::size_t kept_text = 64 * 1024;
constexpr std::size_t full_lines = 40;

std::string seconds(std::chrono::steady_clock::duration time) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(1) << std::chrono::duration<double>(time).count()
         << " s";
    return text.str();
}

std::string grouped(std::int64_t number) {
    std::string digits = std::to_string(number);
    for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
    return digits;
}

std::string arguments_text(const JsonObject& args) {
    std::string text;
    for (const auto& [key, value] : args) {
        if (!text.empty()) text += ", ";
        text +=
            std::string(key) + ": " +
            (value.is_string() ? std::string(value.get_string()) : boost::json::serialize(value));
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(printable(line));
    return lines;
}

}  // namespace

ChatView::ChatView(Console& console, Clock& clock, Executor executor)
    : console_(console),
      clock_(clock),
      style_(console.style()),
      timer_(clock.timer(std::move(executor))),
      markdown_(style_, [this](std::string_view text) { markdown_out_ += text; }) {}

ChatView::~ChatView() { timer_->cancel(); }

void ChatView::introduce(std::string model, std::string session,
                         std::shared_ptr<const Model> priced) {
    model_ = std::move(model);
    session_ = std::move(session);
    priced_ = std::move(priced);
    refresh();
}

void ChatView::echo(std::string_view text, std::string_view remark) {
    end_text();
    std::string shown = std::string(style_.bold()) + "> " + std::string(style_.off());
    for (const char c : printable(text)) {
        shown += c;
        if (c == '\n') shown += "  ";
    }
    if (!remark.empty()) {
        shown += std::string(style_.dim()) + "  (" + std::string(remark) + ")" +
                 std::string(style_.off());
    }
    console_.print(shown + "\n");
}

void ChatView::begin_turn() {
    busy_ = true;
    turn_begun_ = clock_.now();
    console_.set_busy(true);
    wait_for("waiting for the model");
    tick();
}

void ChatView::end_turn() {
    end_text();
    busy_ = false;
    last_turn_ = clock_.now() - turn_begun_;
    timer_->cancel();
    waiting_for_.clear();
    running_.clear();
    order_.clear();
    console_.set_busy(false);
    refresh();
}

void ChatView::wait_for(std::string what) {
    if (waiting_for_ == what) return;
    waiting_for_ = std::move(what);
    waiting_since_ = clock_.now();
    refresh();
}

void ChatView::tick() {
    ++frame_;
    refresh();
    if (busy_) timer_->expires_after(frame_time, [this] { tick(); });
}

std::string ChatView::status_text() const {
    std::string text;
    // What is cut off where there is no room is what does not change.
    if (busy_) text = "Esc stops · " + seconds(clock_.now() - turn_begun_) + " · ";
    text += model_;
    if (!session_.empty()) text += " · " + session_;
    if (tokens_in_ > 0 || tokens_out_ > 0)
        text += " · " + grouped(tokens_in_) + " in, " + grouped(tokens_out_) + " out";
    if (cost_known_ && cost_ > 0) text += " · " + money_text(cost_);
    if (!busy_ && last_turn_.count() > 0) text += " · " + seconds(last_turn_);
    return text;
}

void ChatView::refresh() {
    std::vector<std::string> lines;
    const std::string sign =
        std::string(style_.cyan()) + frames.at(frame_ % frames.size()) + std::string(style_.off());
    for (const std::string& id : order_) {
        const auto card = running_.find(id);
        if (card == running_.end()) continue;
        const std::string time = "  " + seconds(clock_.now() - card->second.begun);
        const std::size_t room = console_.columns() > 30 ? console_.columns() - 16 : 14;
        lines.push_back(sign + " " + cut_to_width(card->second.title, room) +
                        std::string(style_.dim()) + time + std::string(style_.off()));
    }
    if (order_.empty() && busy_ && !waiting_for_.empty()) {
        lines.push_back(sign + " " + std::string(style_.dim()) + waiting_for_ + "  " +
                        seconds(clock_.now() - waiting_since_) + std::string(style_.off()));
    }
    for (const std::string& text : waiting_) {
        lines.push_back(std::string(style_.dim()) + "↳ " + one_line(text, console_.columns()) +
                        std::string(style_.off()));
    }
    console_.set_live(std::move(lines));
    console_.set_status(status_text());
}

void ChatView::set_waiting(std::vector<std::string> texts) {
    waiting_ = std::move(texts);
    refresh();
}

void ChatView::add_text(std::string_view delta) {
    end_thinking();
    if (!std::exchange(answering_, true)) waiting_for_.clear();
    markdown_.add(delta);
    console_.print(std::exchange(markdown_out_, {}));
}

void ChatView::end_text() {
    end_thinking();
    if (!std::exchange(answering_, false)) return;
    markdown_.finish();
    console_.print(std::exchange(markdown_out_, {}));
    console_.end_line();
}

void ChatView::end_thinking() {
    if (thinking_ == 0) return;
    console_.print(std::string(style_.dim()) + "… thought for " +
                   std::to_string(std::exchange(thinking_, 0)) + " characters" +
                   std::string(style_.off()) + "\n");
}

void ChatView::note(std::string_view text) {
    end_text();
    console_.print(std::string(style_.dim()) + printable(text) + std::string(style_.off()) + "\n");
}

void ChatView::problem(std::string_view text) {
    end_text();
    console_.print(std::string(style_.red()) + printable(text) + std::string(style_.off()) + "\n");
}

void ChatView::on_event(const AgentEvent& event) {
    if (const StreamEvent* stream = event.stream_event()) return on_stream(*stream);
    if (const auto* start = event.get_if<ToolExecutionStartEvent>()) {
        end_text();
        Card card;
        card.title = std::string(style_.bold()) + start->tool_name.str() +
                     std::string(style_.off()) + " " + one_line(arguments_text(start->args), 500);
        card.begun = event.timestamp;
        order_.push_back(start->tool_call_id);
        running_[start->tool_call_id] = std::move(card);
        return refresh();
    }
    if (const auto* end = event.get_if<ToolExecutionEndEvent>())
        return on_tool_end(*end, event.timestamp);
    if (const auto* ended = event.get_if<MessageEndEvent>()) return on_message_end(ended->message);
    if (const auto* notice = event.get_if<NoticeEvent>()) {
        end_text();
        console_.print(std::string(style_.yellow()) + "! " + std::string(style_.off()) +
                       one_line(notice->notice.text, 300) + "\n");
        if (notice->notice.code == "retry") wait_for("waiting to try again");
        return;
    }
    if (event.type() == AgentEventType::turn_start) wait_for("waiting for the model");
}

void ChatView::on_stream(const StreamEvent& event) {
    switch (event.type) {
        case StreamEventType::thinking_delta:
            thinking_ += event.delta.size();
            return wait_for("thinking");
        case StreamEventType::text_delta: return add_text(event.delta);
        case StreamEventType::text_end: return end_text();
        default: return;
    }
}

void ChatView::on_message_end(const Message& message) {
    end_text();
    const AssistantMessage* answer = message.assistant();
    if (!answer || !answer->usage) return;
    const Usage& usage = *answer->usage;
    tokens_in_ += usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0) +
                  usage.cache_write_tokens.value_or(0);
    tokens_out_ += usage.output_tokens.value_or(0);
    const std::optional<double> cost = priced_ ? cost_of(*answer, *priced_) : std::nullopt;
    cost_known_ = cost_known_ && cost;
    if (cost) cost_ += *cost;
    refresh();
}

void ChatView::on_tool_end(const ToolExecutionEndEvent& event,
                           std::chrono::steady_clock::time_point now) {
    end_text();
    Card card;
    const auto running = running_.find(event.tool_call_id);
    if (running == running_.end()) {
        card.title = std::string(style_.bold()) + event.tool_name.str() + std::string(style_.off());
    } else {
        card = std::move(running->second);
        card.time = seconds(now - card.begun);
        running_.erase(running);
    }
    std::erase(order_, event.tool_call_id);
    card.failed = event.is_error;
    card.text = event.result.text();
    if (card.text.size() > kept_text) card.text.resize(kept_text);
    print_card(card, details_);
    finished_.push_back(std::move(card));
    if (finished_.size() > kept_cards) finished_.pop_front();
    wait_for("waiting for the model");
    refresh();
}

void ChatView::print_card(const Card& card, bool full) {
    const std::size_t width = std::max<std::size_t>(console_.columns(), 20);
    const std::vector<std::string> lines = lines_of(card.text);
    std::string out = std::string(style_.cyan()) + "● " + std::string(style_.off()) +
                      cut_to_width(card.title, width - 3) + std::string(style_.off()) + "\n";
    out += std::string(card.failed ? style_.red() : style_.green()) +
           (card.failed ? "  ✗ " : "  ✓ ") + std::string(style_.off()) + std::string(style_.dim());
    std::string tail = card.time.empty() ? "" : "  " + card.time;
    const std::size_t shown = full ? std::min(lines.size(), full_lines) : 1;
    if (lines.size() > shown) {
        tail = "  (+" + std::to_string(lines.size() - shown) +
               (lines.size() - shown == 1 ? " line)" : " lines)") + tail;
    }
    if (!full) {
        const std::size_t room = width > tail.size() + 8 ? width - tail.size() - 6 : 10;
        const std::size_t text = lines.empty() ? 0 : lines.front().find_first_not_of(" \t");
        out += lines.empty() || text == std::string::npos
                   ? "done"
                   : one_line(lines.front().substr(text), room);
    } else {
        for (std::size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : "\n    ") + lines[i];
    }
    console_.print(out + tail + std::string(style_.off()) + "\n");
}

void ChatView::toggle_details() {
    details_ = !details_;
    end_text();
    note(details_ ? "Tool results are shown in full (Ctrl-O folds them)."
                  : "Tool results are folded (Ctrl-O shows them).");
    if (details_ && !finished_.empty()) print_card(finished_.back(), true);
}

}  // namespace cubepi::app
