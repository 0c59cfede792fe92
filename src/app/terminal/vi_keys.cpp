#include "vi_keys.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "text_layout.hpp"

namespace cubepi::app {

namespace {

// Places in a text of UTF-8, as vi finds them. All are byte offsets between two characters.

/// The words of vi: runs of letters or of signs, or everything between blanks.
enum class ViWord { small, big };

enum class Kind : std::uint8_t { blank, feed, word, sign };

Kind kind_at(std::string_view text, std::size_t at, ViWord word) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == '\n') return Kind::feed;
    if (byte == ' ' || byte == '\t') return Kind::blank;
    const bool in_word = byte >= 0x80 || std::isalnum(byte) || byte == '_';
    return in_word || word == ViWord::big ? Kind::word : Kind::sign;
}

bool is_gap(Kind kind) { return kind == Kind::blank || kind == Kind::feed; }

/// The end of the run of characters of one kind.
std::size_t run_end(std::string_view text, std::size_t at, ViWord word) {
    const Kind kind = kind_at(text, at, word);
    while (at < text.size() && kind_at(text, at, word) == kind) at = next_character(text, at);
    return at;
}

std::size_t run_begin(std::string_view text, std::size_t at, ViWord word) {
    const Kind kind = kind_at(text, at, word);
    while (at > 0) {
        const std::size_t before = previous_character(text, at);
        if (kind_at(text, before, word) != kind) break;
        at = before;
    }
    return at;
}

using Span = std::optional<std::pair<std::size_t, std::size_t>>;

Span word_object(std::string_view text, std::size_t at, ViWord word, bool around) {
    if (at >= text.size() || text[at] == '\n') return std::nullopt;
    std::size_t from = run_begin(text, at, word);
    std::size_t to = run_end(text, at, word);
    if (!around) return std::pair(from, to);
    const bool is_blank = kind_at(text, at, word) == Kind::blank;
    const bool more = to < text.size() && text[to] != '\n';
    if (more && (is_blank || kind_at(text, to, word) == Kind::blank)) {
        to = run_end(text, to, word);
    } else if (from > 0 && kind_at(text, previous_character(text, from), word) == Kind::blank) {
        from = run_begin(text, previous_character(text, from), word);
    }
    return std::pair(from, to);
}

std::size_t vi_line_begin(std::string_view text, std::size_t at) {
    if (at == 0) return 0;
    const std::size_t feed = text.rfind('\n', at - 1);
    return feed == std::string_view::npos ? 0 : feed + 1;
}

/// The line feed that ends the line, or the end of the text.
std::size_t vi_line_end(std::string_view text, std::size_t at) {
    return std::min(text.find('\n', at), text.size());
}

/// The quotes of the line are pairs from its beginning.
Span quote_object(std::string_view text, std::size_t at, char quote, bool around) {
    const std::size_t end = vi_line_end(text, at);
    std::size_t open = vi_line_begin(text, at);
    const auto next = [&](std::size_t from) {
        for (std::size_t i = from; i < end; ++i) {
            if (text[i] == quote && (i == 0 || text[i - 1] != '\\')) return i;
        }
        return end;
    };
    for (open = next(open); open < end; open = next(open + 1)) {
        const std::size_t close = next(open + 1);
        if (close >= end) return std::nullopt;
        if (at <= close) {
            if (!around) return std::pair(open + 1, close);
            std::size_t to = close + 1;
            while (to < end && (text[to] == ' ' || text[to] == '\t')) ++to;
            return std::pair(open, to);
        }
        open = close;
    }
    return std::nullopt;
}

Span bracket_object(std::string_view text, std::size_t at, char open, char close, bool around) {
    std::size_t depth = 0;
    std::size_t from = std::min(at, text.size());
    // A closing bracket at the cursor belongs to the pair.
    bool found = from < text.size() && text[from] == open;
    while (!found && from > 0) {
        --from;
        if (text[from] == close) ++depth;
        if (text[from] == open) found = depth-- == 0;
    }
    if (!found) return std::nullopt;
    depth = 0;
    for (std::size_t to = from + 1; to < text.size(); ++to) {
        if (text[to] == open) ++depth;
        if (text[to] != close) continue;
        if (depth-- > 0) continue;
        return around ? std::pair(from, to + 1) : std::pair(from + 1, to);
    }
    return std::nullopt;
}

/// The first character of the line that is not a blank.
std::size_t vi_line_text(std::string_view text, std::size_t at) {
    std::size_t begin = vi_line_begin(text, at);
    while (begin < text.size() && (text[begin] == ' ' || text[begin] == '\t')) ++begin;
    return begin;
}

/// The beginning of line `number`, from 1; that of the last one if there are fewer.
std::size_t vi_line(std::string_view text, std::size_t number) {
    std::size_t at = 0;
    for (; number > 1; --number) {
        const std::size_t end = vi_line_end(text, at);
        if (end == text.size()) break;
        at = end + 1;
    }
    return at;
}

/// w, W: the beginning of the next word.
std::size_t vi_next_word(std::string_view text, std::size_t at, ViWord word) {
    if (at >= text.size()) return text.size();
    if (!is_gap(kind_at(text, at, word))) at = run_end(text, at, word);
    while (at < text.size() && is_gap(kind_at(text, at, word))) {
        ++at;
        // An empty line is a word.
        if (at < text.size() && text[at] == '\n' && text[at - 1] == '\n') break;
    }
    return at;
}

/// b, B
std::size_t vi_word_before(std::string_view text, std::size_t at, ViWord word) {
    while (at > 0 && is_gap(kind_at(text, previous_character(text, at), word)))
        at = previous_character(text, at);
    return at == 0 ? 0 : run_begin(text, previous_character(text, at), word);
}

/// e, E: the last character of the next word end. `stays`: the end of the word at `at`, also if it is there.
std::size_t vi_word_end(std::string_view text, std::size_t at, ViWord word, bool stays = false) {
    if (at >= text.size()) return text.size();
    if (!stays) at = next_character(text, at);
    while (at < text.size() && is_gap(kind_at(text, at, word))) ++at;
    if (at >= text.size()) return text.empty() ? 0 : previous_character(text, text.size());
    return previous_character(text, run_end(text, at, word));
}

/// The beginning and the end of a text object: `kind` is w, W, a quote or a bracket (b and B are brackets). `around`: with its
/// quotes, brackets or blanks.
std::optional<std::pair<std::size_t, std::size_t>> vi_object(std::string_view text, std::size_t at,
                                                             char kind, bool around) {
    switch (kind) {
        case 'w': return word_object(text, at, ViWord::small, around);
        case 'W': return word_object(text, at, ViWord::big, around);
        case '"':
        case '\'':
        case '`': return quote_object(text, at, kind, around);
        case '(':
        case ')':
        case 'b': return bracket_object(text, at, '(', ')', around);
        case '{':
        case '}':
        case 'B': return bracket_object(text, at, '{', '}', around);
        case '[':
        case ']': return bracket_object(text, at, '[', ']', around);
        case '<':
        case '>': return bracket_object(text, at, '<', '>', around);
        default: return std::nullopt;
    }
}

constexpr std::size_t largest_count = 1000;
/// A longer insertion is not repeated.
constexpr std::size_t longest_record = 10'000;
constexpr std::size_t longest_put = std::size_t{8} << 20;

bool is_in(std::string_view set, char key) { return set.find(key) != std::string_view::npos; }

/// The commands of the keys that are not text.
char command_of(KeyCode code) {
    switch (code) {
        case KeyCode::left:
        case KeyCode::backspace: return 'h';
        case KeyCode::right: return 'l';
        case KeyCode::up: return 'k';
        case KeyCode::down:
        case KeyCode::new_line: return 'j';
        case KeyCode::home: return '0';
        case KeyCode::end: return '$';
        case KeyCode::word_left: return 'b';
        case KeyCode::word_right: return 'w';
        case KeyCode::erase: return 'x';
        default: return 0;
    }
}

std::string text_of(const EditBuffer& buffer, std::size_t from, std::size_t to) {
    return buffer.text().substr(from, to - from);
}

/// Replaces a part of the text, which can be undone.
void replace_part(EditBuffer& buffer, std::size_t from, std::size_t to, std::string_view with,
                  std::size_t cursor) {
    std::string text = buffer.text();
    text.replace(from, to - from, with);
    buffer.replace(std::move(text), cursor);
}

}  // namespace

void ViKeys::begin(EditBuffer& buffer) {
    normal_ = false;
    recording_ = false;
    clear_command();
    record_.clear();
    buffer.begin_unit();
}

void ViKeys::begin_insert(EditBuffer& buffer, std::size_t at) {
    normal_ = false;
    recording_ = !replaying_;
    buffer.move_to(at);
}

void ViKeys::leave_insert(EditBuffer& buffer) {
    normal_ = true;
    buffer.end_unit();
    if (std::exchange(recording_, false)) {
        record_.push_back(Key{KeyCode::escape, {}});
        repeat_ = std::exchange(record_, {});
    }
    record_.clear();
    clear_command();
    const std::size_t at = buffer.cursor();
    if (at > vi_line_begin(buffer.text(), at))
        buffer.move_to(previous_character(buffer.text(), at));
}

void ViKeys::note_insert(const Key& key) {
    if (!recording_) return;
    switch (key.code) {
        case KeyCode::text:
        case KeyCode::paste:
        case KeyCode::new_line:
        case KeyCode::backspace:
        case KeyCode::erase_word:
        case KeyCode::erase_to_start: record_.push_back(key); break;
        default: recording_ = false;
    }
    if (record_.size() > longest_record) recording_ = false;
}

void ViKeys::change_texts(const std::function<std::string(const std::string&)>& change) {
    stored_ = change(stored_);
    for (Key& key : repeat_) {
        if (key.code == KeyCode::paste) key.text = change(key.text);
    }
}

void ViKeys::snap_cursor(EditBuffer& buffer) const {
    if (!normal_) return;
    const std::string& text = buffer.text();
    const std::size_t at = buffer.cursor();
    const std::size_t begin = vi_line_begin(text, at);
    if (at > begin && at == vi_line_end(text, at)) buffer.move_to(previous_character(text, at));
}

std::size_t ViKeys::count() const noexcept {
    return std::min(std::max<std::size_t>(count_, 1) * std::max<std::size_t>(operator_count_, 1),
                    largest_count);
}

void ViKeys::clear_command() {
    count_ = operator_count_ = 0;
    operator_ = waits_ = 0;
}

/// The end of a command. A change is what `.` repeats.
ViKeys::Outcome ViKeys::finish(EditBuffer& buffer, bool is_change) {
    clear_command();
    if (normal_) {
        if (is_change && !replaying_) repeat_ = record_;
        record_.clear();
        snap_cursor(buffer);
    }
    return Outcome::used;
}

ViKeys::Outcome ViKeys::press(const Key& key, EditBuffer& buffer) {
    if (key.code == KeyCode::escape) {
        const bool had_command = operator_ != 0 || waits_ != 0 || count_ != 0;
        clear_command();
        record_.clear();
        return had_command ? Outcome::used : Outcome::unused;
    }
    if (key.code == KeyCode::search) {
        for (std::size_t i = count(); i > 0 && buffer.redo(); --i) {
        }
        (void)finish(buffer, false);
        return Outcome::restored;
    }
    if (key.code == KeyCode::tab) return Outcome::used;
    if (key.code == KeyCode::text) return command(key.text, buffer);
    if ((key.code == KeyCode::enter || key.code == KeyCode::new_line) &&
        (waits_ != 0 || operator_ != 0)) {
        if (waits_ == 'r' && operator_ == 0) return command("\n", buffer);
        // It ends the command, and sends no text that is half changed.
        clear_command();
        record_.clear();
        return Outcome::used;
    }
    const char same = command_of(key.code);
    if (same != 0 && waits_ == 0) return command(std::string(1, same), buffer);
    clear_command();
    record_.clear();
    return Outcome::unused;
}

ViKeys::Outcome ViKeys::command(std::string_view key, EditBuffer& buffer) {
    // A count belongs to the repetition, not to what is repeated.
    if (!replaying_) record_.push_back(Key{KeyCode::text, std::string(key)});
    if (waits_ != 0) return with_argument(key, buffer);
    if (key.size() != 1) return finish(buffer, false);
    const char c = key.front();
    if ((c >= '1' && c <= '9') || (c == '0' && count_ > 0)) {
        count_ = std::min(count_ * 10 + static_cast<std::size_t>(c - '0'), largest_count);
        return Outcome::used;
    }
    if (is_in("fFtTgr", c) || (operator_ != 0 && is_in("ia", c))) {
        waits_ = c;
        return Outcome::used;
    }
    if (is_in("dcy", c) && operator_ == 0) {
        operator_ = c;
        operator_count_ = std::exchange(count_, 0);
        return Outcome::used;
    }
    return operator_ != 0 || is_in("hlwWbBeE0^$G;,", c) ? move_or_operate(c, buffer)
                                                        : simple(c, buffer);
}

/// The key after f, g, r and those of text objects.
ViKeys::Outcome ViKeys::with_argument(std::string_view key, EditBuffer& buffer) {
    const char waited = std::exchange(waits_, '\0');
    if (is_in("fFtT", waited)) {
        find_kind_ = waited;
        find_text_ = key;
        return move_or_operate(waited, buffer);
    }
    if (waited == 'g') return key == "g" ? move_or_operate('g', buffer) : finish(buffer, false);
    if (waited == 'r') {
        if (operator_ != 0) return finish(buffer, false);
        replace_character(key, buffer);
        return finish(buffer, true);
    }
    const auto object = key.size() == 1
                            ? vi_object(buffer.text(), buffer.cursor(), key.front(), waited == 'a')
                            : std::nullopt;
    if (!object) return finish(buffer, false);
    Range range;
    range.from = object->first;
    range.to = object->second;
    return operate(range, buffer);
}

/// A motion, alone or after an operator.
ViKeys::Outcome ViKeys::move_or_operate(char key, EditBuffer& buffer) {
    const std::string& text = buffer.text();
    if (operator_ != 0 && key == operator_) {
        Range lines;
        lines.from = vi_line_begin(text, buffer.cursor());
        lines.to = lines.from;
        for (std::size_t i = count(); i > 0 && lines.to <= text.size(); --i)
            lines.to = vi_line_end(text, lines.to) + 1;
        lines.to = std::min(lines.to - 1, text.size());
        lines.is_linewise = true;
        return operate(lines, buffer);
    }
    const std::optional<Target> target = motion(key, buffer);
    if (!target) return finish(buffer, false);
    if (operator_ != 0) return operate(range_to(*target, buffer), buffer);
    buffer.move_to(target->is_linewise ? vi_line_text(text, target->at) : target->at);
    return finish(buffer, false);
}

std::optional<ViKeys::Target> ViKeys::motion(char key, const EditBuffer& buffer) const {
    const std::string& text = buffer.text();
    const ViWord word = is_in("WBE", key) ? ViWord::big : ViWord::small;
    Target target;
    target.at = buffer.cursor();
    std::size_t& at = target.at;
    std::size_t left = count();
    switch (key) {
        case 'h':
            for (; left > 0 && at > vi_line_begin(text, at); --left)
                at = previous_character(text, at);
            return target;
        case 'l':
            for (; left > 0 && at < vi_line_end(text, at); --left) at = next_character(text, at);
            return target;
        case '0': at = vi_line_begin(text, at); return target;
        case '^': at = vi_line_text(text, at); return target;
        case '$':
            for (; left > 1 && vi_line_end(text, at) < text.size(); --left)
                at = vi_line_end(text, at) + 1;
            at = vi_line_end(text, at);
            return target;
        case 'w':
        case 'W': {
            const bool is_word =
                at < text.size() && !std::isspace(static_cast<unsigned char>(text[at]));
            if (operator_ == 'c' && is_word) {
                // The blanks after the word stay.
                at = vi_word_end(text, at, word, true);
                for (; left > 1; --left) at = vi_word_end(text, at, word);
                target.is_inclusive = true;
                return target;
            }
            std::size_t before = at;
            for (; left > 0; --left) {
                before = at;
                at = vi_next_word(text, at, word);
            }
            // The last word of a line is changed without the line feed.
            if (operator_ != 0 && vi_line_end(text, before) < at && at != before)
                at = std::max(vi_line_end(text, before), before);
            return target;
        }
        case 'b':
        case 'B':
            for (; left > 0; --left) at = vi_word_before(text, at, word);
            return target;
        case 'e':
        case 'E':
            for (; left > 0; --left) at = vi_word_end(text, at, word);
            target.is_inclusive = true;
            return target;
        case 'g':
        case 'G':
            target.is_linewise = true;
            at = vi_line(text, count_ == 0 && key == 'G' ? text.size() + 1 : count());
            return target;
        case 'j':
        case 'k':
            target.is_linewise = true;
            for (; left > 0; --left) {
                const std::size_t edge =
                    key == 'k' ? vi_line_begin(text, at) : vi_line_end(text, at);
                if (edge == (key == 'k' ? 0 : text.size())) return std::nullopt;
                at = key == 'k' ? vi_line_begin(text, edge - 1) : edge + 1;
            }
            return target;
        case 'f':
        case 'F':
        case 't':
        case 'T': return find(text, at, key, find_text_, false);
        case ';':
        case ',': {
            char kind = find_kind_;
            if (kind == 0) return std::nullopt;
            if (key == ',')
                kind = static_cast<char>(std::isupper(static_cast<unsigned char>(kind)) != 0
                                             ? std::tolower(static_cast<unsigned char>(kind))
                                             : std::toupper(static_cast<unsigned char>(kind)));
            return find(text, at, kind, find_text_, true);
        }
        default: return std::nullopt;
    }
}

/// f, F, t, T in the line. `again`: a character next to the cursor is not found a second time.
std::optional<ViKeys::Target> ViKeys::find(std::string_view text, std::size_t at, char kind,
                                           std::string_view wanted, bool again) const {
    const bool forward = kind == 'f' || kind == 't';
    const bool before = kind == 't' || kind == 'T';
    const std::size_t begin = vi_line_begin(text, at);
    const std::size_t end = vi_line_end(text, at);
    std::size_t here = at;
    const auto step = [&] {
        if (forward ? here >= end : here <= begin) return false;
        here = forward ? next_character(text, here) : previous_character(text, here);
        return !forward || here < end;
    };
    for (std::size_t left = count(); left > 0;) {
        const bool first = here == at;
        if (!step()) return std::nullopt;
        if (text.compare(here, wanted.size(), wanted) != 0) continue;
        if (again && before && first && left == count()) continue;
        --left;
    }
    Target target;
    target.at = here;
    if (before) target.at = forward ? previous_character(text, here) : next_character(text, here);
    target.is_inclusive = forward;
    return target;
}

ViKeys::Range ViKeys::range_to(const Target& target, const EditBuffer& buffer) const {
    const std::string& text = buffer.text();
    Range range;
    range.from = std::min(buffer.cursor(), target.at);
    range.to = std::max(buffer.cursor(), target.at);
    range.is_linewise = target.is_linewise;
    if (target.is_inclusive) range.to = std::min(next_character(text, range.to), text.size());
    if (range.is_linewise) {
        range.from = vi_line_begin(text, range.from);
        range.to = vi_line_end(text, range.to);
    }
    return range;
}

void ViKeys::store(const EditBuffer& buffer, const Range& range) {
    stored_ = text_of(buffer, range.from, range.to);
    stored_lines_ = range.is_linewise;
}

ViKeys::Outcome ViKeys::operate(const Range& range, EditBuffer& buffer) {
    const std::string& text = buffer.text();
    const char what = operator_;
    if (range.from < range.to || range.is_linewise) store(buffer, range);
    if (what == 'y') {
        if (!range.is_linewise || range.from < vi_line_begin(text, buffer.cursor()))
            buffer.move_to(range.from);
        return finish(buffer, false);
    }
    if (what == 'c') {
        if (!replaying_) buffer.begin_unit();
        replace_part(buffer, range.from, range.to, {}, range.from);
        begin_insert(buffer, range.from);
        return finish(buffer, true);
    }
    if (range.from == range.to && !range.is_linewise) return finish(buffer, false);
    std::size_t from = range.from;
    std::size_t to = range.to;
    if (range.is_linewise) {
        // With the line feed after it, or before it at the end.
        if (to < text.size()) {
            ++to;
        } else if (from > 0) {
            --from;
        }
    }
    replace_part(buffer, from, to, {}, from);
    if (range.is_linewise) buffer.move_to(vi_line_text(text, std::min(range.from, text.size())));
    return finish(buffer, true);
}

ViKeys::Outcome ViKeys::vertical(bool up, EditBuffer& buffer) {
    for (std::size_t left = count(); left > 0; --left) {
        const bool moved = buffer.apply(Key{up ? KeyCode::up : KeyCode::down, {}});
        if (moved) continue;
        if (left < count()) break;
        (void)finish(buffer, false);
        return up ? Outcome::older : Outcome::newer;
    }
    return finish(buffer, false);
}

/// A command without a motion.
ViKeys::Outcome ViKeys::simple(char key, EditBuffer& buffer) {
    switch (key) {
        case 'j':
        case 'k': return vertical(key == 'k', buffer);
        case 'u':
            for (std::size_t i = count(); i > 0; --i) (void)buffer.apply(Key{KeyCode::undo, {}});
            (void)finish(buffer, false);
            return Outcome::restored;
        case '.': return repeat(buffer);
        case '/': (void)finish(buffer, false); return Outcome::search;
        case 'p':
        case 'P': return put(buffer, key == 'P');
        // Each is short for an operator and a motion.
        case 'x': operator_ = 'd'; return move_or_operate('l', buffer);
        case 'X': operator_ = 'd'; return move_or_operate('h', buffer);
        case 'D': operator_ = 'd'; return move_or_operate('$', buffer);
        case 'C': operator_ = 'c'; return move_or_operate('$', buffer);
        case 's': operator_ = 'c'; return move_or_operate('l', buffer);
        case 'S': operator_ = 'c'; return move_or_operate('c', buffer);
        case 'Y': operator_ = 'y'; return move_or_operate('y', buffer);
        default: return change(key, buffer);
    }
}

ViKeys::Outcome ViKeys::change(char key, EditBuffer& buffer) {
    const std::string& text = buffer.text();
    const std::size_t at = buffer.cursor();
    if (is_in("aAiIoO", key) && !replaying_) buffer.begin_unit();
    switch (key) {
        case 'i': begin_insert(buffer, at); break;
        case 'I': begin_insert(buffer, vi_line_text(text, at)); break;
        case 'a':
            begin_insert(buffer, at < vi_line_end(text, at) ? next_character(text, at) : at);
            break;
        case 'A': begin_insert(buffer, vi_line_end(text, at)); break;
        case 'o':
        case 'O': open_line(buffer, key == 'o'); break;
        case '~': toggle_case(buffer); break;
        case 'J': join(buffer); break;
        default: return finish(buffer, false);
    }
    return finish(buffer, true);
}

void ViKeys::open_line(EditBuffer& buffer, bool below) {
    const std::string& text = buffer.text();
    const std::size_t at =
        below ? vi_line_end(text, buffer.cursor()) : vi_line_begin(text, buffer.cursor());
    replace_part(buffer, at, at, "\n", at);
    begin_insert(buffer, below ? at + 1 : at);
}

void ViKeys::replace_character(std::string_view with, EditBuffer& buffer) {
    const std::string& text = buffer.text();
    const std::size_t from = buffer.cursor();
    std::size_t to = from;
    std::string made;
    for (std::size_t i = count(); i > 0; --i) {
        if (to >= vi_line_end(text, from)) return;
        to = next_character(text, to);
        made += with;
    }
    replace_part(buffer, from, to, made, from + made.size() - with.size());
}

void ViKeys::toggle_case(EditBuffer& buffer) {
    std::string text = buffer.text();
    std::size_t at = buffer.cursor();
    for (std::size_t i = count(); i > 0 && at < vi_line_end(text, at); --i) {
        const auto byte = static_cast<unsigned char>(text[at]);
        if (byte < 0x80)
            text[at] = static_cast<char>(std::islower(byte) != 0 ? std::toupper(byte)
                                                                 : std::tolower(byte));
        at = next_character(text, at);
    }
    buffer.replace(std::move(text), at);
}

void ViKeys::join(EditBuffer& buffer) {
    std::string text = buffer.text();
    std::size_t at = buffer.cursor();
    for (std::size_t i = std::max<std::size_t>(count(), 2); i > 1; --i) {
        const std::size_t end = vi_line_end(text, at);
        if (end == text.size()) break;
        const std::size_t next = vi_line_text(text, end + 1);
        const bool spaced = end > 0 && text[end - 1] != ' ' && text[end - 1] != '\n' &&
                            next < text.size() && text[next] != '\n';
        text.replace(end, next - end, spaced ? " " : "");
        at = end;
    }
    buffer.replace(std::move(text), at);
}

ViKeys::Outcome ViKeys::put(EditBuffer& buffer, bool before) {
    const std::string& text = buffer.text();
    const std::size_t times = count();
    if (stored_.empty() && !stored_lines_) return finish(buffer, false);
    if (stored_.size() * times > longest_put) return finish(buffer, false);
    std::string made;
    std::size_t at = buffer.cursor();
    std::size_t cursor = 0;
    if (stored_lines_) {
        at = before ? vi_line_begin(text, at) : vi_line_end(text, at);
        for (std::size_t i = 0; i < times; ++i) made += before ? stored_ + "\n" : "\n" + stored_;
        cursor = before ? at : at + 1;
    } else {
        if (!before && at < vi_line_end(text, at)) at = next_character(text, at);
        for (std::size_t i = 0; i < times; ++i) made += stored_;
        cursor = at + previous_character(made, made.size());
    }
    replace_part(buffer, at, at, made, cursor);
    if (stored_lines_) buffer.move_to(vi_line_text(text, cursor));
    (void)finish(buffer, true);
    return Outcome::restored;
}

/// Presses the keys of the last change again. A count replaces the one it had.
ViKeys::Outcome ViKeys::repeat(EditBuffer& buffer) {
    const std::size_t wanted = count_;
    clear_command();
    record_.clear();
    if (repeat_.empty() || replaying_) return Outcome::used;
    replaying_ = true;
    buffer.begin_unit();
    std::size_t i = 0;
    if (wanted > 0) {
        while (i < repeat_.size() && std::isdigit(static_cast<unsigned char>(
                                         repeat_[i].text.empty() ? 'x' : repeat_[i].text[0])) != 0)
            ++i;
        count_ = wanted;
    }
    for (; i < repeat_.size(); ++i) {
        const Key key = repeat_[i];
        if (normal_) {
            (void)command(key.text, buffer);
        } else if (key.code == KeyCode::escape) {
            leave_insert(buffer);
        } else {
            (void)buffer.apply(key);
        }
    }
    if (!normal_) leave_insert(buffer);
    replaying_ = false;
    buffer.end_unit();
    snap_cursor(buffer);
    return Outcome::restored;
}

}  // namespace cubepi::app
