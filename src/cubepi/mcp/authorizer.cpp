#include <cubepi/mcp/authorizer.hpp>

#include <cstddef>
#include <map>

#include <cubepi/core/support/lower_case.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_header_bytes = 16 * 1024;

bool is_token_character(char c) { return is_http_token(std::string_view(&c, 1)); }

/// Reads challenges (RFC 9110, 11.6.1): a scheme, and parameters or one text without a name.
class ChallengeReader {
public:
    explicit ChallengeReader(std::string_view text) : text_(text) {}

    /// Returns the parameters of the first challenge of the scheme Bearer.
    std::map<std::string, std::string> bearer() {
        std::map<std::string, std::string> parameters;
        bool is_bearer = false;
        while (skip_separators()) {
            const std::string word = lower_case(take_word());
            if (word.empty()) {
                ++at_;  // not a character of a challenge
                continue;
            }
            skip_blanks();
            const bool is_parameter = peek() == '=' && next_starts_value();
            if (!is_parameter) {
                if (is_bearer) return parameters;
                is_bearer = word == "bearer";
                continue;
            }
            ++at_;
            skip_blanks();
            std::string value = peek() == '"' ? take_quoted() : std::string(take_word());
            if (is_bearer) parameters.emplace(word, std::move(value));
        }
        return parameters;
    }

private:
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    void skip_blanks() {
        while (peek() == ' ' || peek() == '\t') ++at_;
    }
    bool skip_separators() {
        while (peek() == ' ' || peek() == '\t' || peek() == ',') ++at_;
        return at_ < text_.size();
    }
    std::string_view take_word() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && is_token_character(text_[at_])) ++at_;
        return text_.substr(begin, at_ - begin);
    }
    /// A text without a name may end in '=' too: "Basic YWJj=".
    bool next_starts_value() const {
        std::size_t next = at_ + 1;
        while (next < text_.size() && (text_[next] == ' ' || text_[next] == '\t')) ++next;
        return next < text_.size() && (text_[next] == '"' || is_token_character(text_[next]));
    }
    std::string take_quoted() {
        std::string value;
        for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
            if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
            value += text_[at_];
        }
        if (at_ < text_.size()) ++at_;
        return value;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

McpChallenge read_mcp_challenge(int status, const HttpHeaders& headers) {
    McpChallenge challenge;
    challenge.status = status;
    for (const HttpHeader& header : headers) {
        if (lower_case(header.name) != "www-authenticate") continue;
        if (header.value.size() > max_header_bytes) continue;
        std::map<std::string, std::string> parameters = ChallengeReader(header.value).bearer();
        if (parameters.empty()) continue;
        challenge.resource_metadata = std::move(parameters["resource_metadata"]);
        challenge.scope = std::move(parameters["scope"]);
        challenge.error = std::move(parameters["error"]);
        break;
    }
    return challenge;
}

bool wants_authorization(const McpChallenge& challenge) noexcept {
    return challenge.status == 401 ||
           (challenge.status == 403 && challenge.error == "insufficient_scope");
}

}  // namespace cubepi::detail
