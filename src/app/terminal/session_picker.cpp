#include "session_picker.hpp"

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/task_scope.hpp>

#include "../transcript.hpp"
#include "console.hpp"
#include "event_text.hpp"
#include "keys.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

/// A shorter text is in most messages.
constexpr std::size_t shortest_search = 2;
constexpr std::size_t longest_heading = 200;

std::string messages_text(std::int64_t count) {
    return count_text(count) + (count == 1 ? " message" : " messages");
}

double unix_now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// Stops the search when the caller is cancelled: the worker would go through the whole session.
class StopAtEnd {
public:
    explicit StopAtEnd(std::shared_ptr<MessageSearch> search) : search_(std::move(search)) {}
    ~StopAtEnd() { search_->stopped = true; }
    StopAtEnd(const StopAtEnd&) = delete;
    StopAtEnd& operator=(const StopAtEnd&) = delete;

private:
    std::shared_ptr<MessageSearch> search_;
};

/// The picker is not drawn while a database does not answer, but its keys work.
Task<> stop_when_closed(std::shared_ptr<SessionPicker> picker, std::stop_source stop) {
    while (!picker->is_closed()) co_await picker->change();
    stop.request_stop();
}

/// Reads a session for the preview.
Task<std::string> conversation_text(std::shared_ptr<bub::SessionTapeStore> tapes,
                                    ListedSession session) {
    std::string text;
    try {
        const MessageList messages = co_await read_conversation(tapes, session.tape);
        text = to_markdown(messages, session.heading());
    } catch (const CheckpointerError& error) {
        text = std::string("cannot be read: ") + error.what();
    }
    co_return text;
}

/// Stores what the user has decided. The picker shows a failure.
Task<> make_change(std::shared_ptr<SessionPicker> picker, SessionPicker::Wanted wanted,
                   SavedSessions saved) {
    std::string problem;
    try {
        if (wanted.kind == SessionPicker::Wanted::Kind::title) {
            co_await set_session_title(saved.tapes(), wanted.session.tape, wanted.title);
        } else {
            // A session that older versions have stored has no directory.
            SavedSessions of_session =
                wanted.session.workspace.empty()
                    ? saved
                    : SavedSessions(saved.tapes(), saved.database(), wanted.session.workspace);
            const RemovedSession removed = co_await of_session.remove(wanted.session.name);
            if (removed.not_read) problem = exception_text(removed.not_read);
        }
    } catch (const Error& error) {
        problem = error.what();
    }
    if (wanted.kind == SessionPicker::Wanted::Kind::title) {
        picker->set_title(wanted.index, std::move(wanted.title), problem);
    } else {
        picker->set_removed(wanted.index, problem);
    }
}

/// Does what the picker wants. A session that cannot be searched has no match.
Task<> do_work(std::shared_ptr<SessionPicker> picker, SessionPicker::Wanted wanted,
               std::shared_ptr<bub::SessionTapeStore> tapes) {
    if (wanted.kind == SessionPicker::Wanted::Kind::details) {
        ListedSession loaded = co_await load_details(tapes, std::move(wanted.session));
        picker->set_details(wanted.index, std::move(loaded));
        co_return;
    }
    if (wanted.kind == SessionPicker::Wanted::Kind::conversation) {
        std::string text = co_await conversation_text(tapes, std::move(wanted.session));
        picker->set_conversation(wanted.index, std::move(text));
        co_return;
    }
    const StopAtEnd stop(wanted.search);
    std::optional<std::string> match;
    try {
        match = co_await search_messages(tapes, wanted.session.tape, wanted.search);
    } catch (const CheckpointerError&) {
    }
    if (!wanted.search->stopped) picker->set_match(wanted.index, *wanted.search, std::move(match));
}

/// Runs `work` until the picker is closed.
Task<> unless_closed(std::shared_ptr<SessionPicker> picker, Task<> work) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    BackgroundScope keys(executor);
    keys.spawn(stop_when_closed(picker, stop));
    Task<> cancellable = cancel_on(stop.get_token(), std::move(work));
    const Outcome<> done = co_await outcome_of(std::move(cancellable));
    co_await shield();
    co_await keys.close();
    co_await unshield();
    if (!done.ok() && !(done.cancelled() && picker->is_closed())) done.rethrow();
}

}  // namespace

SessionPicker::SessionPicker(std::vector<ListedSession> sessions, Style style, Options options)
    : style_(style), options_(std::move(options)) {
    for (ListedSession& session : sessions) {
        Row row;
        row.session = std::move(session);
        row.words = cubepi::detail::lower_case(row.session.name);
        rows_.push_back(std::move(row));
    }
    change_filter({});
}

bool SessionPicker::is_candidate(const Row& row) const {
    if (row.is_removed || (!options_.all && !row.session.is_here)) return false;
    return !row.session.is_loaded || !row.session.name.empty() || !row.session.problem.empty();
}

void SessionPicker::apply_filter(Row& row) const {
    row.heading_matches = !filter_.empty() && row.session.is_loaded &&
                          row.words.find(cubepi::detail::lower_case(filter_)) != std::string::npos;
    const bool matches =
        filter_.empty() || row.heading_matches || (!row.snippet.empty() && row.matched == filter_);
    row.shows = is_candidate(row) && matches;
}

std::vector<std::size_t> SessionPicker::shown() const {
    std::vector<std::size_t> indexes;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (rows_[i].shows) indexes.push_back(i);
    }
    return indexes;
}

void SessionPicker::mark_a_shown_row() {
    if (marked_ < rows_.size() && rows_[marked_].shows) return;
    const auto first =
        std::find_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.shows; });
    if (first != rows_.end()) marked_ = static_cast<std::size_t>(first - rows_.begin());
}

void SessionPicker::change_filter(std::string filter) {
    filter_ = std::move(filter);
    if (search_) search_->stopped = true;
    search_.reset();
    read_ = 0;
    top_ = 0;
    for (Row& row : rows_) apply_filter(row);
    marked_ = rows_.size();
    mark_a_shown_row();
    changed_.pulse();
}

void SessionPicker::move(std::ptrdiff_t by) {
    const std::vector<std::size_t> visible_rows = shown();
    if (visible_rows.empty()) return;
    const auto at = std::find(visible_rows.begin(), visible_rows.end(), marked_);
    const std::ptrdiff_t last = std::ssize(visible_rows) - 1;
    const std::ptrdiff_t now = at == visible_rows.end() ? 0 : at - visible_rows.begin();
    const std::ptrdiff_t next = std::clamp<std::ptrdiff_t>(now + by, 0, last);
    marked_ = visible_rows[static_cast<std::size_t>(next)];
    changed_.pulse();
}

bool SessionPicker::press(const Key& key) {
    if (preview_) {
        if (!preview_->press(key)) preview_.reset();
        changed_.pulse();
        return true;
    }
    if (question_ != Question::none) {
        press_in_question(key);
        changed_.pulse();
        return true;
    }
    asked_.reset();
    notice_.clear();
    const bool has_one =
        marked_ < rows_.size() && rows_[marked_].shows && rows_[marked_].session.is_loaded;
    switch (key.code) {
        case KeyCode::unfold:
            if (has_one && !rows_[marked_].session.tape.empty()) asked_ = marked_;
            changed_.pulse();
            return true;
        case KeyCode::search:
            if (has_one) ask(Question::title);
            changed_.pulse();
            return true;
        case KeyCode::erase:
        case KeyCode::end_of_input:
            if (has_one) ask(Question::removal);
            changed_.pulse();
            return true;
        case KeyCode::tab: break;
        default: return FilteredList::press(key);
    }
    options_.all = !options_.all;
    change_filter(filter_);
    return true;
}

void SessionPicker::ask(Question question) {
    const ListedSession& session = rows_[marked_].session;
    // One that cannot be read, or that is in the database of older versions, has no title to set.
    if (session.name.empty() || (question == Question::title && session.tape.empty())) return;
    if (question == Question::removal && session.tape == options_.current &&
        !session.tape.empty()) {
        notice_ = "this session is open; /new leaves it";
        return;
    }
    question_ = question;
    subject_ = marked_;
    title_ = session.title;
}

void SessionPicker::press_in_question(const Key& key) {
    if (question_ == Question::removal) {
        question_ = Question::none;
        if (key.code == KeyCode::text && (key.text == "y" || key.text == "Y")) {
            decide(Wanted::Kind::removal, {});
        } else {
            notice_ = "not deleted";
        }
        return;
    }
    switch (key.code) {
        case KeyCode::enter: question_ = Question::none; return decide(Wanted::Kind::title, title_);
        case KeyCode::escape:
        case KeyCode::interrupt: question_ = Question::none; return;
        default: break;
    }
    if (std::optional<std::string> text = edited(title_, key)) title_ = std::move(*text);
}

void SessionPicker::decide(Wanted::Kind kind, std::string title) {
    change_ = std::make_unique<Wanted>();
    change_->kind = kind;
    change_->index = subject_;
    change_->session = rows_[subject_].session;
    change_->title = clean_title(title);
}

bool SessionPicker::pick() {
    const Row* const row = marked_ < rows_.size() ? &rows_[marked_] : nullptr;
    // A row whose name is not known yet is about to be read.
    if (!row || !row->shows || row->session.name.empty()) return true;
    chosen_ = row->session;
    return false;
}

void SessionPicker::closed() {
    closed_ = true;
    if (search_) search_->stopped = true;
    changed_.pulse();
}

SessionPicker::Wanted SessionPicker::wanted() {
    Wanted next;
    const auto details_of = [&](std::size_t index) {
        next.kind = Wanted::Kind::details;
        next.index = index;
        next.session = rows_[index].session;
        return next;
    };
    if (change_) return std::move(*std::exchange(change_, nullptr));
    if (asked_) {
        next.kind = Wanted::Kind::conversation;
        next.index = *asked_;
        next.session = rows_[*asked_].session;
        return next;
    }
    // Rows on the screen are read first.
    const std::vector<std::size_t> visible_rows = shown();
    for (std::size_t i = top_; i < std::min(top_ + page_ + 1, visible_rows.size()); ++i) {
        if (!rows_[visible_rows[i]].session.is_loaded) return details_of(visible_rows[i]);
    }
    if (filter_.empty()) return next;
    for (; read_ < rows_.size(); ++read_) {
        const Row& row = rows_[read_];
        if (!is_candidate(row)) continue;
        if (!row.session.is_loaded) return details_of(read_);
        const bool searched = row.matched == filter_ ||
                              (!row.searched.empty() && cubepi::detail::lower_case(filter_).find(
                                                            row.searched) != std::string::npos);
        if (filter_.size() < shortest_search || row.heading_matches || searched ||
            row.session.tape.empty())
            continue;
        search_ = std::make_shared<MessageSearch>();
        search_->pattern = filter_;
        next.kind = Wanted::Kind::messages;
        next.index = read_;
        next.session = row.session;
        next.search = search_;
        return next;
    }
    return next;
}

void SessionPicker::set_details(std::size_t index, ListedSession loaded) {
    Row& row = rows_[index];
    row.session = std::move(loaded);
    row.words = cubepi::detail::lower_case(row.session.title + "\n" + row.session.first_line +
                                           "\n" + row.session.name);
    apply_filter(row);
    mark_a_shown_row();
}

void SessionPicker::set_match(std::size_t index, const MessageSearch& search,
                              std::optional<std::string> snippet) {
    Row& row = rows_[index];
    if (snippet) {
        row.snippet = std::move(*snippet);
        row.matched = search.pattern;
    } else {
        row.searched = cubepi::detail::lower_case(search.pattern);
    }
    apply_filter(row);
    mark_a_shown_row();
    // wanted() continues after it, also if its search has failed.
    if (read_ == index) ++read_;
}

void SessionPicker::set_title(std::size_t index, std::string title, const std::string& problem) {
    notice_ = problem;
    if (!problem.empty()) return;
    ListedSession changed = rows_[index].session;
    changed.title = std::move(title);
    set_details(index, std::move(changed));
}

/// The row stays in its place, where what is being read has its index.
void SessionPicker::set_removed(std::size_t index, const std::string& problem) {
    notice_ = problem.empty() ? "deleted" : problem;
    if (!problem.empty()) return;
    rows_[index].is_removed = true;
    if (marked_ == index) move(1);
    if (marked_ == index) move(-1);
    apply_filter(rows_[index]);
    if (asked_ == index) asked_.reset();
    mark_a_shown_row();
}

void SessionPicker::set_conversation(std::size_t index, std::string text) {
    if (asked_ != index) return;
    asked_.reset();
    PagerItem item;
    item.title = line_for_terminal(rows_[index].session.heading(), longest_heading);
    item.text = std::move(text);
    item.is_prose = true;
    PagerItems items;
    items.add(std::move(item));
    preview_ = std::make_unique<Pager>(items.all(), style_, PagerStart::first_item);
}

void SessionPicker::add_row(std::vector<TerminalText>& rows, const Row& row, bool marked,
                            std::size_t columns, std::size_t height) const {
    const ListedSession& session = row.session;
    const std::size_t width = columns > 4 ? columns - 3 : 1;
    const std::string heading = !session.is_loaded ? "…" : session.heading();
    TerminalText details = for_terminal(
        age_text(std::chrono::seconds(static_cast<std::int64_t>(options_.now - session.used_at))));
    if (session.is_loaded) details += " · " + for_terminal(messages_text(session.messages));
    // Its first line is that of the other session.
    if (!session.forked_from.empty())
        details +=
            " · " + spelled_out(session.name) + ", fork of " + spelled_out(session.forked_from);
    if (!session.problem.empty()) details += " · cannot be read: " + spelled_out(session.problem);
    if (!session.is_here && !session.workspace.empty())
        details += " · " + spelled_out(session.workspace);
    const bool by_message = !filter_.empty() && row.matched == filter_ && !row.heading_matches;
    if (by_message) {
        details += " · " + spelled_out(row.snippet);
    } else if (!session.title.empty() && !session.first_line.empty()) {
        details += " · " + spelled_out(session.first_line);
    }
    TerminalText first = marked ? style_.cyan() + "❯ " + style_.bold() : TerminalText("  ");
    if (height > 1) {
        first += line_for_terminal(heading, width);
    } else {
        // One row for all of it: the title has two thirds.
        first += line_for_terminal(heading, width * 2 / 3) + style_.off() + style_.dim() + "  " +
                 details;
    }
    rows.push_back(shortened(first, columns > 1 ? columns - 1 : 1) + style_.off());
    if (height > 1)
        rows.push_back(shortened("    " + style_.dim() + details, columns > 1 ? columns - 1 : 1) +
                       style_.off());
}

TerminalText SessionPicker::footer(std::size_t columns, TerminalView note) const {
    TerminalText text;
    if (!filter_.empty() && read_ < rows_.size())
        text += "searching " + TerminalText::number(read_) + " of " +
                TerminalText::number(rows_.size()) + " · ";
    if (!notice_.empty()) text += spelled_out(notice_) + " · ";
    if (!note.empty()) text += TerminalText(note) + " · ";
    text += "Enter opens · Esc ";
    text += filter_.empty() ? TerminalView("closes") : TerminalView("clears");
    text += " · " + for_terminal(KeyBindings::hint(KeyCode::unfold, "pager")) + " shows · " +
            for_terminal(KeyBindings::hint(KeyCode::search, "search")) +
            " title · Del deletes · Tab ";
    text += options_.all ? TerminalView("here") : TerminalView("all");
    return style_.dim() + shortened(text, columns > 1 ? columns - 1 : 1) + style_.off();
}

/// The filter, or the question.
TerminalText SessionPicker::input_row(std::size_t columns) const {
    const std::size_t width = columns > 4 ? columns - 3 : 1;
    switch (question_) {
        case Question::title: {
            const TerminalView prompt = "title > ";
            const std::size_t left = width > prompt.str().size() ? width - prompt.str().size() : 1;
            return style_.bold() + prompt + style_.off() + line_for_terminal(visible(title_), left);
        }
        case Question::removal: {
            const ListedSession& session = rows_[subject_].session;
            const TerminalText text = "Delete permanently? y deletes · '" +
                                      line_for_terminal(session.heading(), longest_heading) +
                                      "' (" + for_terminal(messages_text(session.messages)) + ")";
            return style_.bold() + shortened(text, width) + style_.off();
        }
        case Question::none: break;
    }
    if (filter_.empty())
        return "> " + style_.dim() + "type to search titles and messages" + style_.off();
    return "> " + line_for_terminal(visible(filter_), width);
}

std::vector<TerminalText> SessionPicker::screen(std::size_t columns, std::size_t rows,
                                                TerminalView note) {
    if (preview_) return preview_->screen(columns, rows, note);
    std::vector<TerminalText> made;
    const std::size_t height = rows >= 16 ? 2 : 1;
    const std::vector<std::size_t> visible_rows = shown();
    made.push_back(style_.bold() +
                   (options_.all ? TerminalView("Sessions of all directories")
                                 : TerminalView("Sessions of this directory")) +
                   style_.off());
    made.push_back(input_row(columns));
    if (rows > 8) made.emplace_back();
    const std::size_t left = rows > made.size() + 1 ? rows - made.size() - 1 : 0;
    const std::size_t page_before = page_;
    const std::size_t top_before = top_;
    page_ = std::max<std::size_t>(1, left / height);
    const auto at = std::find(visible_rows.begin(), visible_rows.end(), marked_);
    const auto marked = static_cast<std::size_t>(at - visible_rows.begin());
    if (at != visible_rows.end() && marked < top_) top_ = marked;
    if (at != visible_rows.end() && marked >= top_ + page_) top_ = marked + 1 - page_;
    // Other rows are to be read.
    if (page_ != page_before || top_ != top_before) changed_.pulse();
    if (visible_rows.empty() && (filter_.empty() || read_ == rows_.size()))
        made.push_back(filter_.empty() ? TerminalText("  No saved sessions.")
                                       : TerminalText("  No session has this text."));
    for (std::size_t i = top_; i < std::min(top_ + page_, visible_rows.size()); ++i)
        add_row(made, rows_[visible_rows[i]], visible_rows[i] == marked_, columns, height);
    made.resize(rows > 1 ? rows - 1 : 1);
    made.push_back(footer(columns, note));
    return made;
}

Task<std::optional<ListedSession>> pick_session(std::shared_ptr<Console> console,
                                                SavedSessions saved, bool all,
                                                std::string current) {
    Task<std::vector<ListedSession>> listing = list_sessions(saved);
    std::optional<std::vector<ListedSession>> sessions =
        co_await unless_interrupted(console, std::move(listing));
    if (!sessions) co_return std::nullopt;
    SessionPicker::Options options;
    options.now = unix_now();
    options.all = all;
    options.current = std::move(current);
    const auto picker =
        std::make_shared<SessionPicker>(std::move(*sessions), console->style(), std::move(options));
    console->open_screen(picker);
    while (!picker->is_closed()) {
        SessionPicker::Wanted wanted = picker->wanted();
        console->redraw();
        using Kind = SessionPicker::Wanted::Kind;
        if (wanted.kind == Kind::nothing) {
            co_await picker->change();
        } else if (wanted.kind == Kind::title || wanted.kind == Kind::removal) {
            // Not half of it, whatever the user does meanwhile.
            co_await shield();
            Task<> change = make_change(picker, std::move(wanted), saved);
            co_await std::move(change);
            co_await unshield();
        } else {
            Task<> work = do_work(picker, std::move(wanted), saved.tapes());
            co_await unless_closed(picker, std::move(work));
        }
    }
    co_return picker->chosen();
}

}  // namespace cubepi::app
