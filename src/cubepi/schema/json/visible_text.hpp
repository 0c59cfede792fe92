#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <cubepi/schema/json/utf8.hpp>

// The characters by which a text can differ from what it seems to be. Terminals, rules and cards of questions use one table, so that none
// of them hides what another one shows.

namespace cubepi::detail {

/// Returns true for Unicode's class Bidi_Control.
bool is_bidi_control(char32_t character) noexcept;

/// Returns true for Unicode's class Default_Ignorable_Code_Point without bidirectional controls, and for interlinear annotations.
bool is_ignorable(char32_t character) noexcept;

/// Returns true for a character that is invisible, looks like a space or changes the order of others: the classes above, blanks other
/// than U+0020, and the controls U+0080 to U+009F.
bool is_deceptive(char32_t character) noexcept;

/// Returns `text` on one line, in valid UTF-8, with its invisible and deceptive characters spelled out (^[, ^J, <U+202E>, <9B>). Tabs stay.
std::string visible(std::string_view text);

/// Returns `text` with each character that is not visible ASCII or a space replaced by the output of `add(out, character, rest)`, where
/// `rest` is the text from this character on.
template <class Add>
std::string with_characters(std::string_view text, Add add) {
    std::string out;
    out.reserve(text.size());
    while (true) {
        const auto plain =
            std::find_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; });
        out.append(text.begin(), plain);
        text.remove_prefix(static_cast<std::size_t>(plain - text.begin()));
        if (text.empty()) return out;
        const Utf8Char character = utf8_char(text, 0);
        add(out, character, text);
        text.remove_prefix(character.length);
    }
}

}  // namespace cubepi::detail
