#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

/// Writes messages in the wire format of protobuf (https://protobuf.dev/programming-guides/encoding/). Fields with their default
/// value are written too: the caller omits them where that matters.
class ProtobufWriter {
public:
    explicit ProtobufWriter(std::string& out) : out_(out) {}

    void varint(std::uint32_t field, std::uint64_t value) {
        tag(field, 0);
        append_varint(value);
    }
    void fixed64(std::uint32_t field, std::uint64_t value) {
        tag(field, 1);
        append_fixed(value, 8);
    }
    void number(std::uint32_t field, double value) {
        fixed64(field, std::bit_cast<std::uint64_t>(value));
    }
    void fixed32(std::uint32_t field, std::uint32_t value) {
        tag(field, 5);
        append_fixed(value, 4);
    }
    void bytes(std::uint32_t field, std::string_view value) {
        tag(field, 2);
        append_varint(value.size());
        out_ += value;
    }
    /// Replaces invalid UTF-8, because receivers reject a message with it as a whole.
    void text(std::uint32_t field, std::string_view value);

    /// Writes a nested message: `content` writes its fields with this writer.
    template <class F>
    void message(std::uint32_t field, F content) {
        tag(field, 2);
        const std::size_t start = out_.size();
        out_.push_back('\0');
        content();
        set_length(start);
    }

    /// Writes packed fixed64 or double values: `bits` returns the bits of a value.
    template <class List, class F>
    void packed_fixed64(std::uint32_t field, const List& values, F bits) {
        tag(field, 2);
        append_varint(8 * values.size());
        for (const auto& value : values) append_fixed(bits(value), 8);
    }

private:
    void tag(std::uint32_t field, std::uint32_t wire_type) {
        append_varint((std::uint64_t{field} << 3U) | wire_type);
    }
    void append_varint(std::uint64_t value);
    void append_fixed(std::uint64_t value, int size) {
        for (int i = 0; i < size; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
    }
    /// Replaces the byte at `start` by the length of what follows it.
    void set_length(std::size_t start);

    std::string& out_;
};

/// Stores a varint of at most 10 bytes and returns its size.
inline std::size_t encode_varint(std::uint64_t value, std::array<char, 10>& to) {
    std::size_t size = 0;
    while (value >= 0x80) {
        to[size++] = static_cast<char>(value | 0x80U);
        value >>= 7U;
    }
    to[size++] = static_cast<char>(value);
    return size;
}

inline void ProtobufWriter::append_varint(std::uint64_t value) {
    std::array<char, 10> bytes{};
    out_.append(bytes.data(), encode_varint(value, bytes));
}

inline void ProtobufWriter::set_length(std::size_t start) {
    std::array<char, 10> bytes{};
    const std::size_t size = encode_varint(out_.size() - start - 1, bytes);
    // One byte is enough for most messages; otherwise the contents move.
    out_.replace(start, 1, bytes.data(), size);
}

inline void ProtobufWriter::text(std::uint32_t field, std::string_view value) {
    if (is_utf8(value)) {
        bytes(field, value);
    } else {
        bytes(field, replace_broken_utf8(value));
    }
}

}  // namespace cubepi::detail
