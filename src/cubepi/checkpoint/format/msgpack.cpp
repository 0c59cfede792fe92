#include <cubepi/checkpoint/format/msgpack.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>

#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/parse_json.hpp>

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

}  // namespace cubepi::detail
