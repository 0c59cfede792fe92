#pragma once

#include <memory>
#include <string_view>

#include <cubepi/core/message.hpp>

namespace cubepi::detail {

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
