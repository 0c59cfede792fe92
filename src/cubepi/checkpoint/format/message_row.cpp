#include <cubepi/checkpoint/format/message_row.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <cubepi/checkpoint/format/message_fields.hpp>
#include <cubepi/checkpoint/format/msgpack.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view empty_object = "{}";

const char* role_name(Role role) {
    switch (role) {
        case Role::user: return "user";
        case Role::assistant: return "assistant";
        case Role::tool_result: return "tool";
    }
    return "user";
}

bool is_empty_object(const Json* value) {
    return !value || (value->is_object() && value->get_object().empty());
}

// The arguments of a tool call are in a block, which is in the list of blocks of a message. Values that are nested too deeply
// from there are left to the plain reader, which knows their depth.
constexpr std::size_t deepest_field = 3;

/// A position in MessagePack data. Its functions read the value at the position, and throw Unusual if it has another type
/// or if the data is cut off.
class PackedCursor {
public:
    explicit PackedCursor(std::string_view data) : left_(data) {}

    bool at_end() const noexcept { return left_.empty(); }

    bool take_null() {
        if (peek() != 0xc0) return false;
        left_.remove_prefix(1);
        return true;
    }

    bool flag() {
        const unsigned tag = byte();
        if (tag != 0xc2 && tag != 0xc3) throw Unusual();
        return tag == 0xc3;
    }

    std::int64_t integer() {
        const unsigned tag = byte();
        if (tag < 0x80) return tag;
        if (tag >= 0xe0) return static_cast<std::int64_t>(tag) - 256;
        switch (tag) {
            case 0xcc: return natural<std::uint8_t>();
            case 0xcd: return natural<std::uint16_t>();
            case 0xce: return natural<std::uint32_t>();
            case 0xcf: return signed_if_it_fits(natural<std::uint64_t>());
            case 0xd0: return static_cast<std::int8_t>(natural<std::uint8_t>());
            case 0xd1: return static_cast<std::int16_t>(natural<std::uint16_t>());
            case 0xd2: return static_cast<std::int32_t>(natural<std::uint32_t>());
            case 0xd3: return static_cast<std::int64_t>(natural<std::uint64_t>());
            default: throw Unusual();
        }
    }

    double number() {
        const unsigned tag = peek();
        if (tag != 0xca && tag != 0xcb) return static_cast<double>(integer());
        left_.remove_prefix(1);
        const double value = tag == 0xca ? std::bit_cast<float>(natural<std::uint32_t>())
                                         : std::bit_cast<double>(natural<std::uint64_t>());
        if (!std::isfinite(value)) throw Unusual();
        return value;
    }

    /// Returns a text, which may be invalid UTF-8.
    std::string_view raw_text() {
        const unsigned tag = byte();
        if ((tag & 0xe0U) == 0xa0) return take(tag & 0x1fU);
        switch (tag) {
            case 0xd9: return take(natural<std::uint8_t>());
            case 0xda: return take(natural<std::uint16_t>());
            case 0xdb: return take(natural<std::uint32_t>());
            default: throw Unusual();
        }
    }

    std::string_view text() { return valid(raw_text()); }

    /// Returns the number of members of a map.
    std::size_t map() {
        const unsigned tag = byte();
        if ((tag & 0xf0U) == 0x80) return tag & 0x0fU;
        if (tag == 0xde) return natural<std::uint16_t>();
        if (tag == 0xdf) return natural<std::uint32_t>();
        throw Unusual();
    }

    /// Returns the number of items of an array.
    std::size_t array() {
        const unsigned tag = byte();
        if ((tag & 0xf0U) == 0x90) return tag & 0x0fU;
        if (tag == 0xdc) return natural<std::uint16_t>();
        if (tag == 0xdd) return natural<std::uint32_t>();
        throw Unusual();
    }

    Json json() { return take_msgpack(left_, deepest_field); }

    JsonObject object() {
        constexpr unsigned empty_map = 0x80;
        if (peek() == empty_map) {
            left_.remove_prefix(1);
            return {};
        }
        Json value = json();
        if (!value.is_object()) throw Unusual();
        return std::move(value.get_object());
    }

    static std::string_view valid(std::string_view text) {
        if (!is_utf8(text)) throw Unusual();
        return text;
    }

private:
    unsigned peek() const {
        if (left_.empty()) throw Unusual();
        return static_cast<unsigned char>(left_.front());
    }
    unsigned byte() {
        const unsigned value = peek();
        left_.remove_prefix(1);
        return value;
    }
    std::string_view take(std::size_t count) {
        if (left_.size() < count) throw Unusual();
        const std::string_view taken = left_.substr(0, count);
        left_.remove_prefix(count);
        return taken;
    }
    template <class T>
    T natural() {
        std::uint64_t value = 0;
        for (const char c : take(sizeof(T))) value = value << 8U | static_cast<unsigned char>(c);
        return static_cast<T>(value);
    }
    static std::int64_t signed_if_it_fits(std::uint64_t value) {
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            throw Unusual();
        return static_cast<std::int64_t>(value);
    }

    std::string_view left_;
};

class PackedMembers;

class PackedValue {
public:
    explicit PackedValue(PackedCursor& cursor) : cursor_(&cursor) {}

    bool take_null() { return cursor_->take_null(); }
    std::string_view text() { return cursor_->text(); }
    bool flag() { return cursor_->flag(); }
    std::int64_t integer() { return cursor_->integer(); }
    double number() { return cursor_->number(); }
    Json json() { return cursor_->json(); }
    JsonObject object() { return cursor_->object(); }
    PackedMembers members();
    template <class F>
    void each_item(F f) {
        for (std::size_t left = cursor_->array(); left > 0; --left) f(PackedValue(*cursor_));
    }

private:
    PackedCursor* cursor_;
};

/// Replaces the metadata by that of the column, unless the column has the same value.
void settle_metadata(LazyObject& metadata, std::string_view column_text) {
    if (column_text == "{}" && metadata.empty()) return;
    Json column = parse_lenient(column_text);
    if (!column.is_object()) throw Unusual();
    Json exact = std::move(metadata.edit());
    Json& chosen = is_server_json_of(column, exact) ? exact : column;
    metadata = std::move(chosen.get_object());
}

class PackedMembers {
public:
    using Value = PackedValue;

    explicit PackedMembers(PackedCursor& cursor, std::string_view column = {})
        : cursor_(&cursor), column_(column), left_(cursor.map()) {}

    bool next() {
        if (left_ == 0) return false;
        --left_;
        key_ = cursor_->raw_text();
        return true;
    }
    bool is(std::string_view name) const { return key_ == name; }
    std::string_view key() const { return PackedCursor::valid(key_); }
    PackedValue value() { return PackedValue(*cursor_); }
    void settle(LazyObject& metadata) const { settle_metadata(metadata, column_); }

private:
    PackedCursor* cursor_;
    std::string_view column_;  ///< the column `metadata`, for the members of a message
    std::size_t left_;
    std::string_view key_;
};

PackedMembers PackedValue::members() { return PackedMembers(*cursor_); }

}  // namespace

MessageRow to_message_row(const std::string& thread_id, const Message& message) {
    const JsonObject json = to_json(message);
    refuse_too_deep(thread_id, "a message", json);
    MessageRow row;
    row.role = role_name(message.role());
    const Json* metadata = json.if_contains("metadata");
    row.metadata = metadata ? server_json_text(*metadata) : std::string(empty_object);
    append_msgpack(row.payload, json);
    row.run_id = server_text(message.run_id().str());
    row.message_id = server_text(message.id());
    return row;
}

Message read_message_row(std::string_view payload, std::string_view metadata) {
    Json json = parse_msgpack(payload);
    if (!json.is_object()) throw Error(ErrorCode::validation, "the payload is not a map");
    JsonObject& object = json.get_object();
    const Json* stored = object.if_contains("metadata");
    if (metadata != empty_object || !is_empty_object(stored)) {
        Json column = parse_lenient(metadata);
        if (!stored || !is_server_json_of(column, *stored)) object["metadata"] = std::move(column);
    }
    return message_from_json(json);
}

struct MessageRowReader::State {
    MessageFields<PackedMembers> fields;

    Message read(std::string_view payload, std::string_view metadata) {
        PackedCursor cursor(payload);
        PackedMembers members(cursor, metadata);
        Message message = fields.read(members);
        if (!cursor.at_end()) throw Unusual();
        return message;
    }
};

MessageRowReader::MessageRowReader() : state_(std::make_unique<State>()) {}
MessageRowReader::~MessageRowReader() = default;

Message MessageRowReader::read(std::string_view payload, std::string_view metadata) {
    try {
        return state_->read(payload, metadata);
    } catch (const Unusual&) {
        // Read again below, outside of the handler: an exception there must not be nested in this one.
    } catch (const Error&) {
    }
    return read_message_row(payload, metadata);
}

}  // namespace cubepi::detail
