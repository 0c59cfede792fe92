#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace cubepi::app {

// Places in a text of UTF-8, as vi finds them. All are byte offsets between two characters.

/// The words of vi: runs of letters or of signs, or everything between blanks.
enum class ViWord { small, big };

std::size_t vi_line_begin(std::string_view text, std::size_t at);
/// The line feed that ends the line, or the end of the text.
std::size_t vi_line_end(std::string_view text, std::size_t at);
/// The first character of the line that is not a blank.
std::size_t vi_line_text(std::string_view text, std::size_t at);
/// The beginning of line `number`, from 1; that of the last one if there are fewer.
std::size_t vi_line(std::string_view text, std::size_t number);

/// w, W: the beginning of the next word.
std::size_t vi_next_word(std::string_view text, std::size_t at, ViWord word);
/// b, B
std::size_t vi_word_before(std::string_view text, std::size_t at, ViWord word);
/// e, E: the last character of the next word end. `stays`: the end of the word at `at`, also if it is there.
std::size_t vi_word_end(std::string_view text, std::size_t at, ViWord word, bool stays = false);

/// The beginning and the end of a text object: `kind` is w, W, a quote or a bracket (b and B are brackets). `around`: with its
/// quotes, brackets or blanks.
std::optional<std::pair<std::size_t, std::size_t>> vi_object(std::string_view text, std::size_t at,
                                                             char kind, bool around);

}  // namespace cubepi::app
