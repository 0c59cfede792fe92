#include <cubepi/schema/json_text.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/json/write_json.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {

namespace {

using boost::json::string_view;
using ParseError = boost::json::error_code;

// Identical to the handler of boost::json::parser, except for on_double.
class ExactHandler {
public:
    static constexpr std::size_t max_object_size = JsonObject::max_size();
    static constexpr std::size_t max_array_size = JsonArray::max_size();
    static constexpr std::size_t max_key_size = boost::json::string::max_size();
    static constexpr std::size_t max_string_size = boost::json::string::max_size();

    bool on_document_begin(ParseError&) { return true; }
    bool on_document_end(ParseError&) { return true; }
    bool on_object_begin(ParseError&) { return true; }
    bool on_object_end(std::size_t count, ParseError&) {
        stack.push_object(count);
        return true;
    }
    bool on_array_begin(ParseError&) { return true; }
    bool on_array_end(std::size_t count, ParseError&) {
        stack.push_array(count);
        return true;
    }
    bool on_key_part(string_view text, std::size_t, ParseError&) {
        stack.push_chars(text);
        return true;
    }
    bool on_key(string_view text, std::size_t, ParseError&) {
        stack.push_key(text);
        return true;
    }
    bool on_string_part(string_view text, std::size_t, ParseError&) {
        stack.push_chars(text);
        return true;
    }
    bool on_string(string_view text, std::size_t, ParseError&) {
        stack.push_string(text);
        return true;
    }
    bool on_number_part(string_view text, ParseError&) {
        number_start_.append(text.data(), text.size());
        return true;
    }
    bool on_int64(std::int64_t value, string_view, ParseError&) {
        number_start_.clear();
        stack.push_int64(value);
        return true;
    }
    bool on_uint64(std::uint64_t value, string_view, ParseError&) {
        number_start_.clear();
        stack.push_uint64(value);
        return true;
    }
    bool on_double(double value, string_view text, ParseError& error) {
        if (!number_start_.empty()) {
            number_start_.append(text.data(), text.size());
            std::from_chars(number_start_.data(), number_start_.data() + number_start_.size(),
                            value);
            number_start_.clear();
        } else {
            std::from_chars(text.data(), text.data() + text.size(), value);
        }
        if (!std::isfinite(value)) {
            error = boost::json::make_error_code(boost::json::error::exponent_overflow);
            return false;
        }
        stack.push_double(value);
        return true;
    }
    bool on_bool(bool value, ParseError&) {
        stack.push_bool(value);
        return true;
    }
    bool on_null(ParseError&) {
        stack.push_null();
        return true;
    }
    bool on_comment_part(string_view, ParseError&) { return true; }
    bool on_comment(string_view, ParseError&) { return true; }

    boost::json::value_stack stack;

private:
    std::string number_start_;
};

}  // namespace

bool is_nested_deeper(const JsonObject& value, std::size_t levels) noexcept {
    if (levels == 0) return true;
    return std::any_of(value.begin(), value.end(), [levels](const auto& member) {
        return is_nested_deeper(member.value(), levels - 1);
    });
}

bool is_nested_deeper(const Json& value, std::size_t levels) noexcept {
    if (const JsonObject* object = value.if_object()) return is_nested_deeper(*object, levels);
    const JsonArray* array = value.if_array();
    if (!array) return false;
    if (levels == 0) return true;
    return std::any_of(array->begin(), array->end(),
                       [levels](const Json& item) { return is_nested_deeper(item, levels - 1); });
}

Json parse_json(std::string_view text, JsonTextError& error, std::size_t max_depth) {
    error = JsonTextError{};
    boost::json::parse_options options;
    options.max_depth = max_depth;
    boost::json::basic_parser<ExactHandler> parser(options);
    parser.handler().stack.reset();
    ParseError code;
    std::size_t offset = parser.write_some(false, text.data(), text.size(), code);
    if (!code) {
        const auto rest = text.find_first_not_of(" \t\r\n", offset);
        if (rest != std::string_view::npos) {
            offset = rest;
            code = boost::json::make_error_code(boost::json::error::extra_data);
        }
    }
    if (code) {
        error = JsonTextError{code.message(), offset};
        return nullptr;
    }
    return parser.handler().stack.release();
}

Json parse_json(std::string_view text) {
    JsonTextError error;
    Json value = parse_json(text, error);
    if (error) {
        throw Error(ErrorCode::parse, "not JSON: " + error.reason + " at byte " +
                                          std::to_string(error.offset) + " of " +
                                          std::to_string(text.size()));
    }
    return value;
}

namespace {

struct CompactJson {
    static constexpr std::string_view comma = ",";
    static constexpr std::string_view colon = ":";
    static void string(std::string& out, std::string_view text) {
        out += boost::json::serialize(boost::json::string_view(text));
    }
    static void number(std::string& out, double number) {
        detail::append_finite_number(out, number);
    }
};

}  // namespace

std::string json_text(const Json& value) {
    std::string out;
    detail::write_json<CompactJson>(out, value);
    return out;
}

std::string json_text(const JsonObject& value) {
    std::string out;
    detail::write_json<CompactJson>(out, value);
    return out;
}

}  // namespace cubepi
