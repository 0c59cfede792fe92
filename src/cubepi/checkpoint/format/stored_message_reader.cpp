#include <cubepi/checkpoint/format/stored_message_reader.hpp>

#include <cstring>
#include <utility>

#include <cubepi/checkpoint/format/message_fields.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

bool has_escapes(std::string_view text) {
    return std::memchr(text.data(), '\\', text.size()) != nullptr;
}

/// Returns a string, which is valid until the next message is read.
std::string_view text_of(od::value& value) {
    std::string_view token = value.raw_json_token();
    if (has_escapes(token)) return value.get_string();
    od::raw_json_string start;
    if (value.get_raw_json_string().get(start) != simdjson::SUCCESS) throw Unusual();
    // The token reaches to the next one.
    while (token.back() != '"') token.remove_suffix(1);
    return token.substr(1, token.size() - 2);
}

class JsonValue;

/// The members of an object, one after another.
class JsonMembers {
public:
    using Value = JsonValue;

    explicit JsonMembers(od::object object)
        : here_(object.begin().value()), end_(object.end().value()) {}

    bool next() {
        if (started_) ++here_;
        started_ = true;
        if (here_ == end_) return false;
        field_ = *here_;
        key_ = field_.key();
        return true;
    }
    bool is(std::string_view name) const { return detail::is(key_, name); }
    std::string_view key() const {
        const char* end = key_.raw();
        for (; *end != '"'; ++end) {
            // The key would have to be compared unescaped.
            if (*end == '\\') throw Unusual();
        }
        return {key_.raw(), end};
    }
    JsonValue value();
    od::value& raw_value() { return field_.value(); }
    void complete(LazyObject& /*metadata*/) const {}

private:
    od::object_iterator here_;
    od::object_iterator end_;
    od::field field_;
    od::raw_json_string key_;
    bool started_ = false;
};

/// Values deeper than this are left to the plain reader, which has a limit of its own.
constexpr int max_depth = 64;

Json to_json_value(od::value& value, int depth = 0);

JsonObject to_json_object(od::value& value, int depth = 0) {
    JsonObject object;
    JsonMembers members(value.get_object());
    while (members.next()) {
        const std::string_view key = members.key();
        object.insert_or_assign(key, to_json_value(members.raw_value(), depth + 1));
    }
    return object;
}

JsonArray to_json_array(od::value& value, int depth) {
    JsonArray array;
    for (od::value item : value.get_array()) array.push_back(to_json_value(item, depth + 1));
    return array;
}

Json to_json_number(od::value& value) {
    const od::number number = value.get_number();
    switch (number.get_number_type()) {
        case od::number_type::signed_integer: return number.get_int64();
        case od::number_type::unsigned_integer: return number.get_uint64();
        case od::number_type::floating_point_number: break;
    }
    return number.get_double();
}

Json to_json_value(od::value& value, int depth) {
    if (depth > max_depth) throw Unusual();
    switch (value.type()) {
        case od::json_type::object: return to_json_object(value, depth);
        case od::json_type::array: return to_json_array(value, depth);
        case od::json_type::string: return Json(text_of(value));
        case od::json_type::number: return to_json_number(value);
        case od::json_type::boolean: return Json(bool(value.get_bool()));
        case od::json_type::null: break;
    }
    if (!value.is_null()) throw Unusual();
    return nullptr;
}

/// A value that is read once, in the position of the parser.
class JsonValue {
public:
    explicit JsonValue(od::value& value) : value_(&value) {}

    bool take_null() { return value_->is_null(); }
    std::string_view text() { return text_of(*value_); }
    bool flag() { return value_->get_bool(); }
    std::int64_t integer() { return value_->get_int64(); }
    double number() { return value_->get_double(); }
    Json json() { return to_json_value(*value_); }
    JsonObject object() { return to_json_object(*value_); }
    JsonMembers members() { return JsonMembers(value_->get_object()); }
    template <class F>
    void each_item(F f) {
        for (od::value item : value_->get_array()) f(JsonValue(item));
    }

private:
    od::value* value_;
};

JsonValue JsonMembers::value() { return JsonValue(raw_value()); }

}  // namespace

struct StoredMessageReader::State {
    od::parser parser;
    PaddedText padded;
    MessageFields<JsonMembers> fields;

    Message read(std::string_view text) {
        od::document document = parser.iterate(padded.hold(text));
        JsonMembers members(document.get_object());
        Message message = fields.read(members);
        // No other text may follow.
        if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) throw Unusual();
        return message;
    }
};

StoredMessageReader::StoredMessageReader() : state_(std::make_unique<State>()) {}
StoredMessageReader::~StoredMessageReader() = default;

Message StoredMessageReader::read(std::string_view text) {
    try {
        return state_->read(text);
    } catch (const Unusual&) {
        // Read again below, outside of the handler: an exception there must not be nested in this one.
    } catch (const simdjson::simdjson_error&) {
    }
    return message_from_json(parse_lenient(text));
}

}  // namespace cubepi::detail
