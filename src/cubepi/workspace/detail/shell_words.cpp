#include <cubepi/workspace/detail/shell_words.hpp>

namespace cubepi::detail {

namespace {

/// Appends what is inside double quotes; `at` is behind the opening one and ends behind the closing one.
bool take_double_quoted(std::string_view command, std::size_t& at, std::string& word) {
    for (; at < command.size() && command[at] != '"'; ++at) {
        // Inside double quotes a backslash escapes only these (POSIX shell command language, 2.2.3).
        if (command[at] == '\\' && at + 1 < command.size() &&
            std::string_view("$`\"\\").find(command[at + 1]) != std::string_view::npos) {
            ++at;
        }
        word += command[at];
    }
    return at++ < command.size();
}

}  // namespace

std::optional<std::vector<std::string>> split_shell_words(std::string_view command) {
    std::vector<std::string> words;
    std::string word;
    bool in_word = false;
    for (std::size_t at = 0; at < command.size();) {
        const char c = command[at++];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            if (in_word) words.push_back(std::move(word));
            word.clear();
            in_word = false;
            continue;
        }
        in_word = true;
        if (c == '\'') {
            const auto end = command.find('\'', at);
            if (end == std::string_view::npos) return std::nullopt;
            word += command.substr(at, end - at);
            at = end + 1;
        } else if (c == '"') {
            if (!take_double_quoted(command, at, word)) return std::nullopt;
        } else if (c == '\\') {
            if (at == command.size()) return std::nullopt;
            word += command[at++];
        } else {
            word += c;
        }
    }
    if (in_word) words.push_back(std::move(word));
    return words;
}

std::string quote_shell_word(std::string_view word) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,^";
    if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos)
        return std::string(word);
    std::string quoted = "'";
    for (const char c : word) {
        if (c == '\'')
            quoted += "'\\''";
        else
            quoted += c;
    }
    return quoted + "'";
}

}  // namespace cubepi::detail
