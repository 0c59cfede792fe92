#include <cubepi/checkpoint/format/message_row.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <cubepi/checkpoint/format/message_fields.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>

// The format: https://github.com/msgpack/msgpack/blob/master/spec.md

namespace cubepi::detail {

namespace {

class Writer {
public:
    explicit Writer(std::string& out) : out_(out) {}

    void write(const Json& value) {
        switch (value.kind()) {
            case boost::json::kind::null: byte(0xc0); break;
            case boost::json::kind::bool_: byte(value.get_bool() ? 0xc3 : 0xc2); break;
            case boost::json::kind::int64: integer(value.get_int64()); break;
            case boost::json::kind::uint64: natural(value.get_uint64()); break;
            case boost::json::kind::double_:
                byte(0xcb);
                big_endian<8>(std::bit_cast<std::uint64_t>(value.get_double()));
                break;
            case boost::json::kind::string: text(value.get_string()); break;
            case boost::json::kind::array: {
                const JsonArray& array = value.get_array();
                size(array.size(), 0x90, 15, 0xdc);
                for (const Json& item : array) write(item);
                break;
            }
            case boost::json::kind::object: write(value.get_object()); break;
        }
    }

    void write(const JsonObject& object) {
        size(object.size(), 0x80, 15, 0xde);
        for (const auto& [key, value] : object) {
            text(key);
            write(value);
        }
    }

private:
    void byte(unsigned value) { out_ += static_cast<char>(value); }

    template <int Bytes>
    void big_endian(std::uint64_t value) {
        for (int shift = (Bytes - 1) * 8; shift >= 0; shift -= 8)
            byte(static_cast<unsigned>((value >> static_cast<unsigned>(shift)) & 0xFFU));
    }

    void natural(std::uint64_t value) {
        if (value < 0x80) {
            byte(static_cast<unsigned>(value));
        } else if (value <= 0xFF) {
            byte(0xcc);
            big_endian<1>(value);
        } else if (value <= 0xFFFF) {
            byte(0xcd);
            big_endian<2>(value);
        } else if (value <= 0xFFFFFFFF) {
            byte(0xce);
            big_endian<4>(value);
        } else {
            byte(0xcf);
            big_endian<8>(value);
        }
    }

    void integer(std::int64_t value) {
        const auto bits = static_cast<std::uint64_t>(value);
        if (value >= 0) {
            natural(bits);
        } else if (value >= -32) {
            big_endian<1>(bits);
        } else if (value >= std::numeric_limits<std::int8_t>::min()) {
            byte(0xd0);
            big_endian<1>(bits);
        } else if (value >= std::numeric_limits<std::int16_t>::min()) {
            byte(0xd1);
            big_endian<2>(bits);
        } else if (value >= std::numeric_limits<std::int32_t>::min()) {
            byte(0xd2);
            big_endian<4>(bits);
        } else {
            byte(0xd3);
            big_endian<8>(bits);
        }
    }

    /// `tag16` is the type with a size of 16 bits; the next one has 32 bits.
    void size(std::size_t count, unsigned fixed, std::size_t most_fixed, unsigned tag16) {
        if (count <= most_fixed) {
            byte(fixed | static_cast<unsigned>(count));
        } else if (count <= 0xFFFF) {
            byte(tag16);
            big_endian<2>(count);
        } else {
            byte(tag16 + 1);
            big_endian<4>(count);
        }
    }

    void text(std::string_view value) {
        if (!is_utf8(value)) return raw_text(replace_broken_utf8(value));
        raw_text(value);
    }

    void raw_text(std::string_view value) {
        if (value.size() > std::numeric_limits<std::uint32_t>::max())
            throw Error(ErrorCode::too_large, "a text of more than 4 GiB cannot be stored");
        if (value.size() > 31 && value.size() <= 0xFF) {
            byte(0xd9);
            big_endian<1>(value.size());
        } else {
            size(value.size(), 0xa0, 31, 0xda);
        }
        out_ += value;
    }

    std::string& out_;
};

class Reader {
public:
    explicit Reader(std::string_view data) : data_(data) {}

    Json read_all() {
        Json value = read(0);
        if (at_ != data_.size()) fail("data follows the value");
        return value;
    }

    Json read(std::size_t depth) {
        if (depth > max_read_json_depth) fail("the value is nested too deeply");
        const auto tag = static_cast<unsigned>(natural(1));
        if (tag < 0x80) return static_cast<std::int64_t>(tag);
        if (tag < 0x90) return map(tag & 0x0FU, depth);
        if (tag < 0xa0) return array(tag & 0x0FU, depth);
        if (tag < 0xc0) return text(tag & 0x1FU);
        if (tag >= 0xe0) return static_cast<std::int64_t>(tag) - 256;
        return read_tagged(tag, depth);
    }

    std::string_view left() const { return data_.substr(at_); }

private:
    [[noreturn]] void fail(const char* why) const {
        throw Error(ErrorCode::parse,
                    "invalid MessagePack at byte " + std::to_string(at_) + ": " + why);
    }

    std::string_view take(std::size_t count) {
        if (data_.size() - at_ < count) fail("the data is cut off");
        const std::string_view taken = data_.substr(at_, count);
        at_ += count;
        return taken;
    }

    std::uint64_t natural(std::size_t bytes) {
        std::uint64_t value = 0;
        for (const char c : take(bytes)) value = value << 8U | static_cast<unsigned char>(c);
        return value;
    }

    Json integer(std::size_t bytes) {
        const auto unused = static_cast<unsigned>(64 - 8 * bytes);
        // Moves the sign to the highest bit and back.
        return static_cast<std::int64_t>(natural(bytes) << unused) >> unused;
    }

    Json read_tagged(unsigned tag, std::size_t depth) {
        switch (tag) {
            case 0xc0: return nullptr;
            case 0xc2: return false;
            case 0xc3: return true;
            case 0xc4:
            case 0xd9: return text(natural(1));
            case 0xc5:
            case 0xda: return text(natural(2));
            case 0xc6:
            case 0xdb: return text(natural(4));
            case 0xca: return std::bit_cast<float>(static_cast<std::uint32_t>(natural(4)));
            case 0xcb: return std::bit_cast<double>(natural(8));
            case 0xcc: return unsigned_integer(1);
            case 0xcd: return unsigned_integer(2);
            case 0xce: return unsigned_integer(4);
            case 0xcf: return unsigned_integer(8);
            case 0xd0: return integer(1);
            case 0xd1: return integer(2);
            case 0xd2: return integer(4);
            case 0xd3: return integer(8);
            case 0xdc: return array(natural(2), depth);
            case 0xdd: return array(natural(4), depth);
            case 0xde: return map(natural(2), depth);
            case 0xdf: return map(natural(4), depth);
            default: --at_; fail("a type that JSON does not have");
        }
    }

    /// An integer has one kind, whichever format it has: signed if it fits.
    Json unsigned_integer(std::size_t bytes) {
        const std::uint64_t value = natural(bytes);
        if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            return static_cast<std::int64_t>(value);
        return value;
    }

    Json text(std::uint64_t size) {
        const std::string_view taken = take(size);
        return is_utf8(taken) ? Json(taken) : Json(replace_broken_utf8(taken));
    }

    /// How many items to reserve memory for. Each item has `bytes` at least, so data that is cut off reserves little.
    std::size_t likely(std::uint64_t count, std::size_t bytes) const {
        return static_cast<std::size_t>(
            std::min<std::uint64_t>(count, (data_.size() - at_) / bytes));
    }

    Json array(std::uint64_t count, std::size_t depth) {
        JsonArray items;
        items.reserve(likely(count, 1));
        for (std::uint64_t i = 0; i < count; ++i) items.push_back(read(depth + 1));
        return items;
    }

    /// Returns the text if the next value is one of a common key: up to 31 bytes of valid UTF-8.
    std::optional<std::string_view> short_key() {
        if (at_ == data_.size()) return std::nullopt;
        const auto tag = static_cast<unsigned>(static_cast<unsigned char>(data_[at_]));
        if ((tag & 0xe0U) != 0xa0) return std::nullopt;
        const std::string_view key = data_.substr(at_ + 1, tag & 0x1fU);
        if (key.size() != (tag & 0x1fU) || !is_utf8(key)) return std::nullopt;
        at_ += 1 + key.size();
        return key;
    }

    Json map(std::uint64_t count, std::size_t depth) {
        JsonObject object;
        object.reserve(likely(count, 2));
        for (std::uint64_t i = 0; i < count; ++i) {
            if (const std::optional<std::string_view> key = short_key()) {
                object.insert_or_assign(*key, read(depth + 1));
                continue;
            }
            const Json key = read(depth + 1);
            if (!key.is_string()) fail("a key is not text");
            object.insert_or_assign(key.get_string(), read(depth + 1));
        }
        return object;
    }

    std::string_view data_;
    std::size_t at_ = 0;
};

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
void complete_metadata(LazyObject& metadata, std::string_view column_text) {
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
    void complete(LazyObject& metadata) const { complete_metadata(metadata, column_); }

private:
    PackedCursor* cursor_;
    std::string_view column_;  ///< the column `metadata`, for the members of a message
    std::size_t left_;
    std::string_view key_;
};

PackedMembers PackedValue::members() { return PackedMembers(*cursor_); }

}  // namespace

void append_msgpack(std::string& out, const Json& value) { Writer(out).write(value); }
void append_msgpack(std::string& out, const JsonObject& value) { Writer(out).write(value); }

Json parse_msgpack(std::string_view data) { return Reader(data).read_all(); }

Json take_msgpack(std::string_view& data, std::size_t depth) {
    Reader reader(data);
    Json value = reader.read(depth);
    data = reader.left();
    return value;
}

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
