#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>

// The rows of `cubepi_messages` on database servers. Their payload is MessagePack as Python's msgpack.packb(value,
// use_bin_type=True) writes it and unpackb(data) reads it with its defaults.

namespace cubepi::detail {

/// Appends the value. Keys keep their order, integers of up to 64 bits are exact, other numbers are doubles. Invalid UTF-8
/// becomes U+FFFD, because Python rejects a payload that contains it.
void append_msgpack(std::string& out, const Json& value);
void append_msgpack(std::string& out, const JsonObject& value);

/// Reads one value, which must be the whole of `data`. Binary data is read as text; invalid UTF-8 becomes U+FFFD. Throws
/// Error(parse) that names the offset, for types that JSON does not have too: keys that are not text, extension types.
Json parse_msgpack(std::string_view data);

/// Reads the value at the start of `data`, which is nested in `depth` others, and removes it from `data`. Throws as
/// parse_msgpack() does; the offset is that in `data`.
Json take_msgpack(std::string_view& data, std::size_t depth);

/// A row of `cubepi_messages` on a database server (D71).
struct MessageRow {
    std::string role = {};  ///< "user", "assistant" or "tool"
    std::string metadata =
        {};  ///< JSON text for the column, which wins over the metadata in the payload
    std::string payload = {};  ///< MessagePack of the message's stored form
    std::string run_id = {};   ///< empty: NULL
    std::string message_id = {};
};

/// Throws CheckpointerError(invalid_argument) if the message is nested too deeply.
MessageRow to_message_row(const std::string& thread_id, const Message& message);

/// Reads the columns `payload` and `metadata`. The metadata is that of the payload if the column has the same value, because
/// the payload has it in its exact form. Throws Error(parse) or Error(validation).
Message read_message_row(std::string_view payload, std::string_view metadata);

/// Reads rows of `cubepi_messages` as read_message_row() does: quickly if their payload is of the common form. One object reads
/// many rows, one after another, and shares the texts that they have in common (run id, model, tool names).
class MessageRowReader {
public:
    MessageRowReader();
    ~MessageRowReader();
    MessageRowReader(const MessageRowReader&) = delete;
    MessageRowReader& operator=(const MessageRowReader&) = delete;

    /// Reads the columns `payload` and `metadata`. Throws Error(parse) or Error(validation).
    Message read(std::string_view payload, std::string_view metadata);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi::detail
