// The fast reader of stored messages accepts and refuses the same texts as the plain reader, regardless of what it has read before.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <cubepi/checkpoint/format/stored_message_reader.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/python_json.hpp>

#include "fuzz_check.hpp"

namespace {

using namespace cubepi;

template <class Read>
std::optional<Message> read_with(const Read& read) {
    try {
        return read();
    } catch (const Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() == ErrorCode::parse ||
                          error.code() == ErrorCode::validation);
        return std::nullopt;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto slow = read_with([&] { return message_from_json(parse_lenient(text)); });
    static detail::StoredMessageReader old;
    detail::StoredMessageReader fresh;
    for (detail::StoredMessageReader* reader : {&old, &fresh}) {
        const auto quick = read_with([&] { return reader->read(text); });
        CUBEPI_FUZZ_CHECK(quick.has_value() == slow.has_value());
        if (!quick) continue;
        CUBEPI_FUZZ_CHECK(*quick == *slow);
        CUBEPI_FUZZ_CHECK(to_json(*quick) == to_json(*slow));
    }
    return 0;
}
