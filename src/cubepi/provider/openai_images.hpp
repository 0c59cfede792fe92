#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/net/retry.hpp>
#include <cubepi/provider/images.hpp>

namespace cubepi {

/// The names and forms of request fields at an endpoint that is compatible with OpenAI's Images API. A field without
/// a name is not supported: if the caller sets it, it is omitted with a notice (D14).
struct ImagesCapabilityDescriptor {
    enum class SizeKind : std::uint8_t {
        size_string,        ///< "size": "1024x1024"
        image_size_string,  ///< "image_size": "1024x1024"
        width_height,       ///< "width": 1024, "height": 1024
        aspect_ratio,       ///< "aspect_ratio": "16:9"
    };
    SizeKind size_kind = SizeKind::size_string;
    std::string count_field = "n";
    std::optional<std::string> quality_field = "quality";
    std::optional<std::string> output_format_field = "output_format";
    std::optional<std::string> seed_field = {};
    std::optional<std::string> negative_prompt_field = {};
    std::optional<std::string> steps_field = {};
    std::optional<std::string> guidance_field = {};
    /// The field that selects base64 output ("response_format"), sent with the value below. (gpt-image models reject
    /// it.)
    std::optional<std::string> response_format_field = {};
    std::string response_format_value = "b64_json";
    bool edits = true;                         ///< has POST /images/edits
    std::string input_images_field = "image";  ///< of the form
    bool partial_images = true;                ///< can stream partial images
    JsonObject extra_payload = {};             ///< merged into each request
};

struct OpenAIImagesOptions {
    std::string api_key = {};
    /// The URL before "/images/generations".
    std::string base_url = "https://api.openai.com/v1";
    std::string provider_id = "openai";
    std::vector<std::pair<std::string, std::string>> extra_headers = {};
    ImagesCapabilityDescriptor capability = {};
    std::map<std::string, ImagesCapabilityDescriptor> model_capability_overrides = {};
    RetryPolicy retry = {};
    /// Zero: off. Generating an image can take minutes.
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10);
    std::chrono::nanoseconds first_byte_timeout = std::chrono::minutes(5);
    std::chrono::nanoseconds idle_timeout = std::chrono::nanoseconds::zero();
    std::chrono::nanoseconds total_timeout = std::chrono::minutes(10);
};

/// OpenAI's Images API and compatible ones: creates images from a text and from other images. Copies are handles to
/// the same provider. Any thread may call any member.
///
///     OpenAIImagesProvider images({.api_key = env("OPENAI_API_KEY")});
///     ImagesContext what;
///     what.prompt = "A teapot on the moon";
///     AssistantImages drawn = co_await images.generate_images(images.model("gpt-image-2"), std::move(what));
class OpenAIImagesProvider final : public BaseImagesProvider {
public:
    /// Throws Error(invalid_argument) if `base_url` is not an http(s) URL.
    explicit OpenAIImagesProvider(OpenAIImagesOptions options);
    Task<AssistantImages> generate_images(ImagesModel model, ImagesContext context,
                                          ImagesOptions options = {}) override;

    struct Endpoint;

private:
    std::shared_ptr<const Endpoint> endpoint_;
};

}  // namespace cubepi
