#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/message.hpp>

namespace cubepi::detail {

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
