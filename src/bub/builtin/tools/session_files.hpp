#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/builtin/plugin/core.hpp>
#include <bub/envelope.hpp>

namespace bub::detail {

/// The directory of a workspace with the files of its users.
inline constexpr std::string_view attachments_directory = "attachments";

/// Returns a name for a file whose sender has chosen `given`: the last component of a path, without control and format characters, with
/// neither a dot nor a dash at its beginning, of at most 100 bytes, and different from names that have a meaning to programs.
std::string safe_file_name(std::string_view given);

/// Stores bytes as a new file in `attachments`, with the mode 0600, and returns its path below the workspace. A file of the same name is
/// not replaced: the new one gets a number, or is the same if the contents are equal, so that a turn that is tried again stores nothing
/// twice. Follows no links. Blocks. Throws Error(limit) beyond the limits, and Error(storage), (storage_full), (io).
std::string store_attachment(const std::filesystem::path& workspace, std::string_view name,
                             const std::string& bytes, const SessionFiles& limits);

/// Stores the attachments of a message that are not images for the model. What the model is told is added to the text, and what the
/// sender has to know is returned: the files that could not be stored. The message has the images as data URLs afterwards.
Task<std::vector<std::string>> take_attachments(std::shared_ptr<BuiltinCore> core,
                                                std::shared_ptr<Envelope> message,
                                                std::filesystem::path workspace);

/// Returns the tool `send_file`, which sends a file of the workspace to the chat of the message.
cubepi::AgentTool send_file_tool(std::shared_ptr<BuiltinCore> core, std::string session_id,
                                 const Envelope& message, std::filesystem::path workspace);

}  // namespace bub::detail
