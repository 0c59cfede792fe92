#include "keys.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <cubepi/core/error.hpp>

#include "terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view paste_end = "\x1b[201~";

struct Sequence {
    std::string_view bytes;  // after the Esc
    KeyCode code;
};

constexpr std::array sequences{
    Sequence{"[A", KeyCode::up},
    Sequence{"OA", KeyCode::up},
    Sequence{"[B", KeyCode::down},
    Sequence{"OB", KeyCode::down},
    Sequence{"[C", KeyCode::right},
    Sequence{"OC", KeyCode::right},
    Sequence{"[D", KeyCode::left},
    Sequence{"OD", KeyCode::left},
    Sequence{"[H", KeyCode::home},
    Sequence{"OH", KeyCode::home},
    Sequence{"[F", KeyCode::end},
    Sequence{"OF", KeyCode::end},
    Sequence{"[1~", KeyCode::home},
    Sequence{"[7~", KeyCode::home},
    Sequence{"[4~", KeyCode::end},
    Sequence{"[8~", KeyCode::end},
    Sequence{"[3~", KeyCode::erase},
    Sequence{"[5~", KeyCode::page_up},
    Sequence{"[6~", KeyCode::page_down},
    Sequence{"[Z", KeyCode::back_tab},
    Sequence{"[I", KeyCode::focus_in},
    Sequence{"[O", KeyCode::focus_out},
    Sequence{"[9;2u", KeyCode::back_tab},
    Sequence{"[1;5C", KeyCode::word_right},
    Sequence{"[1;3C", KeyCode::word_right},
    Sequence{"[1;5D", KeyCode::word_left},
    Sequence{"[1;3D", KeyCode::word_left},
    Sequence{"f", KeyCode::word_right},
    Sequence{"b", KeyCode::word_left},
    Sequence{"\r", KeyCode::new_line},
    Sequence{"\n", KeyCode::new_line},
    Sequence{"[13;2u", KeyCode::new_line},
    Sequence{"[13;5u", KeyCode::new_line},
    Sequence{"[27;2;13~", KeyCode::new_line},
    Sequence{"[27;5;13~", KeyCode::new_line},
    Sequence{"\x7f", KeyCode::erase_word},
    Sequence{"\x08", KeyCode::erase_word},
    Sequence{"d", KeyCode::erase_next_word},
    Sequence{"[3;5~", KeyCode::erase_next_word},
    Sequence{"[3;3~", KeyCode::erase_next_word},
    Sequence{"[5C", KeyCode::word_right},
    Sequence{"[5D", KeyCode::word_left},
    Sequence{"Oc", KeyCode::word_right},
    Sequence{"Od", KeyCode::word_left},
};

std::string with_line_feeds(std::string_view pasted) {
    std::string text;
    for (std::size_t i = 0; i < pasted.size(); ++i) {
        if (pasted[i] == '\r') {
            if (i + 1 < pasted.size() && pasted[i + 1] == '\n') continue;
            text += '\n';
        } else {
            text += pasted[i];
        }
    }
    return text;
}

bool is_control(char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F; }

/// A byte between the bracket and the end of a sequence.
bool is_parameter(char byte) { return byte >= 0x20 && byte < 0x40; }

bool ends_sequence(char byte) { return byte >= 0x40 && byte < 0x7F; }

Key key(KeyCode code, std::string text = {}) {
    Key result;
    result.code = code;
    result.text = std::move(text);
    return result;
}

/// An action of a key of the console, and the key that does it unless the user has chosen another one.
struct KeyAction {
    std::string_view name = {};  ///< in the configuration
    KeyCode code = KeyCode::text;
    std::string_view key = {};  ///< as the configuration names it
    std::string_view help = {};
};

/// In the order of `/help`.
constexpr std::array<KeyAction, 21> known_actions{{
    {"editor", KeyCode::cancel, "ctrl-g", "edit the text in $VISUAL or $EDITOR"},
    {"pager", KeyCode::unfold, "ctrl-o", "results, outputs and thinking in full"},
    {"mode", KeyCode::back_tab, "shift-tab", "change what tools may do"},
    {"search", KeyCode::search, "ctrl-r", "search the history of inputs"},
    {"new-line", KeyCode::new_line, "alt-enter", "begin another line"},
    {"undo", KeyCode::undo, "ctrl-_", "undo an edit"},
    {"line-start", KeyCode::home, "ctrl-a", {}},
    {"line-end", KeyCode::end, "ctrl-e", {}},
    {"left", KeyCode::left, "ctrl-b", {}},
    {"right", KeyCode::right, "ctrl-f", {}},
    {"up", KeyCode::up, "ctrl-p", {}},
    {"down", KeyCode::down, "ctrl-n", {}},
    {"word-left", KeyCode::word_left, "alt-b", {}},
    {"word-right", KeyCode::word_right, "alt-f", {}},
    {"delete-word", KeyCode::erase_word, "ctrl-w", {}},
    {"delete-next-word", KeyCode::erase_next_word, "alt-d", {}},
    {"delete-to-start", KeyCode::erase_to_start, "ctrl-u", {}},
    {"delete-to-end", KeyCode::erase_to_end, "ctrl-k", {}},
    {"insert-deleted", KeyCode::yank, "ctrl-y", {}},
    {"clear-screen", KeyCode::clear_screen, "ctrl-l", "clear the screen"},
    {"suspend", KeyCode::suspend, "ctrl-z", "suspend the program"},
}};

/// The last parts of the sequences of F1 to F12: of xterm, of the VT220, of the Linux console.
constexpr std::array<std::array<std::string_view, 3>, 12> function_keys{{{"OP", "[11~", "[[A"},
                                                                         {"OQ", "[12~", "[[B"},
                                                                         {"OR", "[13~", "[[C"},
                                                                         {"OS", "[14~", "[[D"},
                                                                         {"[15~", "[15~", "[[E"},
                                                                         {"[17~", "[17~", "[17~"},
                                                                         {"[18~", "[18~", "[18~"},
                                                                         {"[19~", "[19~", "[19~"},
                                                                         {"[20~", "[20~", "[20~"},
                                                                         {"[21~", "[21~", "[21~"},
                                                                         {"[23~", "[23~", "[23~"},
                                                                         {"[24~", "[24~", "[24~"}}};

/// Ctrl-C and Ctrl-D stop and leave; terminals send the others for Backspace, Tab and Enter.
constexpr std::string_view fixed_letters = "cdhijm";

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

/// The bytes that terminals send for a key; empty if it is not one that can be changed.
std::vector<std::string> bytes_of(std::string_view key) {
    if (key == "ctrl-_") return {"\x1f"};
    if (key == "shift-tab") return {"\x1b[Z", "\x1b[9;2u"};
    if (key == "alt-enter") return {"\x1b\r", "\x1b\n"};
    const bool is_chord = key.size() > 1 && is_letter(key.back());
    if (is_chord && key.size() == 6 && key.starts_with("ctrl-") &&
        fixed_letters.find(key.back()) == std::string_view::npos)
        return {std::string(1, static_cast<char>(key.back() - 'a' + 1))};
    if (is_chord && key.size() == 5 && key.starts_with("alt-"))
        return {"\x1b" + std::string(1, key.back())};
    for (std::size_t i = 0; i < function_keys.size(); ++i) {
        if (key != "f" + std::to_string(i + 1)) continue;
        std::vector<std::string> bytes;
        for (const std::string_view end : function_keys[i])
            bytes.push_back("\x1b" + std::string(end));
        return bytes;
    }
    return {};
}

/// "ctrl-o" as "Ctrl-O", as texts name it.
std::string shown_name(std::string_view key) {
    std::string name;
    bool at_start = true;
    for (const char c : key) {
        name += at_start && is_letter(c) ? static_cast<char>(c - 'a' + 'A') : c;
        at_start = c == '-';
    }
    return name;
}

/// A word of `/` and lower-case letters, and its arguments.
bool is_command(std::string_view action) {
    constexpr std::size_t longest = 200;
    return action.size() > 1 && action.size() <= longest && action.front() == '/' &&
           is_letter(action[1]) && action.find_first_of("\r\n") == std::string_view::npos;
}

KeyBindings& current_bindings() {
    static KeyBindings bindings;
    return bindings;
}

}  // namespace

std::vector<Key> KeyDecoder::feed(std::string_view bytes) {
    held_ += bytes;
    std::vector<Key> keys;
    while (!held_.empty() && take(keys)) {
    }
    return keys;
}

KeyDecoder::Pending KeyDecoder::pending() const noexcept {
    if (inside_ != Inside::keys) return Pending::other;
    if (held_.empty()) return Pending::none;
    return held_ == "\x1b" ? Pending::escape : Pending::other;
}

std::vector<Key> KeyDecoder::flush() {
    std::vector<Key> keys;
    if (pending() == Pending::escape) keys.push_back(key(KeyCode::escape));
    if (inside_ == Inside::paste) {
        // The end mark itself may have been cut.
        const std::size_t mark = held_.rfind('\x1b');
        if (mark != std::string::npos &&
            paste_end.starts_with(std::string_view(held_).substr(mark)))
            held_.resize(mark);
        if (!held_.empty()) keys.push_back(key(KeyCode::paste, with_line_feeds(held_)));
    }
    held_.clear();
    inside_ = Inside::keys;
    return keys;
}

/// Takes the first key; returns false if more bytes are needed.
bool KeyDecoder::take(std::vector<Key>& keys) {
    switch (inside_) {
        case Inside::keys: return take_key(keys);
        case Inside::paste: return take_paste(keys);
        case Inside::discarded_paste: return discard_paste();
        case Inside::string: return take_string(keys);
        case Inside::sequence: return discard_sequence();
    }
    return false;
}

bool KeyDecoder::take_key(std::vector<Key>& keys) {
    if (bindings_) {
        if (const auto bound = bindings_->find(held_, alt_letters_)) {
            if (bound->key.code != KeyCode::none) keys.push_back(bound->key);
            held_.erase(0, bound->size);
            return true;
        }
    }
    const char first = held_.front();
    if (first == '\x1b') return take_escape(keys);
    const auto byte = static_cast<unsigned char>(first);
    if (is_control(first)) {
        take_control(first, keys);
        held_.erase(0, 1);
        return true;
    }
    const std::size_t length = character_length(byte);
    for (std::size_t i = 1; i < length; ++i) {
        if (i == held_.size()) return false;
        if ((static_cast<unsigned char>(held_[i]) & 0xC0U) == 0x80) continue;
        held_.erase(0, i);  // a character that was cut
        return true;
    }
    if (byte < 0x80 || byte >= 0xC0) keys.push_back(key(KeyCode::text, held_.substr(0, length)));
    held_.erase(0, length);
    return true;
}

bool KeyDecoder::take_paste(std::vector<Key>& keys) {
    const std::size_t end = held_.find(paste_end, searched_);
    const bool ended = end != std::string::npos;
    const std::size_t length = std::min(ended ? end : held_.size(), max_paste);
    if (!ended && held_.size() < max_paste + paste_end.size()) {
        searched_ = held_.size() - std::min(held_.size(), paste_end.size() - 1);
        return false;
    }
    keys.push_back(key(KeyCode::paste, with_line_feeds(std::string_view(held_).substr(0, length))));
    held_.erase(0, ended ? end + paste_end.size() : length);
    inside_ = ended ? Inside::keys : Inside::discarded_paste;
    return true;
}

/// Ctrl-C ends a paste that is discarded, and is the key.
bool KeyDecoder::discard_paste() {
    const std::size_t end = held_.find(paste_end);
    const std::size_t interrupt = held_.find('\x03');
    if (end == std::string::npos && interrupt == std::string::npos) {
        held_.erase(0, held_.size() - std::min(held_.size(), paste_end.size() - 1));
        return false;
    }
    held_.erase(0, end < interrupt ? end + paste_end.size() : interrupt);
    inside_ = Inside::keys;
    return true;
}

/// A control string ends with ST or BEL. Any other control character means that it was cut.
bool KeyDecoder::take_string(std::vector<Key>& keys) {
    constexpr std::size_t longest_report = 64;
    const auto end = std::find_if(held_.begin(), held_.end(), is_control);
    if (report_.size() <= longest_report) report_.append(held_.begin(), end);
    held_.erase(held_.begin(), end);
    if (held_.empty() || held_ == "\x1b") return false;
    const bool ends = held_.starts_with("\x1b\\") || held_.front() == '\x07';
    if (ends) held_.erase(0, held_.front() == '\x07' ? 1 : 2);
    if (ends && is_report_ && report_.size() <= longest_report)
        keys.push_back(key(KeyCode::report, report_));
    report_.clear();
    inside_ = Inside::keys;
    return true;
}

bool KeyDecoder::discard_sequence() {
    const auto end = std::find_if_not(held_.begin(), held_.end(), is_parameter);
    held_.erase(held_.begin(), end);
    if (held_.empty()) return false;
    if (ends_sequence(held_.front())) held_.erase(0, 1);
    inside_ = Inside::keys;
    return true;
}

bool KeyDecoder::take_escape(std::vector<Key>& keys) {
    const std::string_view rest = std::string_view(held_).substr(1);
    if (rest.empty()) return false;
    if (rest.starts_with("[200~")) {
        held_.erase(0, 6);
        searched_ = 0;
        inside_ = Inside::paste;
        return true;
    }
    // The other characters begin sequences and strings of the terminal.
    const bool is_letter =
        static_cast<unsigned char>(rest.front()) > 0x20 &&
        std::string_view("[O]P_^X\x7f").find(rest.front()) == std::string_view::npos;
    if (!alt_letters_ && is_letter) {
        keys.push_back(key(KeyCode::escape));
        held_.erase(0, 1);
        return true;
    }
    for (const Sequence& sequence : sequences) {
        if (!rest.starts_with(sequence.bytes)) continue;
        keys.push_back(key(sequence.code));
        held_.erase(0, 1 + sequence.bytes.size());
        return true;
    }
    if (rest.starts_with("[M")) return take_fixed(5);  // X10: button, column, row
    if (rest.front() == 'O') return take_fixed(2);
    if (rest.front() == '[') {
        // Function keys of the Linux console have a second bracket.
        const auto from = rest.begin() + (rest.starts_with("[[") ? 2 : 1);
        const auto end = std::find_if_not(from, rest.end(), is_parameter);
        if (end == rest.end() && rest.size() <= 64) return false;
        if (end == rest.end()) {
            held_.clear();
            inside_ = Inside::sequence;
            return false;
        }
        held_.erase(
            0, 1 + static_cast<std::size_t>(end - rest.begin()) + (ends_sequence(*end) ? 1 : 0));
        return true;
    }
    if (std::string_view("]P_^X").find(rest.front()) != std::string_view::npos) {
        is_report_ = rest.front() == ']';
        report_.clear();
        held_.erase(0, 2);
        inside_ = Inside::string;
        return true;
    }
    if (is_control(rest.front())) {
        // Ctrl-C right after an Esc is still Ctrl-C; a second Esc may begin a sequence.
        keys.push_back(key(KeyCode::escape));
        held_.erase(0, 1);
        return true;
    }
    // Alt and an unknown key.
    const std::size_t length = character_length(static_cast<unsigned char>(rest.front()));
    if (rest.size() < length) return false;
    held_.erase(0, 1 + length);
    return true;
}

/// Discards an Esc and `size` bytes that follow it, or those before a control character.
bool KeyDecoder::take_fixed(std::size_t size) {
    const auto begin = held_.begin() + 1;
    const auto last = held_.begin() + static_cast<std::ptrdiff_t>(std::min(1 + size, held_.size()));
    const auto end =
        std::find_if(begin, last, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    if (end == held_.end() && held_.size() <= size) return false;
    held_.erase(held_.begin(), end);
    return true;
}

void KeyDecoder::take_control(char byte, std::vector<Key>& keys) {
    switch (byte) {
        case '\r': return keys.push_back(key(KeyCode::enter));
        case '\n': return keys.push_back(key(KeyCode::new_line));
        case '\t': return keys.push_back(key(KeyCode::tab));
        case '\x7f':
        case '\x08': return keys.push_back(key(KeyCode::backspace));
        case '\x01': return keys.push_back(key(KeyCode::home));
        case '\x02': return keys.push_back(key(KeyCode::left));
        case '\x03': return keys.push_back(key(KeyCode::interrupt));
        case '\x04': return keys.push_back(key(KeyCode::end_of_input));
        case '\x05': return keys.push_back(key(KeyCode::end));
        case '\x06': return keys.push_back(key(KeyCode::right));
        case '\x07': return keys.push_back(key(KeyCode::cancel));
        case '\x0b': return keys.push_back(key(KeyCode::erase_to_end));
        case '\x0c': return keys.push_back(key(KeyCode::clear_screen));
        case '\x0e': return keys.push_back(key(KeyCode::down));
        case '\x0f': return keys.push_back(key(KeyCode::unfold));
        case '\x10': return keys.push_back(key(KeyCode::up));
        case '\x12': return keys.push_back(key(KeyCode::search));
        case '\x15': return keys.push_back(key(KeyCode::erase_to_start));
        case '\x17': return keys.push_back(key(KeyCode::erase_word));
        case '\x19': return keys.push_back(key(KeyCode::yank));
        case '\x1f': return keys.push_back(key(KeyCode::undo));
        case '\x1a': return keys.push_back(key(KeyCode::suspend));
        default: return;
    }
}

void KeyBindings::set(std::string_view key, std::string_view action) {
    Changed changed;
    changed.name = key;
    changed.bytes = bytes_of(key);
    if (changed.bytes.empty()) {
        throw Error(
            ErrorCode::invalid_argument,
            "'" + std::string(key) +
                "' is not a key that can be changed: ctrl- or alt- with a lower-case letter "
                "(not ctrl-c, -d, -h, -i, -j, -m), ctrl-_, alt-enter, shift-tab, f1 to f12");
    }
    const auto* const known =
        std::find_if(known_actions.begin(), known_actions.end(),
                     [&](const KeyAction& one) { return one.name == action; });
    if (known != known_actions.end()) {
        changed.key.code = known->code;
    } else if (is_command(action)) {
        changed.key.code = KeyCode::command;
        changed.key.text = action;
    } else if (action == "none") {
        changed.key.code = KeyCode::none;
    } else {
        std::string names;
        for (const KeyAction& one : known_actions) names += std::string(one.name) + ", ";
        throw Error(ErrorCode::invalid_argument, "'" + std::string(action) +
                                                     "' is not an action of keys: " + names +
                                                     "a command such as /status, or none");
    }
    std::erase_if(changed_, [&](const Changed& one) { return one.name == key; });
    changed_.push_back(std::move(changed));
}

std::optional<KeyBindings::Found> KeyBindings::find(std::string_view bytes,
                                                    bool alt_letters) const {
    for (const Changed& one : changed_) {
        if (!alt_letters && one.name.starts_with("alt-") && one.name != "alt-enter") continue;
        for (const std::string& sequence : one.bytes) {
            if (!bytes.starts_with(sequence)) continue;
            Found found;
            found.key = one.key;
            found.size = sequence.size();
            return found;
        }
    }
    return std::nullopt;
}

TerminalText KeyBindings::key_of(KeyCode code) const {
    for (const Changed& one : changed_) {
        if (one.key.code == code) return for_terminal(shown_name(one.name));
    }
    for (const KeyAction& action : known_actions) {
        if (action.code != code) continue;
        const bool is_changed = std::any_of(changed_.begin(), changed_.end(), [&](const auto& one) {
            return one.name == action.key;
        });
        return is_changed ? TerminalText() : for_terminal(shown_name(action.key));
    }
    return {};
}

std::string KeyBindings::hint(KeyCode code, std::string_view otherwise) {
    const TerminalText key = current().key_of(code);
    return key.empty() ? std::string(otherwise) : key.str();
}

std::string KeyBindings::help() const {
    constexpr std::size_t width = 18;
    std::string text;
    const auto add = [&](std::string_view key, std::string_view what) {
        std::string row = "  " + std::string(key);
        row.resize(std::max(row.size() + 1, width + 2), ' ');
        text += row + std::string(what) + "\n";
    };
    const auto key_text = [&](const KeyAction& action) {
        const TerminalText key = key_of(action.code);
        return key.empty() ? std::string("(no key)") : key.str();
    };
    for (const KeyAction& action : known_actions) {
        if (!action.help.empty())
            add(key_text(action), std::string(action.help) + " (" + std::string(action.name) + ")");
    }
    // Their names say what they do.
    constexpr std::size_t longest_row = 78;
    std::string row = "  Editing:";
    for (const KeyAction& action : known_actions) {
        if (!action.help.empty()) continue;
        const std::string one = " " + key_text(action) + " " + std::string(action.name);
        if (row.size() + one.size() > longest_row) {
            text += row + "\n";
            row = "   ";
        }
        row += one + ",";
    }
    row.pop_back();
    text += row + "\n";
    for (const Changed& one : changed_) {
        if (one.key.code == KeyCode::command) add(shown_name(one.name), one.key.text);
    }
    return text;
}

const KeyBindings& KeyBindings::current() { return current_bindings(); }

void KeyBindings::set_current(KeyBindings bindings) { current_bindings() = std::move(bindings); }

}  // namespace cubepi::app
