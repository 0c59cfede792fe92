#include <cubepi/schema/validate/schema_pattern.hpp>

#include <stdexcept>
#include <string>

#include <boost/regex.hpp>

#include <cubepi/schema/json/utf8.hpp>

namespace cubepi::detail {
namespace {

std::wstring to_wide(std::string_view text) {
    std::wstring wide;
    wide.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const auto character = utf8_char(text, at);
        wide += static_cast<wchar_t>(character.code);
        at += character.length;
    }
    return wide;
}

// Translates ECMAScript's \uXXXX to \x{XXXX}.
std::string translate(std::string_view pattern) {
    std::string out;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        if (pattern[at] == '\\' && at + 1 < pattern.size()) {
            if (pattern[at + 1] == 'u' && hex4(pattern, at + 2) >= 0) {
                out += "\\x{" + std::string(pattern.substr(at + 2, 4)) + '}';
                at += 5;
                continue;
            }
            out += pattern[at++];
        }
        out += pattern[at];
    }
    return out;
}

}  // namespace

// Boost.Regex instead of std::regex: libstdc++'s implementation recurses once per character, and a long string from a
// model would overflow the stack.
struct SchemaPattern::Compiled {
    boost::wregex expression;
};

SchemaPattern::SchemaPattern(std::string_view pattern)
    : compiled_(
          std::make_shared<const Compiled>(Compiled{boost::wregex(to_wide(translate(pattern)))})) {}

bool SchemaPattern::found_in(std::string_view text) const {
    try {
        return boost::regex_search(to_wide(text), compiled_->expression, boost::match_single_line);
    } catch (const std::runtime_error&) {
        return false;
    }
}

}  // namespace cubepi::detail
