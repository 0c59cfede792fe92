#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bub/envelope.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::app {

class GatewayInstance;

/// A message as it was typed into a chat: its slash command is replaced, and the files that it names with `@` are a part of it.
struct TypedMessage {
    std::string text = {};
    std::vector<bub::MediaItem> media = {};  ///< pictures
    std::string attached = {};               ///< as Attachments::remark
};

/// Reads the text by the rules of the terminal (D241). Files are those below the directory of the session. Throws
/// Error(invalid_argument) for a command that is not one of the console.
Task<TypedMessage> read_typed(std::shared_ptr<GatewayInstance> instance, std::string session,
                              std::string text);

}  // namespace cubepi::app
