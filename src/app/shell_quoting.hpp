#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubepi::app {

/// The styles of quoting in bash. With each of them no character is interpreted by the shell or the terminal.
enum class ShellQuote {
    backslash,  ///< my\ plan
    single,     ///< 'my plan'
    dual,       ///< "my plan"
    ansi_c      ///< $'my plan', inserted after a $ that is there already: 'my plan'
};

/// The text as one word of bash, zsh or ksh. Control characters and invalid UTF-8 become $'\xHH'.
std::string quoted_for_shell(std::string_view text, ShellQuote style);
/// The shortest form to print in a command that the user can copy: plain where no quoting is needed.
std::string shell_word(std::string_view text);

/// A bash command line up to the cursor, split without evaluating anything: expansions stay as written.
struct ShellLine {
    std::vector<std::string> words = {};  ///< the complete ones, unquoted; without redirections
    std::string word = {};                ///< the one at the cursor, unquoted
    std::string raw = {};                 ///< the same as typed
    ShellQuote quote = ShellQuote::backslash;  ///< the quote that is open at the cursor
    bool redirection = false;                  ///< the word at the cursor is a file after < or >
};
ShellLine split_shell_line(std::string_view line);

}  // namespace cubepi::app
