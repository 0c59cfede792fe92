#pragma once

#include <memory>
#include <string_view>

#include <cubepi/core/message.hpp>

namespace cubepi::detail {

/// Reads stored messages: quickly if they are of the common form, leniently otherwise. One object reads many messages,
/// one after another, and shares the texts that they have in common (run id, model, tool names).
class StoredMessageReader {
public:
    StoredMessageReader();
    ~StoredMessageReader();
    StoredMessageReader(const StoredMessageReader&) = delete;
    StoredMessageReader& operator=(const StoredMessageReader&) = delete;

    /// Throws Error(parse) or Error(validation) if the text is not a message.
    Message read(std::string_view text);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi::detail
