// The fast reader of rows of a database server accepts and refuses the same rows as the plain reader, regardless of what it has
// read before. An input is the column `metadata`, a line feed, and the column `payload`; or a payload.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/checkpoint/format/message_row.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>

#include "fuzz_check.hpp"

namespace {

using namespace cubepi;

/// Returns the stored form of the message, or the error.
template <class Read>
std::string outcome_of(const Read& read) {
    std::string outcome;
    try {
        detail::append_msgpack(outcome, to_json(read()));
    } catch (const Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() == ErrorCode::parse ||
                          error.code() == ErrorCode::validation);
        outcome = error.what();
    }
    return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view payload(reinterpret_cast<const char*>(data), size);
    std::string_view metadata = "{}";
    if (const std::size_t line = payload.find('\n'); line != std::string_view::npos) {
        metadata = payload.substr(0, line);
        payload.remove_prefix(line + 1);
    }
    const std::string slow =
        outcome_of([&] { return detail::read_message_row(payload, metadata); });
    static detail::MessageRowReader old;
    detail::MessageRowReader fresh;
    for (detail::MessageRowReader* reader : {&old, &fresh})
        CUBEPI_FUZZ_CHECK(outcome_of([&] { return reader->read(payload, metadata); }) == slow);
    return 0;
}
