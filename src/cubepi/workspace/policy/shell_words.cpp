#include <cubepi/workspace/policy/shell_words.hpp>

namespace cubepi::detail {

namespace {

/// Characters that have no special meaning for a shell anywhere outside of quotes.
constexpr std::string_view plain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,^";

/// Splits a text at blanks, and stops at the first part that is not literal.
class LiteralReader {
public:
    explicit LiteralReader(std::string_view text) : text_(text) {}

    std::optional<std::vector<std::string>> words() {
        while (at_ < text_.size()) {
            if (!take(text_[at_++])) return std::nullopt;
        }
        end_word();
        return std::move(words_);
    }

private:
    bool take(char c) {
        if (c == ' ' || c == '\t') {
            end_word();
            return true;
        }
        const bool begins = !in_word_;
        in_word_ = true;
        if (c == '\'') return take_single_quoted();
        if (c == '"') return take_double_quoted();
        if (c == '\\') {
            if (at_ == text_.size() || text_[at_] < ' ' || text_[at_] == 0x7F) return false;
            word_ += text_[at_++];
            return true;
        }
        // A home directory: at the beginning, and after = and : (bash).
        if (c == '~') {
            if (begins || word_.empty() || word_.back() == '=' || word_.back() == ':') return false;
        } else if (c == '#') {
            if (begins) return false;
        } else if (plain.find(c) == std::string_view::npos) {
            return false;
        }
        word_ += c;
        return true;
    }

    bool take_single_quoted() {
        const auto end = text_.find('\'', at_);
        if (end == std::string_view::npos) return false;
        word_ += text_.substr(at_, end - at_);
        at_ = end + 1;
        return word_.find('\0') == std::string::npos;
    }

    bool take_double_quoted() {
        for (; at_ < text_.size(); ++at_) {
            char c = text_[at_];
            if (c == '"') {
                ++at_;
                return true;
            }
            if (c == '$' || c == '`' || c == '!' || c == '\0') return false;
            if (c == '\\' && at_ + 1 < text_.size()) {
                // Inside double quotes a backslash escapes only these (POSIX shell command language, 2.2.3), and a
                // line break, which then disappears.
                const char next = text_[at_ + 1];
                if (next == '\n') return false;
                if (std::string_view("$`\"\\").find(next) != std::string_view::npos) {
                    ++at_;
                    c = next;
                }
            }
            word_ += c;
        }
        return false;
    }

    void end_word() {
        if (in_word_) words_.push_back(std::move(word_));
        word_.clear();
        in_word_ = false;
    }

    const std::string_view text_;
    std::size_t at_ = 0;
    bool in_word_ = false;
    std::string word_;
    std::vector<std::string> words_;
};

}  // namespace

std::optional<std::vector<std::string>> literal_words(std::string_view text) {
    return LiteralReader(text).words();
}

std::string quote_shell_word(std::string_view word) {
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
