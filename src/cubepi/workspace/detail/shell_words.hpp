#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// The words of a command line as a POSIX shell would split and unquote it. Expansions stay as they are written. Empty
/// when a quote is not closed.
std::optional<std::vector<std::string>> split_shell_words(std::string_view command);

/// A word so that a shell takes it as it is, quoted where needed.
std::string quote_shell_word(std::string_view word);

}  // namespace cubepi::detail
