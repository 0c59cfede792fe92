#include "key_bindings.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <cubepi/core/error.hpp>

namespace cubepi::app {

namespace {

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

std::span<const KeyAction> KeyBindings::actions() { return known_actions; }

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
