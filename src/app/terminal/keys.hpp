#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::app {

enum class KeyCode : std::uint8_t {
    text,   ///< one character, in Key::text
    paste,  ///< a pasted block, in Key::text, with line feeds
    enter,
    new_line,  ///< Alt-Enter, Ctrl-J
    tab,
    backspace,
    erase,  ///< the delete key
    left,
    right,
    up,
    down,
    home,
    end,
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
};

struct Key {
    KeyCode code = KeyCode::text;
    std::string text = {};
};

/// Decodes keys from the bytes of a terminal, which may arrive in any pieces.
class KeyDecoder {
public:
    std::vector<Key> feed(std::string_view bytes);
    /// True after an Esc that may begin a sequence; after a short silence it was the key Esc.
    bool waiting() const noexcept { return held_ == "\x1b" && !pasting_; }
    /// Returns the pending Esc as a key, because nothing follows.
    std::vector<Key> flush();

private:
    bool take(std::vector<Key>& keys);
    bool take_escape(std::vector<Key>& keys);
    bool take_paste(std::vector<Key>& keys);
    void take_control(char byte, std::vector<Key>& keys);

    std::string held_;
    bool pasting_ = false;
};

}  // namespace cubepi::app
