#include "chat_view.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include <cubepi/core/number_text.hpp>
#include <cubepi/core/stream_event.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/provider/cost.hpp>

#include "../failure.hpp"
#include "event_text.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::milliseconds frame_time(120);
constexpr std::chrono::milliseconds background_time(1000);
constexpr std::size_t saved_cards = 20;
constexpr std::size_t saved_text = 64 * 1024;
constexpr std::size_t full_lines = 40;
constexpr std::size_t folded_diff_lines = 12;
constexpr std::size_t live_lines = 4;      // of a running command
constexpr std::size_t tail_lines = 8;      // of one that has ended
constexpr std::size_t whole_output = 200;  // lines of a command of the user that are all printed
constexpr std::size_t output_end = 40;     // lines that are printed of a longer one
constexpr std::size_t longest_thought = std::size_t{1} << 20;
constexpr std::size_t echoed_lines = 12;
constexpr std::size_t longest_name = 80;

struct StatusPart {
    TerminalText text = {};
    int weight = 0;  ///< on a narrow line the lightest ones are dropped
};

/// The dangerous mode is red. The line itself is dim.
TerminalText mode_text(ApprovalMode mode, const Style& style, bool narrow) {
    TerminalText text = (narrow ? TerminalView() : TerminalView("mode ")) + name_of(mode);
    if (mode == ApprovalMode::all) text = style.red() + text + style.off() + style.dim();
    return text;
}

/// The words of a failed command by which its sandbox shows; empty: there are none.
std::string sandbox_refusal(const ToolExecutionEndEvent& event) {
    const JsonObject* const details = event.result.details.if_object();
    return details ? std::string(detail::string_member(*details, "sandbox_refusal"))
                   : std::string();
}

TerminalText context_share(std::int64_t used, std::int64_t window) {
    const std::int64_t percent = 100 * used / window;
    return percent == 0 ? TerminalText("context <1%")
                        : "context " + TerminalText::number(percent) + "%";
}

TerminalText fit_status(std::vector<StatusPart> parts, std::size_t columns) {
    for (;;) {
        TerminalText text;
        for (const StatusPart& part : parts)
            text += (text.empty() ? TerminalView() : TerminalView(" · ")) + part.text;
        if (parts.size() < 2 || display_width(text) <= columns) return text;
        parts.erase(std::min_element(
            parts.begin(), parts.end(),
            [](const StatusPart& a, const StatusPart& b) { return a.weight < b.weight; }));
    }
}

std::vector<TerminalText> lines_of(const std::string& text) {
    std::vector<TerminalText> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(for_terminal(line));
    return lines;
}

}  // namespace

ChatView::ChatView(Console& console, Clock& clock, Executor executor)
    : console_(console),
      clock_(clock),
      style_(console.style()),
      timer_(clock.timer(std::move(executor))),
      markdown_(style_, [this](TerminalView text, Flow flow) {
          if (markdown_out_.empty() || markdown_out_.back().flow != flow)
              markdown_out_.push_back(Piece{{}, flow});
          markdown_out_.back().text += text;
      }) {}

ChatView::~ChatView() { timer_->cancel(); }

void ChatView::show_model(std::string model, std::shared_ptr<const Model> priced) {
    model_ = std::move(model);
    priced_ = std::move(priced);
    refresh();
}

void ChatView::introduce(std::string model, std::string session,
                         std::shared_ptr<const Model> priced) {
    model_ = std::move(model);
    session_ = std::move(session);
    priced_ = std::move(priced);
    refresh();
}

void ChatView::show_location(std::string place) {
    place_ = std::move(place);
    refresh();
}

void ChatView::show_mode(ApprovalMode mode) {
    mode_ = mode;
    refresh();
}

void ChatView::name_session(std::string session) {
    session_ = std::move(session);
    refresh();
}

void ChatView::begin_session(std::string session) {
    session_ = std::move(session);
    items_.clear();
    context_ = tokens_in_ = tokens_out_ = 0;
    cost_ = 0;
    cost_known_ = true;
    last_turn_ = {};
    tasks_.clear();
    refresh();
}

void ChatView::echo(std::string_view text, TerminalView remark) {
    end_text();
    const std::vector<TerminalText> lines = lines_of(std::string(text));
    TerminalText shown = style_.bold() + "> " + style_.off();
    // The beginning identifies a long block.
    const std::size_t last = lines.size() > echoed_lines + 1 ? echoed_lines : lines.size();
    for (std::size_t i = 0; i < last; ++i)
        shown += (i == 0 ? TerminalView() : TerminalView("\n  ")) + lines[i];
    if (last < lines.size()) {
        shown += "\n  " + style_.dim() + "… and " + TerminalText::number(lines.size() - last) +
                 " more lines" + style_.off();
    }
    if (!remark.empty()) {
        shown += style_.dim() + "  (" + remark + ")" + style_.off();
    }
    console_.print(shown + "\n");
}

void ChatView::begin_turn() {
    busy_ = true;
    replaying_ = false;
    turn_begun_ = clock_.now();
    if (waited_) waited_before_ = waited_();
    console_.set_busy(true);
    console_.attention().set_working(true);
    wait_for("waiting for the model");
    tick();
}

void ChatView::end_turn() {
    end_text();
    busy_ = false;
    last_turn_ = turn_time();
    timer_->cancel();
    waiting_for_ = {};
    retry_at_.reset();
    print_stopped_cards();
    accepted_.clear();
    edits_.clear();
    console_.set_busy(false);
    console_.attention().set_working(false);
    console_.attention().notify("cubepi has answered");
    tick();
}

void ChatView::leave_out(std::function<std::chrono::steady_clock::duration()> waited) {
    waited_ = std::move(waited);
}

std::chrono::steady_clock::duration ChatView::turn_time() const {
    const std::chrono::steady_clock::duration time = clock_.now() - turn_begun_;
    return waited_ ? time - (waited_() - waited_before_) : time;
}

void ChatView::wait_for(TerminalView what) {
    if (!busy_) return;
    waiting_for_ = what;
    waiting_since_ = clock_.now();
    retry_at_.reset();
    refresh();
}

void ChatView::wait_to_retry(const JsonObject& details) {
    wait_for("waiting to retry");
    // Nothing is reported when the request is sent again.
    const std::int64_t delay = detail::integer_member(details, "delay_ms").value_or(0);
    retry_at_ = clock_.now() + std::chrono::milliseconds(delay);
}

void ChatView::tick() {
    ++frame_;
    if (retry_at_ && clock_.now() >= *retry_at_) wait_for("waiting for the model");
    refresh();
    // A command in the background ends at any time.
    const bool watches = commands_ && commands_() > 0;
    if (busy_ || watches)
        timer_->expires_after(busy_ ? frame_time : background_time, [this] { tick(); });
}

TerminalText ChatView::status_text() const {
    std::vector<StatusPart> parts;
    const auto add = [&](TerminalText text, int weight) {
        if (!text.empty()) parts.push_back(StatusPart{std::move(text), weight});
    };
    if (busy_) add(TerminalView("Esc stops"), 8);
    if (busy_) add(for_terminal(rounded_seconds_text(turn_time())), 7);
    const bool narrow = console_.columns() < 60;
    if (mode_) add(mode_text(*mode_, style_, narrow), 9);
    if (const std::size_t count = commands_ ? commands_() : 0; count > 0)
        add(TerminalText::number(count) +
                (count == 1 ? TerminalView(" command runs") : TerminalView(" commands run")),
            8);
    if (priced_ && priced_->context_window.value_or(0) > 0 && context_ > 0)
        add(context_share(context_, *priced_->context_window), 6);
    add(line_for_terminal(model_, longest_name), 5);
    add(line_for_terminal(session_, longest_name), 1);
    // On a narrow screen the name of the directory is enough.
    const std::size_t name = narrow ? place_.rfind('/', place_.find(" (")) : std::string::npos;
    add(line_for_terminal(name == std::string::npos ? place_ : place_.substr(name + 1),
                          longest_name),
        3);
    if (cost_known_ && cost_ > 0) add(for_terminal(money_text(cost_)), 4);
    const auto number = [narrow](std::int64_t count) {
        return for_terminal(narrow ? short_count_text(count) : count_text(count));
    };
    if (tokens_in_ > 0 || tokens_out_ > 0)
        add(number(tokens_in_) + " in, " + number(tokens_out_) + " out", 2);
    if (!busy_ && last_turn_.count() > 0) add(for_terminal(rounded_seconds_text(last_turn_)), 1);
    return fit_status(std::move(parts), console_.status_columns());
}

void ChatView::refresh() {
    std::vector<TerminalText> lines;
    const TerminalText sign =
        style_.cyan() + progress_frames.at(frame_ % progress_frames.size()) + style_.off();
    for (const std::string& id : order_) {
        const auto card = running_.find(id);
        if (card == running_.end() || card->second.asks) continue;
        TerminalText time = for_terminal(rounded_seconds_text(clock_.now() - card->second.begun));
        if (!card->second.work.empty()) time = for_terminal(card->second.work) + "  " + time;
        const std::size_t used = display_width(time) + 12;
        const std::size_t width = console_.columns() > used + 14 ? console_.columns() - used : 14;
        lines.push_back(sign + " " + shortened(card->second.title, width) + style_.dim() + "  " +
                        time + style_.off());
        add_live_lines(lines, card->second);
    }
    if (order_.empty() && busy_ && !waiting_for_.empty() && !console_.asking()) {
        lines.push_back(sign + " " + style_.dim() + waiting_for_ + "  " +
                        for_terminal(rounded_seconds_text(clock_.now() - waiting_since_)) +
                        style_.off());
    }
    if (markdown_.held_rows() > 1) {
        lines.push_back(sign + " " + style_.dim() + "a table, " +
                        TerminalText::number(markdown_.held_rows()) + " lines so far" +
                        style_.off());
    }
    for (TerminalText& line : task_lines(tasks_, style_, console_.columns() - 1))
        lines.push_back(std::move(line));
    for (const std::string& text : waiting_) {
        const bool more = text.find('\n') != std::string::npos;
        const TerminalText line =
            line_for_terminal(text, 500) + (more ? TerminalView(" …") : TerminalView());
        lines.push_back(style_.dim() + "↳ " + shortened(line, console_.columns() - 3) +
                        style_.off());
    }
    if (!idle_work_.empty()) lines.push_back(style_.dim() + idle_work_ + style_.off());
    console_.set_live(std::move(lines));
    console_.set_status(status_text());
}

void ChatView::show_work(TerminalText what) {
    idle_work_ = std::move(what);
    refresh();
}

void ChatView::set_tasks(std::vector<SubagentTask> tasks) {
    tasks_ = std::move(tasks);
    refresh();
}

void ChatView::set_waiting(std::vector<std::string> texts) {
    waiting_ = std::move(texts);
    refresh();
}

void ChatView::add_text(std::string_view delta) {
    end_thinking();
    if (!std::exchange(answering_, true)) waiting_for_ = {};
    markdown_.set_columns(console_.columns());
    const std::size_t held = markdown_.held_rows();
    markdown_.add(delta);
    print_markdown();
    if (held != markdown_.held_rows()) refresh();
}

void ChatView::print_markdown() {
    for (const Piece& piece : std::exchange(markdown_out_, {}))
        console_.print(piece.text, piece.flow);
}

void ChatView::end_text() {
    end_thinking();
    if (!std::exchange(answering_, false)) return;
    markdown_.finish();
    print_markdown();
    console_.end_line();
}

void ChatView::on_thinking(std::string_view delta) {
    if (!std::exchange(thinking_, true)) {
        thinking_since_ = clock_.now();
        wait_for("thinking");
        if (details_) console_.print(style_.dim());
    }
    if (thought_.size() < longest_thought) thought_ += delta;
    if (details_) {
        std::string whole;
        thinking_text_.push(delta, whole);
        console_.print(for_terminal(whole));
    }
}

void ChatView::end_thinking() {
    if (!std::exchange(thinking_, false)) return;
    console_.end_line();
    const TerminalText time = for_terminal(rounded_seconds_text(clock_.now() - thinking_since_));
    console_.print(style_.off() + style_.dim() + "… thought for " + time + style_.off() + "\n");
    PagerItem item;
    item.title = "… thought for " + time;
    item.is_prose = true;
    item.text = std::exchange(thought_, {});
    items_.add(std::move(item));
    thinking_text_ = Utf8Splitter();
}

void ChatView::note(std::string_view text) {
    end_text();
    console_.print(style_.dim() + for_terminal(text) + style_.off() + "\n");
}

void ChatView::problem(std::string_view text) {
    end_text();
    console_.print(style_.red() + "cubepi: " + for_terminal(text) + style_.off() + "\n");
}

void ChatView::on_event(const AgentEvent& event) {
    if (const StreamEvent* stream = event.stream_event()) return on_stream(*stream);
    edits_.note(event);
    if (const auto* start = event.get_if<ToolExecutionStartEvent>()) {
        end_text();
        Card card = begun_card(*start);
        if (const JsonObject* const edited = edits_.find(start->tool_call_id))
            show_edit(card, *edited);
        card.begun = event.timestamp;
        order_.push_back(start->tool_call_id);
        running_[start->tool_call_id] = std::move(card);
        return refresh();
    }
    if (const auto* update = event.get_if<ToolExecutionUpdateEvent>())
        return on_tool_update(*update);
    if (const auto* end = event.get_if<ToolExecutionEndEvent>())
        return on_tool_end(*end, event.timestamp);
    if (const auto* ended = event.get_if<MessageEndEvent>()) return on_message_end(ended->message);
    if (const auto* notice = event.get_if<NoticeEvent>()) {
        if (!shows_notice(notice->notice)) return;
        end_text();
        console_.print(style_.yellow() + "! " + style_.off() +
                       line_for_terminal(notice->notice.text, 300) + "\n");
        if (notice->notice.code == "retry") wait_to_retry(notice->notice.details);
        if (notice->notice.code == "context_overflow") wait_for("compacting the conversation");
        if (notice->notice.code == "compaction") {
            count_summary(notice->notice.details);
            wait_for("waiting for the model");
        }
        return;
    }
    if (event.type() == AgentEventType::turn_start) wait_for("waiting for the model");
}

ChatView::Card ChatView::begun_card(const ToolExecutionStartEvent& event) const {
    Card card;
    card.tool = event.tool_name.str();
    card.title = style_.bold() + spelled_out(tool_title(card.tool)) + style_.off();
    card.asks = event.tool_name == "ask_user";
    if (card.asks) card.asked = event.args;
    // Its list is shown when it is accepted, as questions are when they are asked.
    if (event.tool_name == "write_todos" || card.asks) return card;
    card.title += " " + line_for_terminal(call_text(event.tool_name.str(), event.args), 500);
    card.arguments = long_arguments_text(event.args);
    return card;
}

void ChatView::show_edit(Card& card, const JsonObject& arguments) const {
    card.title = style_.bold() + spelled_out(tool_title(card.tool)) + style_.off() +
                 style_.yellow() + " (edited)" + style_.off() + " " +
                 line_for_terminal(call_text(card.tool, arguments), 500);
    card.arguments = long_arguments_text(arguments);
}

void ChatView::on_stream(const StreamEvent& event) {
    switch (event.type) {
        case StreamEventType::thinking_delta: return on_thinking(event.delta);
        case StreamEventType::text_delta: return add_text(event.delta);
        case StreamEventType::text_end: return end_text();
        default: return;
    }
}

void ChatView::on_message_end(const Message& message) {
    end_text();
    if (is_goal_continuation(message)) return note(message.text());
    if (is_subagent_task_result(message)) {
        const std::string text = message.text();
        note(text.substr(0, text.find('\n')));
    }
    add_work(subagent_work(message));
    // The card has them, unless the question was not asked here.
    if (const ToolResultMessage* const result = message.tool_result(); result && !replaying_) {
        const JsonObject* const edited = edited_arguments(result->details);
        if (!edits_.take(result->tool_call_id) && edited)
            note("  edited: " + arguments_text(*edited));
    }
    const AssistantMessage* answer = message.assistant();
    if (!answer) return;
    const bool failed =
        answer->stop_reason == stop_reason::error || answer->stop_reason == stop_reason::aborted;
    const bool over = !failed && !is_paused(*answer);
    FailureContext context;
    context.in_chat = true;
    if (const auto incomplete = over ? incomplete_answer(*answer, context) : std::nullopt)
        problem(incomplete->text);
    if (!answer->usage) return;
    const Usage& usage = *answer->usage;
    context_ = usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0) +
               usage.cache_write_tokens.value_or(0) + usage.output_tokens.value_or(0);
    tokens_in_ = usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0) +
                 usage.cache_write_tokens.value_or(0);
    tokens_out_ = usage.output_tokens.value_or(0);
    const std::optional<double> cost = priced_ ? cost_of(*answer, *priced_) : std::nullopt;
    cost_known_ = cost_known_ && cost;
    if (cost) cost_ += *cost;
    refresh();
}

/// The cost includes the model call that summarized the conversation. The context is what the next request will have.
void ChatView::count_summary(const JsonObject& details) {
    const Json* spent = details.if_contains("usage");
    if (const auto after = detail::integer_member(details, "after")) context_ = *after;
    if (!spent || !spent->is_object()) return;
    const auto tokens = [usage = &spent->get_object()](std::string_view key) -> std::int64_t {
        return detail::integer_member(*usage, key).value_or(0);
    };
    const bool called = tokens("input_tokens") > 0 || tokens("cache_read_tokens") > 0 ||
                        tokens("cache_write_tokens") > 0 || tokens("output_tokens") > 0;
    if (!called) return;
    const Json* cost = details.if_contains("cost");
    cost_known_ = cost_known_ && cost;
    if (cost) cost_ += cost->to_number<double>();
    refresh();
}

/// The sums of a turn include the sub-agents whose results it has received.
void ChatView::add_work(const std::optional<SubagentWork>& work) {
    if (!work) return;
    tokens_in_ += work->tokens_in;
    tokens_out_ += work->tokens_out;
    cost_known_ = cost_known_ && work->cost;
    if (work->cost) cost_ += *work->cost;
    refresh();
}

void ChatView::count_work(const JsonObject& data) {
    if (const Json* const work = data.if_contains("subagent"))
        add_work(subagent_work(Json(JsonObject{{"subagent", *work}})));
}

void ChatView::on_tool_end(const ToolExecutionEndEvent& event,
                           std::chrono::steady_clock::time_point now) {
    end_text();
    Card card;
    const auto running = running_.find(event.tool_call_id);
    if (running == running_.end()) {
        card.tool = event.tool_name.str();
        card.title = style_.bold() + spelled_out(tool_title(card.tool)) + style_.off();
    } else {
        card = std::move(running->second);
        // A replayed card has no times.
        if (now > card.begun) card.time = rounded_seconds_text(now - card.begun);
        running_.erase(running);
    }
    std::erase(order_, event.tool_call_id);
    card = finished_card(event, std::move(card));
    card.diff_was_shown = accepted_.take(card.path, card.diff);
    if (!replaying_) add_to_pager(card, event);
    keep_card(std::move(card));
    wait_for("waiting for the model");
    refresh();
}

ChatView::Card ChatView::finished_card(const ToolExecutionEndEvent& event, Card card) const {
    if (const JsonObject* const edited = edited_arguments(event.result.details))
        show_edit(card, *edited);
    card.failed = event.is_error;
    card.text = event.result.text();
    const CommandOutput output = command_output(event, tail_lines);
    card.tail = output.tail;
    card.refusal = sandbox_refusal(event);
    card.earlier = output.earlier;
    if (card.text.size() > saved_text) card.text.resize(saved_text);
    card.outcome = outcome_text(event);
    if (const std::optional<SubagentWork> work = subagent_work(event.result.details))
        card.outcome = work_text(*work) + ": " + card.outcome;
    card.answers = answers_text(card.asked, event.result.details);
    if (!card.answers.empty()) card.text = card.answers;
    const DiffSource source = diff_source_of(event);
    card.diff = source.diff;
    card.path = source.path;
    card.todos = todos_set_by(event).value_or(std::vector<Todo>());
    card.hidden = source.hidden;
    return card;
}

void ChatView::add_to_pager(const Card& card, const ToolExecutionEndEvent& event) {
    PagerItem item;
    item.title =
        "● " + card.title + style_.off() + style_.dim() + "  " + for_terminal(card.outcome);
    item.is_diff = !card.diff.empty();
    item.path = card.path;
    item.text = item.is_diff            ? card.diff
                : !card.answers.empty() ? card.answers
                : !card.todos.empty()   ? todo_text(card.todos)
                                        : card.arguments + event.result.text();
    item.file = whole_output_file(event);
    items_.add(std::move(item));
}

void ChatView::on_tool_update(const ToolExecutionUpdateEvent& event) {
    const auto running = running_.find(event.tool_call_id);
    if (running == running_.end()) return;
    if (const std::optional<SubagentWork> work = subagent_work(event.partial_result)) {
        running->second.work = work_text(*work);
        running->second.tail = subagent_call(event.partial_result);
        return refresh();
    }
    const JsonObject* partial = event.partial_result.if_object();
    const Json* output = partial ? partial->if_contains("output") : nullptr;
    if (!output || !output->is_string()) return;
    running->second.tail = last_output_lines(output->get_string(), live_lines).tail;
    refresh();
}

/// Adds the last lines that a running command has printed.
void ChatView::add_live_lines(std::vector<TerminalText>& lines, const Card& card) const {
    const std::size_t width = console_.columns() > 20 ? console_.columns() - 5 : 15;
    std::vector<TerminalText> tail = lines_of(card.tail);
    // On a small screen the first line, with the command, has priority.
    const std::size_t fit = console_.rows() < 18 ? 2 : live_lines;
    if (tail.size() > fit) tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(fit));
    for (const TerminalText& line : tail)
        lines.push_back(style_.dim() + "  │ " + shortened(line, width) + style_.off());
}

void ChatView::remember(const AgentEvent& event) {
    if (const auto* start = event.get_if<ToolExecutionStartEvent>()) {
        running_[start->tool_call_id] = begun_card(*start);
        return;
    }
    const auto* end = event.get_if<ToolExecutionEndEvent>();
    const auto running = end ? running_.find(end->tool_call_id) : running_.end();
    if (running == running_.end()) return;
    const Card card = finished_card(*end, std::move(running->second));
    running_.erase(running);
    add_to_pager(card, *end);
}

void ChatView::remember_thinking(std::string text) {
    PagerItem item;
    item.title = TerminalView("… thought");
    item.is_prose = true;
    item.text = std::move(text);
    items_.add(std::move(item));
}

void ChatView::open_pager() {
    if (items_.all().empty()) return note("There are no results of tools in this session yet.");
    console_.open_screen(std::make_shared<Pager>(items_.whole().all(), style_));
}

void ChatView::show_output(std::string_view text, const JsonObject& details) {
    CommandOutput output = last_output_lines(text, output_end);
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    if (const Json* const printed = details.if_contains("output_lines");
        printed && printed->is_number()) {
        const auto all = printed->to_number<std::size_t>();
        output.earlier = std::max(output.earlier, all - std::min(all, output_end));
    }
    if (lines > 1) {
        PagerItem item;
        item.title = TerminalView("output of a command");
        item.text = text;
        item.file = detail::string_member(details, "output_file");
        items_.add(std::move(item));
    }
    if (lines <= whole_output) {
        console_.print(for_terminal(text));
    } else {
        console_.print(earlier_text(output.earlier) + for_terminal(output.tail));
    }
    console_.end_line();
}

/// After a stop the view does not wait for running tools, which report no result.
void ChatView::print_stopped_cards() {
    for (const std::string& id : std::exchange(order_, {})) {
        const auto running = running_.find(id);
        if (running == running_.end()) continue;
        Card card = std::move(running->second);
        card.time = rounded_seconds_text(clock_.now() - card.begun);
        card.failed = true;
        card.stopped = true;
        keep_card(std::move(card));
    }
    running_.clear();
}

void ChatView::keep_card(Card card) {
    print_card(card, details_);
    finished_.push_back(std::move(card));
    if (finished_.size() > saved_cards) finished_.pop_front();
}

void ChatView::print_card(const Card& card, bool full) {
    const std::size_t width = std::max<std::size_t>(console_.columns(), 20);
    const TerminalView dim = style_.dim();
    const TerminalView off = style_.off();
    console_.print(style_.cyan() + "● " + off + shortened(card.title, width - 3) + off + "\n");
    // The diff already contains the arguments of a change.
    if (full && card.diff.empty() && !card.arguments.empty()) print_lines(card.arguments);
    TerminalText tail;
    if (!card.time.empty()) tail = "  " + for_terminal(card.time);
    const std::size_t outcome_width =
        width > display_width(tail) + 15 ? width - display_width(tail) - 5 : 10;
    std::string outcome = card.outcome;
    if (outcome.empty()) outcome = card.stopped ? "stopped" : card.failed ? "failed" : "done";
    std::replace(outcome.begin(), outcome.end(), '\t', ' ');
    const TerminalText sign = card.failed ? style_.red() + "  ✗ " : style_.green() + "  ✓ ";
    // An error may take several rows.
    console_.print(
        sign + off + dim +
        shortened(for_terminal(outcome), card.failed ? outcome_width + 2 * width : outcome_width) +
        tail + off + "\n");
    if (!full) print_tail(card);
    if (!card.refusal.empty())
        console_.print("    " + style_.yellow() + "! " + style_.off() +
                       "the sandbox may be the reason (" + line_for_terminal(card.refusal, 60) +
                       "); to allow it once, tell the model to run it without the sandbox\n");
    const bool shows_diff = !card.diff.empty() && (full || !card.diff_was_shown);
    if (shows_diff) print_diff(card, full ? 0 : folded_diff_lines);
    if (!card.answers.empty())
        return console_.print(framed(card.answers, width, answer_frame), Flow::code);
    if (!card.todos.empty()) {
        console_.print(todo_view(card.todos, style_, width, full ? 0 : shown_todos), Flow::code);
    } else if (full && card.diff.empty()) {
        print_lines(card.text);
    }
}

TerminalText ChatView::earlier_text(std::size_t lines) const {
    if (lines == 0) return {};
    return "    " + style_.dim() + "… " +
           for_terminal(count_text(static_cast<std::int64_t>(lines))) +
           (lines == 1 ? TerminalView(" earlier line") : TerminalView(" earlier lines")) + " (" +
           for_terminal(KeyBindings::hint(KeyCode::unfold, "/help: pager")) + ")" + style_.off() +
           "\n";
}

/// Prints the last lines of the output of a command.
void ChatView::print_tail(const Card& card) {
    if (card.tail.empty()) return;
    const std::size_t width = console_.columns() > 20 ? console_.columns() - 5 : 15;
    TerminalText text = earlier_text(card.earlier) + style_.dim();
    for (const TerminalText& line : lines_of(card.tail))
        text += "    " + shortened(line, width) + "\n";
    console_.print(text + style_.off(), Flow::code);
}

void ChatView::print_diff(const Card& card, std::size_t max_lines) {
    const DiffSource source{card.diff, card.path, card.hidden};
    console_.print(diff_view(source, style_, max_lines).text, Flow::code);
}

/// Prints the part that a folded card hides.
void ChatView::print_lines(const std::string& text) {
    const std::vector<TerminalText> lines = lines_of(text);
    const std::size_t shown = std::min(lines.size(), full_lines);
    TerminalText out = style_.dim();
    for (std::size_t i = 0; i < shown; ++i) out += "    " + lines[i] + "\n";
    if (shown < lines.size())
        out += "    … and " + TerminalText::number(lines.size() - shown) + " more lines\n";
    console_.print(out + style_.off(), Flow::code);
}

void ChatView::toggle_details() {
    details_ = !details_;
    end_text();
    note(details_ ? "Tool results are shown in full (/details folds them)."
                  : "Tool results are folded (/details shows them, " +
                        KeyBindings::hint(KeyCode::unfold, "a key for pager") + " all of them).");
    if (details_ && !finished_.empty()) print_card(finished_.back(), true);
}

}  // namespace cubepi::app
