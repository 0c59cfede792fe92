#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal_text.hpp"

namespace cubepi::app {

enum class KeyCode : std::uint8_t {
    text,   ///< one character, in Key::text
    paste,  ///< a pasted block, in Key::text, with line feeds
    enter,
    new_line,  ///< Alt-Enter, Ctrl-J
    tab,
    back_tab,  ///< Shift-Tab
    backspace,
    erase,  ///< the delete key
    left,
    right,
    up,
    down,
    home,
    end,
    page_up,
    page_down,
    word_left,
    word_right,
    erase_word,       ///< Ctrl-W
    erase_to_start,   ///< Ctrl-U
    erase_to_end,     ///< Ctrl-K
    erase_next_word,  ///< Alt-D
    yank,             ///< Ctrl-Y
    undo,             ///< Ctrl-_
    escape,
    interrupt,     ///< Ctrl-C
    end_of_input,  ///< Ctrl-D
    clear_screen,  ///< Ctrl-L
    unfold,        ///< Ctrl-O
    search,        ///< Ctrl-R
    cancel,        ///< Ctrl-G
    suspend,       ///< Ctrl-Z
    command,       ///< a key that the user has bound to a command, in Key::text
    none,          ///< one that the user has turned off
    // No keys: what a terminal reports because the program has asked.
    focus_in,   ///< the window is in front
    focus_out,  ///< it is not
    report,     ///< the content of a short operating system command (OSC), in Key::text
};

/// True for a report of the terminal.
constexpr bool is_report(KeyCode code) noexcept {
    return code == KeyCode::focus_in || code == KeyCode::focus_out || code == KeyCode::report;
}

struct Key {
    KeyCode code = KeyCode::text;
    std::string text = {};
};

class KeyBindings;

/// Decodes keys from the bytes of a terminal, which may arrive in any pieces. Reports of a terminal (control strings, mouse,
/// unknown sequences) are not keys. Input that does not end is bounded (D95): the caller ends it with flush() after a silence,
/// and control characters end all but a paste.
class KeyDecoder {
public:
    /// The kind of input that has begun and needs more bytes.
    enum class Pending : std::uint8_t {
        none,
        escape,  ///< an Esc: the key, or the beginning of a sequence
        other,   ///< a paste, a report, a sequence, a character
    };
    /// The longest paste, in bytes; more is discarded.
    static constexpr std::size_t max_paste = std::size_t{8} << 20;

    std::vector<Key> feed(std::string_view bytes);
    /// Sets whether Esc and a letter that follow each other at once are Alt and the letter, which they are by default. Where Esc is
    /// a command, as in vi, they are two keys.
    void set_alt_letters(bool used) noexcept { alt_letters_ = used; }
    /// Sets the keys that the user has changed, which must outlive the use; null: none.
    void set_bindings(const KeyBindings* bindings) noexcept { bindings_ = bindings; }
    Pending pending() const noexcept;
    /// Ends the pending input, because nothing follows: an Esc is the key, a paste consists of the bytes that have arrived, and
    /// anything else is dropped.
    std::vector<Key> flush();

private:
    /// Where the next byte belongs.
    enum class Inside : std::uint8_t {
        keys,
        paste,
        discarded_paste,  ///< after max_paste
        string,           ///< OSC, DCS, APC, PM or SOS
        sequence,         ///< the parameters of a long unknown sequence
    };

    bool take(std::vector<Key>& keys);
    bool take_key(std::vector<Key>& keys);
    bool take_escape(std::vector<Key>& keys);
    bool take_fixed(std::size_t size);
    bool take_paste(std::vector<Key>& keys);
    bool discard_paste();
    bool take_string(std::vector<Key>& keys);
    bool discard_sequence();
    void take_control(char byte, std::vector<Key>& keys);

    std::string held_;
    std::string report_;        // the beginning of an OSC
    bool is_report_ = false;    // the string is an OSC
    std::size_t searched_ = 0;  // of a paste: its end mark is not in these bytes
    Inside inside_ = Inside::keys;
    bool alt_letters_ = true;
    const KeyBindings* bindings_ = nullptr;
};

/// The keys that the user has changed (D211). Letters, Enter, Tab, Esc, the arrows, Ctrl-C and Ctrl-D keep their meaning, so that no
/// configuration takes away the keys that stop an answer and leave.
class KeyBindings {
public:
    /// `key`: `ctrl-e`, `alt-e`, `shift-tab`, `f5`; `action`: the name of an action, a command of the chat such as `/status`, or
    /// `none`. Throws Error(invalid_argument) that names what is expected.
    void set(std::string_view key, std::string_view action);

    /// A key at the beginning of some bytes.
    struct Found {
        Key key = {};
        std::size_t size = 0;  ///< in bytes
    };
    /// Returns the changed key with which `bytes` begin. Without `alt_letters` those of Alt and a letter are not used.
    std::optional<Found> find(std::string_view bytes, bool alt_letters) const;

    /// The name of the key that has this action: "Ctrl-O"; empty if none has it.
    TerminalText key_of(KeyCode code) const;
    /// The same of current(), or `otherwise`.
    static std::string hint(KeyCode code, std::string_view otherwise);
    /// The lines of `/help`: each action with its key, then the commands that have a key.
    std::string help() const;

    /// The keys of this process, which texts name; those of the defaults until set_current(). Used on the executor of the console.
    static const KeyBindings& current();
    static void set_current(KeyBindings bindings);

    friend bool operator==(const KeyBindings&, const KeyBindings&) = default;

private:
    struct Changed {
        std::string name = {};                ///< of the key
        Key key = {};                         ///< what it is now
        std::vector<std::string> bytes = {};  ///< that terminals send

        bool operator==(const Changed& other) const {
            return name == other.name && key.code == other.key.code && key.text == other.key.text;
        }
    };
    std::vector<Changed> changed_;
};

}  // namespace cubepi::app
