#include "prompt.hpp"

#include <algorithm>
#include <utility>

#include "text_width.hpp"

namespace cubepi::app {

namespace {

TerminalText padded(const TerminalText& text, std::size_t columns) {
    const std::size_t width = display_width(text);
    return text + TerminalText::blanks(columns > width ? columns - width : 0);
}

/// The first of the rows around `row` that fit.
std::size_t first_shown(std::size_t all, std::size_t row, std::size_t max_rows) {
    if (all <= max_rows || row < max_rows / 2) return 0;
    return std::min(row - max_rows / 2, all - max_rows);
}

}  // namespace

Prompt::Prompt(Style style, History history) : style_(style), history_(std::move(history)) {}

Prompt::Outcome Prompt::press(const Key& key, bool more_follows) {
    if (searching_ && search(key)) return Outcome::none;
    if (key.code != KeyCode::tab) {
        choices_.clear();
        chosen_ = 0;
    }
    return edit(key, more_follows);
}

Prompt::Outcome Prompt::edit(const Key& key, bool more_follows) {
    switch (key.code) {
        case KeyCode::enter:
            // A line end in the middle of a block is part of the pasted text.
            if (more_follows) {
                pasted_ = true;
                buffer_.insert("\n");
                return Outcome::none;
            }
            return enter();
        case KeyCode::escape: return Outcome::escape;
        case KeyCode::end_of_input:
            if (buffer_.empty()) return Outcome::end;
            (void)buffer_.apply(Key{KeyCode::erase, {}});
            return Outcome::none;
        case KeyCode::tab: complete(); return Outcome::none;
        case KeyCode::search:
            searching_ = found_ = true;
            before_search_ = buffer_.text();
            pattern_.clear();
            history_.rewind();
            return Outcome::none;
        default: break;
    }
    note_paste(key);
    if (buffer_.apply(key)) return Outcome::none;
    const std::string* entry = nullptr;
    if (key.code == KeyCode::up) entry = history_.older(buffer_.text());
    if (key.code == KeyCode::down) entry = history_.newer();
    if (entry) buffer_.set(*entry);
    return Outcome::none;
}

Prompt::Outcome Prompt::enter() {
    entered_ = buffer_.text();
    entered_pasted_ = std::exchange(pasted_, false);
    buffer_.set({});
    history_.rewind();
    return entered_.find_first_not_of(" \t\n") == std::string::npos ? Outcome::none
                                                                    : Outcome::entered;
}

/// Text that is pasted after typed text does not change the kind of the line.
void Prompt::note_paste(const Key& key) {
    const bool brings_back = key.code == KeyCode::undo || key.code == KeyCode::yank;
    if (buffer_.empty() && !brings_back) pasted_ = false;
    const std::string before = buffer_.text().substr(0, buffer_.cursor());
    if (key.code == KeyCode::paste && before.find_first_not_of(" \t\n") == std::string::npos)
        pasted_ = true;
}

/// Returns false if the key has its normal meaning.
bool Prompt::search(const Key& key) {
    const std::string* found = nullptr;
    switch (key.code) {
        case KeyCode::text:
            pattern_ += key.text;
            history_.rewind();
            found = history_.find_older(pattern_);
            break;
        case KeyCode::search: found = history_.find_older(pattern_); break;
        case KeyCode::backspace:
            pattern_.resize(previous_character(pattern_, pattern_.size()));
            history_.rewind();
            found = history_.find_older(pattern_);
            break;
        case KeyCode::cancel:
            searching_ = false;
            buffer_.set(before_search_);
            history_.rewind();
            return true;
        default:
            searching_ = false;
            return key.code == KeyCode::enter || key.code == KeyCode::escape;
    }
    found_ = found != nullptr;
    if (found) buffer_.set(*found);
    return true;
}

std::string Prompt::take() { return std::exchange(entered_, {}); }

bool Prompt::clear() {
    searching_ = false;
    choices_.clear();
    if (buffer_.empty()) return false;
    buffer_.replace({}, 0);
    history_.rewind();
    return true;
}

void Prompt::hand_back(const std::string& text, bool pasted) {
    pasted_ = pasted;
    const std::string& typed = buffer_.text();
    const std::string all = typed.empty() ? text : text + "\n" + typed;
    buffer_.replace(all, all.size());
}

void Prompt::complete() {
    if (!choices_.empty()) return choose();
    std::vector<std::string> names;
    for (const Command& command : commands_) names.push_back(command.name);
    Completion found = complete_line(buffer_.text(), buffer_.cursor(), names);
    const std::string rest = buffer_.text().substr(buffer_.cursor());
    const std::string text = buffer_.text().substr(0, found.from) + found.word;
    if (text + rest != buffer_.text()) buffer_.replace(text + rest, text.size());
    choices_ = std::move(found.choices);
    word_begin_ = found.from;
    chosen_ = 0;
}

/// Replaces the word by the next of several choices.
void Prompt::choose() {
    chosen_ = chosen_ % choices_.size() + 1;
    const std::string rest = buffer_.text().substr(buffer_.cursor());
    const std::string text = buffer_.text().substr(0, word_begin_) + choices_[chosen_ - 1];
    buffer_.replace(text + rest, text.size());
}

std::vector<Command> Prompt::matching_commands() const {
    std::vector<Command> found;
    const std::string& text = buffer_.text();
    const bool begun = text.starts_with('/') || text.starts_with(',');
    if (!begun || text.find_first_of(" \n") != std::string::npos) return found;
    for (const Command& command : commands_) {
        if (command.name.starts_with(text)) found.push_back(command);
    }
    return found;
}

FieldRows Prompt::field(std::size_t columns, std::size_t max_rows) const {
    if (!searching_) {
        return field_rows(style_.bold() + "> " + style_.off(), buffer_, columns, max_rows);
    }
    EditBuffer shown;
    shown.set(buffer_.text());
    const TerminalView what = found_ ? TerminalView("search '") : TerminalView("nothing has '");
    return field_rows(what + spelled_out(pattern_) + "' > ", shown, columns, max_rows);
}

std::vector<TerminalText> Prompt::menu(std::size_t columns, std::size_t max_rows) const {
    std::vector<Command> entries;
    if (!choices_.empty()) {
        for (const std::string& choice : choices_) {
            const auto known = std::find_if(commands_.begin(), commands_.end(),
                                            [&](const Command& one) { return one.name == choice; });
            entries.push_back(known == commands_.end() ? Command{choice, {}} : *known);
        }
    } else if (!searching_) {
        entries = matching_commands();
    }
    std::vector<TerminalText> rows;
    if (entries.empty() || max_rows == 0) return rows;
    std::size_t widest = 0;
    for (const Command& entry : entries)
        widest = std::max(widest, display_width(spelled_out(entry.name)));
    const bool explained = std::any_of(entries.begin(), entries.end(),
                                       [](const Command& entry) { return !entry.help.empty(); });
    // Names without descriptions are shown in columns.
    const std::size_t across = explained ? 1 : std::max<std::size_t>(1, columns / (widest + 2));
    const std::size_t all = (entries.size() + across - 1) / across;
    const std::size_t first = first_shown(all, chosen_ == 0 ? 0 : (chosen_ - 1) / across, max_rows);
    for (std::size_t i = first; i < std::min(all, first + max_rows); ++i) {
        TerminalText row;
        for (std::size_t j = i * across; j < std::min(entries.size(), (i + 1) * across); ++j) {
            const bool here = chosen_ == j + 1;
            row += "  " + (here ? style_.bold() : style_.dim()) +
                   padded(spelled_out(entries[j].name), widest) + style_.off();
            if (!entries[j].help.empty()) row += "  " + spelled_out(entries[j].help);
        }
        rows.push_back(shortened(row, columns - 1));
    }
    if (first + max_rows < all && max_rows > 1)
        rows.back() = "  " + style_.dim() + "… and " +
                      TerminalText::number(entries.size() - (first + max_rows - 1) * across) +
                      " more" + style_.off();
    return rows;
}

}  // namespace cubepi::app
