#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/openai_images.hpp>

// Requests and answers of the Images API. No I/O.

namespace cubepi::detail {

struct ImagesPayload {
    JsonObject body = {};
    std::vector<Notice> notices = {};
    bool edit = false;
};

/// Builds the fields of a request. Input images are only described: multipart_form adds their bytes. Throws
/// Error(unsupported, invalid_argument) for an invalid request.
ImagesPayload images_payload(const ImagesModel& model, const ImagesContext& context,
                             const ImagesCapability& capability, int partial_images);

/// multipart/form-data (RFC 7578) of a body and its images.
std::string multipart_form(const JsonObject& body, const std::vector<ImageContent>& images,
                           std::string_view image_field, std::string_view boundary);

/// Reads an unstreamed response into `into`. Throws Error(protocol) if it contains no images.
void read_images(const Json& answer, std::string_view media_type, AssistantImages& into);

/// Reads one event of a streamed response. Returns a preview; stores a finished image in `into`. Throws StreamFailure
/// for an error in it.
std::optional<ImagesEvent> read_images_event(const Json& event, std::string_view media_type,
                                             AssistantImages& into);

/// Decodes base64 text; white space is skipped. Throws Error(invalid_argument) for anything else.
std::string from_base64(std::string_view text);

}  // namespace cubepi::detail
