#include <cubepi/checkpoint/format/stored_json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/write_json.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

[[noreturn]] void throw_too_deep(const std::string& thread_id, const char* what) {
    throw CheckpointerError(ErrorCode::invalid_argument,
                            std::string(what) + " of thread '" + thread_id +
                                "' is nested deeper than " + std::to_string(max_stored_json_depth) +
                                " levels and could not be read again; nothing was stored",
                            thread_id);
}

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::string without_nul(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '\0') {
            result += "\xef\xbf\xbd";
        } else {
            result += c;
        }
    }
    return result;
}

/// The JSON that the servers support, which has no U+0000 and no infinities.
struct ServerJson {
    static constexpr std::string_view comma = ", ";
    static constexpr std::string_view colon = ": ";
    static void string(std::string& out, std::string_view text) {
        append_python_string(out, without_nul(text));
    }
    static void number(std::string& out, double number) { append_finite_number(out, number); }
};

/// jsonb sorts keys by length, then by bytes; so does MySQL.
bool key_before(std::string_view a, std::string_view b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
}

bool survives(const JsonObject& object) {
    std::string_view last;
    bool first = true;
    for (const auto& [name, value] : object) {
        const std::string_view key = name;
        if (has_nul(key) || !survives_server_json(value)) return false;
        if (!std::exchange(first, false) && !key_before(last, key)) return false;
        last = key;
    }
    return true;
}

/// A number with an exponent is written without it; there is no negative zero.
bool survives(double number) {
    if (!std::isfinite(number) || (number == 0 && std::signbit(number))) return false;
    std::string text;
    append_python_number(text, number);
    return text.find('e') == std::string::npos;
}

bool same_number(const Json& a, const Json& b) {
    if (a.is_double() || b.is_double()) return a.to_number<double>() == b.to_number<double>();
    return a == b;
}

bool same_object(const JsonObject& column, const JsonObject& exact) {
    // Keys that differ only in U+0000 are one key of the column.
    JsonObject nearest;
    for (const auto& [key, value] : exact) nearest[without_nul(key)] = value;
    return column.size() == nearest.size() &&
           std::all_of(column.begin(), column.end(), [&](const auto& member) {
               const Json* value = nearest.if_contains(member.key());
               return value && is_server_json_of(member.value(), *value);
           });
}

bool same_array(const JsonArray& column, const JsonArray& exact) {
    return column.size() == exact.size() &&
           std::equal(column.begin(), column.end(), exact.begin(), is_server_json_of);
}

/// Takes the members that the column still has, in the exact order, then those that CubePi added.
JsonObject merged(const JsonObject& column, const JsonObject& exact) {
    JsonObject result;
    for (const auto& [key, value] : exact) {
        const Json* stored = column.if_contains(without_nul(key));
        if (stored) result[key] = is_server_json_of(*stored, value) ? value : *stored;
    }
    for (const auto& [key, value] : column) {
        const std::string_view name = key;
        const auto is_known = [&](const auto& one) { return without_nul(one.key()) == name; };
        if (std::none_of(exact.begin(), exact.end(), is_known)) result[key] = value;
    }
    return result;
}

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

void refuse_too_deep(const std::string& thread_id, const char* what, const Json& json) {
    if (is_nested_deeper(json, max_stored_json_depth)) throw_too_deep(thread_id, what);
}

void refuse_too_deep(const std::string& thread_id, const char* what, const JsonObject& json) {
    if (is_nested_deeper(json, max_stored_json_depth)) throw_too_deep(thread_id, what);
}

ExtraChange change_extra(JsonObject stored, const JsonObject& changes) {
    ExtraChange change;
    for (const auto& [key, value] : changes) {
        const Json* old = stored.if_contains(key);
        if (old ? *old == value : value.is_null()) continue;
        if (value.is_null()) {
            change.removed.emplace_back(key);
            stored.stable_erase(key);
        } else {
            change.changed[key] = value;
            stored[key] = value;
        }
    }
    change.merged = std::move(stored);
    return change;
}

std::string server_text(std::string_view text) {
    return without_nul(is_utf8(text) ? std::string(text) : replace_broken_utf8(text));
}

std::string server_json_text(const Json& value) {
    std::string text;
    write_json<ServerJson>(text, value);
    return text;
}

std::string server_json_text(const JsonObject& value) {
    std::string text;
    write_json<ServerJson>(text, value);
    return text;
}

bool survives_server_json(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::object: return survives(value.get_object());
        case boost::json::kind::array: {
            const JsonArray& array = value.get_array();
            return std::all_of(array.begin(), array.end(), survives_server_json);
        }
        case boost::json::kind::string: return !has_nul(value.get_string());
        case boost::json::kind::double_: return survives(value.get_double());
        default: return true;
    }
}

bool is_server_json_of(const Json& column, const Json& exact) {
    if (exact.is_double() && !std::isfinite(exact.get_double())) return column.is_null();
    if (column.is_number() && exact.is_number()) return same_number(column, exact);
    if (column.is_object() && exact.is_object())
        return same_object(column.get_object(), exact.get_object());
    if (column.is_array() && exact.is_array())
        return same_array(column.get_array(), exact.get_array());
    if (column.is_string() && exact.is_string())
        return column.get_string() == without_nul(exact.get_string());
    return column == exact;
}

Json exact_json(Json column, const std::optional<std::string>& exact_text) {
    if (!exact_text) return column;
    const Json exact = parse_lenient(*exact_text);
    if (column.is_object() && exact.is_object())
        return merged(column.get_object(), exact.get_object());
    return is_server_json_of(column, exact) ? exact : column;
}

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
