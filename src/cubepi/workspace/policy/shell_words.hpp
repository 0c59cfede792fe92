#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// Splits a text that a shell takes literally (plain characters, backslashes and quotes) into words. Returns nothing if the
/// shell would expand something (expansions, patterns, braces, a home directory, a comment), if an operator, a byte beyond
/// ASCII or a control character occurs outside of quotes, or if a quote is not closed. Quotes may contain any byte except
/// zero; `$`, a backtick and `!` inside double quotes are refused.
std::optional<std::vector<std::string>> literal_words(std::string_view text);

/// Quotes a word, if necessary, so that a shell takes it literally.
std::string quote_shell_word(std::string_view word);

}  // namespace cubepi::detail
