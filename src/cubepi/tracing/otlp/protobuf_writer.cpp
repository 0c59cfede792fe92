#include <cubepi/tracing/otlp/protobuf_writer.hpp>

#include <array>

#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

namespace {

/// Stores a varint of at most 10 bytes and returns its size.
std::size_t encode_varint(std::uint64_t value, std::array<char, 10>& to) {
    std::size_t size = 0;
    while (value >= 0x80) {
        to[size++] = static_cast<char>(value | 0x80U);
        value >>= 7U;
    }
    to[size++] = static_cast<char>(value);
    return size;
}

}  // namespace

void ProtobufWriter::append_varint(std::uint64_t value) {
    std::array<char, 10> bytes{};
    out_.append(bytes.data(), encode_varint(value, bytes));
}

void ProtobufWriter::set_length(std::size_t start) {
    std::array<char, 10> bytes{};
    const std::size_t size = encode_varint(out_.size() - start - 1, bytes);
    // One byte is enough for most messages; otherwise the contents move.
    out_.replace(start, 1, bytes.data(), size);
}

void ProtobufWriter::text(std::uint32_t field, std::string_view value) {
    if (is_utf8(value)) {
        bytes(field, value);
    } else {
        bytes(field, replace_broken_utf8(value));
    }
}

}  // namespace cubepi::detail
