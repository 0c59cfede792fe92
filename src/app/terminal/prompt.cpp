#include "prompt.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include <sys/stat.h>

#include <cubepi/core/support/posix_file.hpp>

#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view header = "_HiStOrY_V2_";
constexpr std::size_t max_entries = 1000;

/// Encodes an entry for the file: blanks, backslashes and control characters as three octal digits.
std::string encoded(std::string_view text) {
    std::string line;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > 0x20 && byte != 0x7F && c != '\\') {
            line += c;
            continue;
        }
        line += '\\';
        line += static_cast<char>('0' + (byte >> 6));
        line += static_cast<char>('0' + ((byte >> 3) & 7));
        line += static_cast<char>('0' + (byte & 7));
    }
    return line;
}

bool octal(char c) { return c >= '0' && c <= '7'; }

std::string decoded(std::string_view line) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\' && i + 3 < line.size() && octal(line[i + 1]) && octal(line[i + 2]) &&
            octal(line[i + 3])) {
            text += static_cast<char>(((line[i + 1] - '0') << 6) | ((line[i + 2] - '0') << 3) |
                                      (line[i + 3] - '0'));
            i += 3;
        } else {
            text += line[i];
        }
    }
    return text;
}

}  // namespace

History::History(std::filesystem::path file) : file_(std::move(file)) {
    load();
    rewind();
}

void History::load() {
    // Without a history one can still talk; a pipe of its name would be waited for.
    if (!cubepi::detail::kind_if_not_regular(file_).empty()) file_.clear();
    if (file_.empty()) return;
    std::ifstream file(file_, std::ios::binary);
    std::string line;
    while (std::getline(file, line)) {
        if (line == header || line.empty()) continue;
        entries_.push_back(decoded(line));
    }
    if (entries_.size() <= max_entries) return;
    const bool long_file = entries_.size() > 2 * max_entries;
    entries_.erase(entries_.begin(), entries_.end() - static_cast<std::ptrdiff_t>(max_entries));
    if (long_file) shorten();
}

/// One write at the end of the file, so that several chats can share it.
void History::append(const std::string& entry) const {
    if (file_.empty()) return;
    const detail::UniqueFd file = detail::open_file(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT);
    if (!file) return;  // the chat also works without a history
    struct stat status = {};
    const bool fresh = fstat(file.get(), &status) == 0 && status.st_size == 0;
    const std::string text = (fresh ? std::string(header) + "\n" : "") + encoded(entry) + "\n";
    fchmod(file.get(), S_IRUSR | S_IWUSR);
    (void)detail::write_all(file.get(), text);
}

/// Replaces the file by one that has only the retained entries.
void History::shorten() const {
    std::filesystem::path fresh = file_;
    fresh += ".new";
    std::string text = std::string(header) + "\n";
    for (const std::string& entry : entries_) text += encoded(entry) + "\n";
    detail::UniqueFd fd = detail::open_file(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    detail::ReplacementFile file(std::move(fd), fresh);
    if (file && detail::write_all(file.get(), text)) (void)file.replace(file_);
}

void History::add(const std::string& entry) {
    const bool again = !entries_.empty() && entries_.back() == entry;
    if (!entry.empty() && !again) {
        entries_.push_back(entry);
        if (entries_.size() > max_entries) entries_.erase(entries_.begin());
        append(entry);
    }
    rewind();
}

const std::string* History::older(const std::string& current) {
    if (at_ == 0) return nullptr;
    if (at_ == entries_.size()) draft_ = current;
    return &entries_[--at_];
}

const std::string* History::newer() {
    if (at_ >= entries_.size()) return nullptr;
    return ++at_ == entries_.size() ? &draft_ : &entries_[at_];
}

const std::string* History::find_older(std::string_view part) {
    for (std::size_t i = at_; i > 0; --i) {
        if (entries_[i - 1].find(part) == std::string::npos) continue;
        at_ = i - 1;
        return &entries_[at_];
    }
    return nullptr;
}

namespace {

constexpr std::size_t max_names = 2000;

std::vector<std::string> file_names(const std::string& word) {
    const std::size_t slash = word.rfind('/');
    const std::string directory =
        slash == std::string::npos ? std::string() : word.substr(0, slash + 1);
    const std::string start = slash == std::string::npos ? word : word.substr(slash + 1);
    std::vector<std::string> names;
    std::error_code failed;
    std::filesystem::directory_iterator entry(directory.empty() ? "." : directory, failed);
    for (std::size_t seen = 0;
         !failed && entry != std::filesystem::directory_iterator() && seen < max_names;
         entry.increment(failed), ++seen) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(start) || (start.empty() && name.starts_with('.'))) continue;
        std::error_code ignored;
        names.push_back(directory + name + (entry->is_directory(ignored) ? "/" : ""));
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string common_start(const std::vector<std::string>& words) {
    std::string start = words.front();
    for (const std::string& word : words) {
        const auto ends = std::mismatch(start.begin(), start.end(), word.begin(), word.end());
        start.erase(ends.first, start.end());
    }
    return start;
}

}  // namespace

Completion complete_line(const std::string& line, std::size_t cursor,
                         const std::vector<std::string>& commands) {
    Completion completion;
    const std::size_t blank =
        cursor == 0 ? std::string::npos : line.find_last_of(" \n", cursor - 1);
    completion.from = blank == std::string::npos ? 0 : blank + 1;
    const std::string word = line.substr(completion.from, cursor - completion.from);
    completion.word = word;
    const bool command = completion.from == 0 && (word.starts_with('/') || word.starts_with(','));
    std::vector<std::string> found;
    if (command) {
        for (const std::string& name : commands) {
            if (name.starts_with(word)) found.push_back(name);
        }
    }
    if (!command || (found.empty() && word.starts_with('/'))) {
        if (word.empty()) return completion;
        const bool marked = word.starts_with('@');
        found = file_names(marked ? word.substr(1) : word);
        for (std::string& name : found) {
            if (marked) name.insert(0, 1, '@');
        }
    }
    if (found.empty()) return completion;
    completion.word = common_start(found);
    if (found.size() > 1) {
        completion.choices = std::move(found);
    } else if (!completion.word.ends_with('/')) {
        completion.word += ' ';
    }
    return completion;
}

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

Prompt::Prompt(Style style, History history)
    : style_(style), history_(std::move(history)), popup_(style) {}

void Prompt::set_files(std::shared_ptr<const std::vector<std::string>> files) {
    popup_.sources().files = std::move(files);
    popup_.refresh();
}

void Prompt::set_resources(std::vector<Command> resources) {
    popup_.sources().resources = std::move(resources);
    popup_.refresh();
}

Prompt::Outcome Prompt::press(const Key& key, bool more_follows) {
    if (searching_ && search(key)) return Outcome::none;
    if (vi_ && !vi_->is_normal() && key.code == KeyCode::escape) {
        popup_.close();
        choices_.clear();
        vi_->leave_insert(buffer_);
        return Outcome::none;
    }
    // A line end in the middle of a block chooses nothing.
    const bool is_pasted_end = key.code == KeyCode::enter && more_follows;
    switch (is_pasted_end ? Popup::Outcome::unused : popup_.press(key)) {
        case Popup::Outcome::unused: break;
        case Popup::Outcome::used: return Outcome::none;
        case Popup::Outcome::chosen: take_marked(); return Outcome::none;
        case Popup::Outcome::entered: take_marked(); return enter();
    }
    if (key.code != KeyCode::tab) {
        choices_.clear();
        chosen_ = 0;
    }
    const Outcome outcome = edit(key, more_follows);
    update_popup(key.code);
    return outcome;
}

void Prompt::use_vi_keys() {
    vi_.emplace();
    vi_->begin(buffer_);
}

TerminalView Prompt::vi_mode() const noexcept {
    if (!vi_) return {};
    return vi_->is_normal() ? TerminalView("NORMAL") : TerminalView("INSERT");
}

/// The popup follows typing; other keys have their own use of the arrows, and so has a text of the history.
void Prompt::update_popup(KeyCode code) {
    if (vi_ && vi_->is_normal()) return popup_.close();
    switch (code) {
        case KeyCode::text:
        case KeyCode::backspace:
        case KeyCode::erase:
        case KeyCode::erase_word: return popup_.update(buffer_.text(), buffer_.cursor());
        default: popup_.close();
    }
}

/// Replaces the word by the marked entry of the popup.
void Prompt::take_marked() {
    const std::string word = popup_.chosen_word();
    std::string rest = buffer_.text().substr(buffer_.cursor());
    if (word.ends_with(' ') && rest.starts_with(' ')) rest.erase(0, 1);
    const std::string text = buffer_.text().substr(0, popup_.word_begin()) + word;
    buffer_.replace(text + rest, text.size());
    // Files that are known later do not open it again.
    popup_.reset();
    // The beginning of a resource, whose end the popup offers next.
    if (word.starts_with('@') && !word.ends_with(' ')) popup_.update(text + rest, text.size());
    if (vi_) vi_->forget_insert();
}

void Prompt::replace_text(const std::string& text) {
    popup_.reset();
    buffer_.replace(text, text.size());
    snap_vi_cursor();
}

/// Returns what decides whether a text is a command.
static std::string_view first_word(std::string_view text) {
    return text.substr(0, text.find_first_of(" \t\n"));
}

/// Returns false if the key has its meaning outside of vi.
bool Prompt::edit_with_vi(const Key& key) {
    const std::string before = buffer_.text();
    switch (vi_->press(key, buffer_)) {
        case ViKeys::Outcome::unused: return false;
        case ViKeys::Outcome::used: break;
        // Text that was pasted may be back, and run no command (D172).
        case ViKeys::Outcome::restored:
            has_paste_ = true;
            if (first_word(before) != first_word(buffer_.text())) pasted_ = true;
            break;
        case ViKeys::Outcome::older: show_history(true); break;
        case ViKeys::Outcome::newer: show_history(false); break;
        case ViKeys::Outcome::search: begin_search(); break;
    }
    return true;
}

void Prompt::begin_search() {
    searching_ = found_ = has_paste_ = true;
    before_search_ = buffer_.text();
    pattern_.clear();
    history_.rewind();
}

void Prompt::show_history(bool older) {
    const std::string* const entry = older ? history_.older(buffer_.text()) : history_.newer();
    if (!entry) return;
    has_paste_ = true;
    buffer_.set(*entry);
    snap_vi_cursor();
}

Prompt::Outcome Prompt::edit(const Key& key, bool more_follows) {
    if (vi_ && vi_->is_normal() && edit_with_vi(key)) return Outcome::none;
    switch (key.code) {
        case KeyCode::enter:
            // A line end in the middle of a block is part of the pasted text.
            if (more_follows) {
                pasted_ = has_paste_ = true;
                buffer_.insert("\n");
                return Outcome::none;
            }
            if (continues_line()) {
                (void)buffer_.apply(Key{KeyCode::backspace, {}});
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
        case KeyCode::cancel: return Outcome::editor;
        case KeyCode::search: begin_search(); return Outcome::none;
        default: break;
    }
    Key shown = key;
    if (key.code == KeyCode::paste) {
        const std::string picture = picture_ ? picture_(key.text) : std::string();
        if (!picture.empty()) {
            shown.code = KeyCode::text;
            shown.text = picture + " ";
        } else {
            shown.text = folds_.fold(key.text);
        }
    }
    note_paste(shown);
    if (buffer_.apply(shown)) {
        if (vi_) vi_->note_insert(shown);
        if (vi_) vi_->snap_cursor(buffer_);
    } else if (key.code == KeyCode::up || key.code == KeyCode::down) {
        show_history(key.code == KeyCode::up);
    }
    return Outcome::none;
}

/// A backslash before Enter begins another line, as in a shell; two of them are text.
bool Prompt::continues_line() const {
    const std::string& text = buffer_.text();
    return buffer_.cursor() == text.size() && text.ends_with('\\') && !text.ends_with("\\\\");
}

Prompt::Outcome Prompt::enter() {
    popup_.reset();
    entered_ = folds_.unfold(buffer_.text());
    if (vi_) vi_->change_texts([this](const std::string& text) { return folds_.unfold(text); });
    folds_.clear();
    entered_pasted_ = std::exchange(pasted_, false);
    entered_has_paste_ = std::exchange(has_paste_, false);
    buffer_.set({});
    if (vi_) vi_->begin(buffer_);
    history_.rewind();
    show_returned();
    return entered_.find_first_not_of(" \t\n") == std::string::npos ? Outcome::none
                                                                    : Outcome::entered;
}

/// Text that is pasted after typed text does not change the kind of the line.
void Prompt::note_paste(const Key& key) {
    const bool brings_back = key.code == KeyCode::undo || key.code == KeyCode::yank;
    if (buffer_.empty() && !brings_back) pasted_ = has_paste_ = false;
    if (key.code == KeyCode::paste || brings_back) has_paste_ = true;
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
            snap_vi_cursor();
            return true;
        default:
            searching_ = false;
            return key.code == KeyCode::enter || key.code == KeyCode::escape;
    }
    found_ = found != nullptr;
    if (found) buffer_.set(*found);
    snap_vi_cursor();
    return true;
}

std::string Prompt::take() { return std::exchange(entered_, {}); }

bool Prompt::clear() {
    searching_ = false;
    choices_.clear();
    popup_.reset();
    if (buffer_.empty()) return false;
    buffer_.replace({}, 0);
    if (vi_) vi_->begin(buffer_);
    history_.rewind();
    show_returned();
    return true;
}

void Prompt::hand_back(std::string text, bool pasted, bool has_paste) {
    returned_.push_back({std::move(text), pasted, has_paste});
    show_returned();
}

void Prompt::show_returned() {
    if (returned_.empty() || !buffer_.empty()) return;
    const Returned next = std::move(returned_.front());
    returned_.pop_front();
    pasted_ = next.pasted;
    has_paste_ = next.has_paste;
    buffer_.replace(next.text, next.text.size());
    snap_vi_cursor();
}

/// After a change of the text that no key of vi has made.
void Prompt::snap_vi_cursor() {
    if (!vi_) return;
    vi_->forget_insert();
    vi_->snap_cursor(buffer_);
}

void Prompt::complete() {
    if (vi_) vi_->forget_insert();
    if (!choices_.empty()) return choose();
    std::vector<std::string> names;
    for (const Command& command : popup_.sources().commands) names.push_back(command.name);
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
    if (!searching_ && popup_.is_open()) return popup_.rows(columns, max_rows);
    const std::vector<Command>& commands = popup_.sources().commands;
    std::vector<Command> entries;
    for (const std::string& choice : choices_) {
        Command entry;
        entry.name = choice;
        const auto known = std::find_if(commands.begin(), commands.end(),
                                        [&](const Command& one) { return one.name == choice; });
        entries.push_back(known == commands.end() ? std::move(entry) : *known);
    }
    std::vector<TerminalText> rows;
    if (max_rows == 0) return rows;
    if (entries.empty() && !returned_.empty()) {
        const std::string more =
            returned_.size() == 1 ? "" : " (" + std::to_string(returned_.size()) + " in all)";
        rows.push_back(style_.dim() + "  " +
                       line_for_terminal("not sent" + more + ": " + returned_.front().text,
                                         columns > 4 ? columns - 3 : 1) +
                       style_.off());
    }
    if (entries.empty()) return rows;
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
