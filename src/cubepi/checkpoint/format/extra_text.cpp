#include <cubepi/checkpoint/format/extra_text.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

struct Field {
    std::string key;
    std::string key_text;  ///< as it is stored, with its quotes
    std::string text;
};

/// Splits a JSON object into its members without parsing the values.
class Splitter {
public:
    explicit Splitter(std::string_view text) : text_(text) {}

    std::vector<Field> split() {
        std::vector<Field> fields;
        expect('{');
        if (peek() == '}') return fields;
        do {
            Field field;
            field.key_text = take_value();
            field.key = parse_key(field.key_text);
            expect(':');
            field.text = take_value();
            add(fields, std::move(field));
        } while (take(','));
        expect('}');
        return fields;
    }

private:
    static std::string parse_key(std::string_view text) {
        const Json key = parse_lenient(text);
        if (!key.is_string()) refuse();
        return std::string(key.get_string());
    }
    static void add(std::vector<Field>& fields, Field field) {
        // Different keys may be read as the same: each lone surrogate becomes U+FFFD.
        const auto same = std::find_if(fields.begin(), fields.end(), [&](const Field& one) {
            return one.key_text == field.key_text;
        });
        if (same != fields.end()) {
            same->text = std::move(field.text);
        } else {
            fields.push_back(std::move(field));
        }
    }
    [[noreturn]] static void refuse() { throw Error(ErrorCode::parse, "not a JSON object"); }

    void skip_space() {
        const auto next = text_.find_first_not_of(" \t\r\n", at_);
        at_ = std::min(next, text_.size());
    }
    char peek() {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool take(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c)) refuse();
    }
    void skip_string() {
        for (++at_; at_ < text_.size(); ++at_) {
            if (text_[at_] == '\\') {
                ++at_;
            } else if (text_[at_] == '"') {
                ++at_;
                return;
            }
        }
        refuse();
    }
    std::string_view take_value() {
        skip_space();
        const std::size_t start = at_;
        std::size_t depth = 0;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '"') {
                skip_string();
                continue;
            }
            if (depth == 0 && (c == ',' || c == ':' || c == '}' || c == ']')) break;
            if (c == '{' || c == '[') ++depth;
            if (c == '}' || c == ']') --depth;
            ++at_;
        }
        std::string_view value = text_.substr(start, std::min(at_, text_.size()) - start);
        const auto last = value.find_last_not_of(" \t\r\n");
        if (last == std::string_view::npos) refuse();
        return value.substr(0, last + 1);
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

/// Returns true if `value` is the value of the stored text as it is read. A stored null, which CubePi may write, is kept:
/// only a change removes a key.
bool is_unchanged(const std::string& stored, const Json& value, const std::string& text) {
    return stored == text || parse_lenient(stored) == value;
}

Field new_field(std::string_view key, std::string text) {
    Field field;
    field.key = key;
    append_python_string(field.key_text, key);
    field.text = std::move(text);
    return field;
}

}  // namespace

std::string merge_extra_text(std::string_view stored, const JsonObject& changes) {
    std::vector<Field> fields = Splitter(stored).split();
    for (const auto& [key, value] : changes) {
        const std::string_view name = key;
        const auto has_name = [&](const Field& one) { return one.key == name; };
        // Of several keys that are read as the same, the last one was loaded.
        const auto field = std::find_if(fields.rbegin(), fields.rend(), has_name);
        std::string text = to_python_json(value);
        if (field == fields.rend()) {
            if (!value.is_null()) fields.push_back(new_field(name, std::move(text)));
        } else if (!is_unchanged(field->text, value, text)) {
            if (value.is_null()) {
                std::erase_if(fields, has_name);
            } else {
                field->text = std::move(text);
            }
        }
    }
    std::string merged = "{";
    for (const Field& field : fields) {
        if (merged.size() > 1) merged += ", ";
        merged += field.key_text;
        merged += ": ";
        merged += field.text;
    }
    merged += "}";
    return merged;
}

}  // namespace cubepi::detail
