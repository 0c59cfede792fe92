#include "session_picker.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <cubepi/core/support/lower_case.hpp>

#include "event_text.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

/// A shorter text is in most messages.
constexpr std::size_t shortest_search = 2;
constexpr std::size_t longest_heading = 200;

std::string messages_text(std::int64_t count) {
    return count_text(count) + (count == 1 ? " message" : " messages");
}

}  // namespace

SessionPicker::SessionPicker(std::vector<ListedSession> sessions, Style style, double now, bool all)
    : style_(style), now_(now), all_(all) {
    for (ListedSession& session : sessions) {
        Row row;
        row.session = std::move(session);
        row.words = cubepi::detail::lower_case(row.session.name);
        rows_.push_back(std::move(row));
    }
    change_filter({});
}

bool SessionPicker::is_candidate(const Row& row) const {
    if (!all_ && !row.session.is_here) return false;
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
    asked_.reset();
    if (key.code == KeyCode::unfold) {
        const bool has_one =
            marked_ < rows_.size() && rows_[marked_].shows && !rows_[marked_].session.tape.empty();
        if (has_one) asked_ = marked_;
        changed_.pulse();
        return true;
    }
    if (key.code != KeyCode::tab) return FilteredList::press(key);
    all_ = !all_;
    change_filter(filter_);
    return true;
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
    const auto facts_of = [&](std::size_t index) {
        next.kind = Wanted::Kind::facts;
        next.index = index;
        next.session = rows_[index].session;
        return next;
    };
    if (asked_) {
        next.kind = Wanted::Kind::conversation;
        next.index = *asked_;
        next.session = rows_[*asked_].session;
        return next;
    }
    // Rows on the screen are read first.
    const std::vector<std::size_t> visible_rows = shown();
    for (std::size_t i = top_; i < std::min(top_ + page_ + 1, visible_rows.size()); ++i) {
        if (!rows_[visible_rows[i]].session.is_loaded) return facts_of(visible_rows[i]);
    }
    if (filter_.empty()) return next;
    for (; read_ < rows_.size(); ++read_) {
        const Row& row = rows_[read_];
        if (!is_candidate(row)) continue;
        if (!row.session.is_loaded) return facts_of(read_);
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

void SessionPicker::set_facts(std::size_t index, ListedSession loaded) {
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
    TerminalText facts = for_terminal(
        age_text(std::chrono::seconds(static_cast<std::int64_t>(now_ - session.used_at))));
    if (session.is_loaded) facts += " · " + for_terminal(messages_text(session.messages));
    // Its first line is that of the other session.
    if (!session.forked_from.empty())
        facts +=
            " · " + spelled_out(session.name) + ", fork of " + spelled_out(session.forked_from);
    if (!session.problem.empty()) facts += " · cannot be read: " + spelled_out(session.problem);
    if (!session.is_here && !session.workspace.empty())
        facts += " · " + spelled_out(session.workspace);
    const bool by_message = !filter_.empty() && row.matched == filter_ && !row.heading_matches;
    if (by_message) {
        facts += " · " + spelled_out(row.snippet);
    } else if (!session.title.empty() && !session.first_line.empty()) {
        facts += " · " + spelled_out(session.first_line);
    }
    TerminalText first = marked ? style_.cyan() + "❯ " + style_.bold() : TerminalText("  ");
    if (height > 1) {
        first += line_for_terminal(heading, width);
    } else {
        // One row for all of it: the title has two thirds.
        first +=
            line_for_terminal(heading, width * 2 / 3) + style_.off() + style_.dim() + "  " + facts;
    }
    rows.push_back(shortened(first, columns > 1 ? columns - 1 : 1) + style_.off());
    if (height > 1)
        rows.push_back(shortened("    " + style_.dim() + facts, columns > 1 ? columns - 1 : 1) +
                       style_.off());
}

TerminalText SessionPicker::footer(std::size_t columns, TerminalView note) const {
    TerminalText text;
    if (!filter_.empty() && read_ < rows_.size())
        text += "searching " + TerminalText::number(read_) + " of " +
                TerminalText::number(rows_.size()) + " · ";
    if (!note.empty()) text += TerminalText(note) + " · ";
    text += "Enter opens · Esc ";
    text += filter_.empty() ? TerminalView("closes") : TerminalView("clears");
    text += " · Ctrl-O shows · Tab ";
    text += all_ ? TerminalView("this directory") : TerminalView("all directories");
    return style_.dim() + shortened(text, columns > 1 ? columns - 1 : 1) + style_.off();
}

std::vector<TerminalText> SessionPicker::screen(std::size_t columns, std::size_t rows,
                                                TerminalView note) {
    if (preview_) return preview_->screen(columns, rows, note);
    std::vector<TerminalText> made;
    const std::size_t height = rows >= 16 ? 2 : 1;
    const std::vector<std::size_t> visible_rows = shown();
    made.push_back(style_.bold() +
                   (all_ ? TerminalView("Sessions of all directories")
                         : TerminalView("Sessions of this directory")) +
                   style_.off());
    made.push_back(filter_.empty()
                       ? "> " + style_.dim() + "type to search titles and messages" + style_.off()
                       : "> " + line_for_terminal(visible(filter_), columns > 4 ? columns - 3 : 1));
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

}  // namespace cubepi::app
