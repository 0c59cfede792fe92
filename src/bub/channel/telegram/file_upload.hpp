#pragma once

#include <string>

#include <bub/channel/telegram/telegram_api.hpp>
#include <bub/envelope.hpp>

namespace bub::telegram {

/// The call that sends a file.
struct FileUpload {
    std::string method = {};
    JsonObject parameters = {};
    UploadedFile file = {};    ///< without a field: the file is an address in `parameters`
    std::string problem = {};  ///< for the user; empty: none
};

/// Fetches the attachment of a message. Photos of up to 10 MB are shown; other files of up to 50 MB are documents.
Task<FileUpload> file_upload(MediaItem item);

/// Decodes the bytes of a data URL with base64; nothing if it is not one.
std::optional<std::string> decode_data_url(std::string_view url);

}  // namespace bub::telegram
