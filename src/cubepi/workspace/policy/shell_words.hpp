#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// The words of a text that a shell takes as it is written: plain characters, backslashes and quotes. Empty when the shell
/// would first compute something (expansions, patterns, braces, a home directory, a comment), when an operator, a byte
/// beyond ASCII or a control character occurs outside of quotes, and when a quote is not closed. What is inside quotes
/// may be any byte but zero; `$`, a backtick and `!` inside double quotes are refused.
std::optional<std::vector<std::string>> literal_words(std::string_view text);

/// A word so that a shell takes it as it is, quoted where needed.
std::string quote_shell_word(std::string_view word);

}  // namespace cubepi::detail
