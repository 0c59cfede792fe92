#pragma once

#include <memory>
#include <string_view>

#include <cubepi/core/message.hpp>

namespace cubepi::detail {

/// Reads stored messages, quickly where they are as expected and leniently where they are not. One object reads
/// many messages, one after another: it shares the texts that they have in common (run id, model, tool names).
class StoredMessageReader {
public:
    StoredMessageReader();
    ~StoredMessageReader();
    StoredMessageReader(const StoredMessageReader&) = delete;
    StoredMessageReader& operator=(const StoredMessageReader&) = delete;

    /// Throws Error (parse, validation) if the text is not a message even so.
    Message read(std::string_view text);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi::detail
