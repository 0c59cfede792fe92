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

/// The fields of a request. Of input images the body only has a description: their bytes are added by multipart_form.
/// Throws Error(unsupported, invalid_argument) for what can never be sent.
ImagesPayload images_payload(const ImagesModel& model, const ImagesContext& context,
                             const ImagesCapability& capability, int partial_images);

/// multipart/form-data (RFC 7578) of a body and its images.
std::string multipart_form(const JsonObject& body, const std::vector<ImageContent>& images,
                           std::string_view image_field, std::string_view boundary);

/// Puts an unstreamed answer into `into`. Throws Error(protocol) when there are no images in it.
void read_images(const Json& answer, std::string_view media_type, AssistantImages& into);

/// One event of a streamed answer. A sketch comes back; a finished image goes into `into`. Throws StreamFailure for an
/// error in it.
std::optional<ImagesEvent> read_images_event(const Json& event, std::string_view media_type,
                                             AssistantImages& into);

/// Bytes of base64 text; white space is skipped. Throws Error(invalid_argument) for anything else.
std::string from_base64(std::string_view text);

}  // namespace cubepi::detail
