#include "safe_json.hpp"

#include <string_view>
#include <utility>

#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/write_json.hpp>
#include <cubepi/schema/json_text.hpp>

#include "terminal_text.hpp"

namespace cubepi::app {

namespace {

/// Adds line breaks to JSON without blanks. Not recursive: the nesting of recorded JSON is that of its writer.
class LineBreaker {
public:
    std::string broken(std::string_view json) {
        for (std::size_t i = 0; i < json.size(); ++i) {
            const char c = json[i];
            if (in_string_) {
                pass_string(c);
            } else if (c == '"') {
                in_string_ = true;
                out_ += c;
            } else if ((c == '{' || c == '[') && (json[i + 1] == '}' || json[i + 1] == ']')) {
                out_ += c;
                out_ += json[++i];
            } else {
                pass_sign(c);
            }
        }
        return std::move(out_);
    }

private:
    void pass_string(char c) {
        out_ += c;
        in_string_ = escaped_ || c != '"';
        escaped_ = !escaped_ && c == '\\';
    }
    void pass_sign(char c) {
        if (c == '}' || c == ']') {
            --depth_;
            begin_line();
        }
        out_ += c;
        if (c == '{' || c == '[') {
            ++depth_;
            begin_line();
        } else if (c == ',') {
            begin_line();
        } else if (c == ':') {
            out_ += ' ';
        }
    }
    void begin_line() {
        out_ += '\n';
        out_.append(2 * depth_, ' ');
    }

    std::string out_;
    std::size_t depth_ = 0;
    bool in_string_ = false;
    bool escaped_ = false;
};

}  // namespace

std::string safe_json_lines(const Json& value) { return LineBreaker().broken(safe_json(value)); }

std::string safe_json(const Json& value) { return safe_json_text(json_text(value)); }

std::string safe_json_text(std::string text) {
    if (!is_utf8(text)) text = replace_broken_utf8(text);
    std::string out;
    out.reserve(text.size());
    // Escaped characters occur only in strings: all other parts of JSON are ASCII.
    for (std::string_view rest = text; !rest.empty();) {
        const FirstCharacter character = first_character(rest);
        if (character.code == 0x7F || is_deceptive(character.code)) {
            detail::append_unicode_escape(out, character.code);
        } else {
            out += rest.substr(0, character.bytes);
        }
        rest.remove_prefix(character.bytes);
    }
    return out;
}

}  // namespace cubepi::app
