#include <cubepi/provider/openai/images_wire.hpp>

#include <array>
#include <charconv>
#include <utility>

#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/wire/request_notices.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

namespace {

Notice left_out(std::string_view what) {
    return request_changed(
        "This endpoint does not accept " + std::string(what) + "; it was omitted", what);
}

bool is_url(std::string_view source) {
    return source.starts_with("http://") || source.starts_with("https://");
}

void put_size(JsonObject& body, const std::string& size, ImagesCapability::SizeKind kind) {
    using enum ImagesCapability::SizeKind;
    switch (kind) {
        case size_string: body["size"] = size; return;
        case image_size_string: body["image_size"] = size; return;
        case aspect_ratio: body["aspect_ratio"] = size; return;
        case width_height: break;
    }
    const std::size_t cross = size.find('x');
    int width = 0;
    int height = 0;
    const char* const end = size.data() + size.size();
    const bool good =
        cross != std::string::npos &&
        std::from_chars(size.data(), size.data() + cross, width).ptr == size.data() + cross &&
        std::from_chars(size.data() + cross + 1, end, height).ptr == end && width > 0 && height > 0;
    if (!good) {
        throw Error(ErrorCode::invalid_argument,
                    "This endpoint requires a size like \"1024x1024\", not \"" + size + "\"");
    }
    body["width"] = width;
    body["height"] = height;
}

/// A field that the endpoint may not have.
template <class T>
void put(ImagesPayload& to, const std::optional<std::string>& field, std::string_view what,
         const std::optional<T>& value) {
    if (!value) return;
    if (!field) {
        to.notices.push_back(left_out(what));
    } else {
        to.body[*field] = *value;
    }
}

template <class T>
std::optional<std::string> word_of(const std::optional<T>& own,
                                   const std::optional<T>& default_value) {
    const std::optional<T>& value = own ? own : default_value;
    return value ? std::optional<std::string>(to_string(*value)) : std::nullopt;
}

void put_input_images(ImagesPayload& to, const ImagesModel& model, const ImagesContext& context,
                      const ImagesCapability& capability) {
    if (context.input_images.empty()) return;
    if (!capability.edits) {
        throw Error(
            ErrorCode::unsupported,
            "Model '" + model.id + "' does not accept input images: its endpoint has no edits");
    }
    if (model.max_input_images && context.input_images.size() > *model.max_input_images) {
        throw Error(ErrorCode::invalid_argument, "Model '" + model.id + "' takes at most " +
                                                     std::to_string(*model.max_input_images) +
                                                     " images, not " +
                                                     std::to_string(context.input_images.size()));
    }
    JsonArray described;
    for (const ImageContent& image : context.input_images) {
        if (is_url(image.source)) {
            throw Error(ErrorCode::unsupported,
                        "Input images must be bytes; fetch " + image.source + " first");
        }
        described.push_back(Json(image.media_type.str() + ", " +
                                 std::to_string(image.source.size() / 4 * 3) + " bytes"));
    }
    to.body[capability.input_images_field] = std::move(described);
    to.edit = true;
}

std::string extension_of(std::string_view media_type) {
    const std::size_t slash = media_type.find('/');
    return slash == std::string_view::npos ? "png" : std::string(media_type.substr(slash + 1));
}

void add_part(std::string& form, std::string_view boundary, std::string_view name,
              std::string_view more, std::string_view content) {
    form += "--";
    form += boundary;
    form += "\r\ncontent-disposition: form-data; name=\"";
    form += name;
    form += '"';
    form += more;
    form += "\r\n\r\n";
    form += content;
    form += "\r\n";
}

const Json* member(const Json& json, std::string_view key) {
    const JsonObject* object = json.if_object();
    return object ? object->if_contains(key) : nullptr;
}

std::string_view text_of(const Json* json) {
    return json && json->is_string() ? std::string_view(json->get_string()) : std::string_view();
}

std::optional<ImageContent> image_of(const Json& item, std::string_view media_type) {
    ImageContent image;
    if (const std::string_view bytes = text_of(member(item, "b64_json")); !bytes.empty()) {
        image.source = bytes;
        image.media_type = media_type;
        return image;
    }
    const std::string_view url = text_of(member(item, "url"));
    if (url.empty()) return std::nullopt;
    image.source = url;
    return image;
}

/// The media type that the answer says its images are of, else the one that was asked for.
std::string media_type_in(const Json& answer, std::string_view fallback) {
    const std::string_view format = text_of(member(answer, "output_format"));
    return format.empty() ? std::string(fallback) : "image/" + std::string(format);
}

void read_usage(const Json& answer, AssistantImages& into) {
    const Json* reported = member(answer, "usage");
    if (!reported || !reported->is_object()) return;
    const auto count = [&](std::string_view key) {
        const Json* value = member(*reported, key);
        return value && value->is_int64() ? TokenCount(value->get_int64()) : TokenCount();
    };
    Usage& usage = into.usage ? *into.usage : into.usage.emplace();
    Usage one;
    one.input_tokens = count("input_tokens");
    one.output_tokens = count("output_tokens");
    usage += one;
}

void read_head(const Json& answer, AssistantImages& into) {
    if (const std::string_view id = text_of(member(answer, "id")); !id.empty())
        into.response_id = id;
    for (const std::string_view key : {"size", "quality", "background", "output_format"}) {
        const Json* value = member(answer, key);
        if (value && !value->is_null()) into.metadata[key] = *value;
    }
    read_usage(answer, into);
}

}  // namespace

ImagesPayload images_payload(const ImagesModel& model, const ImagesContext& context,
                             const ImagesCapability& capability, int partial_images) {
    if (context.prompt.empty())
        throw Error(ErrorCode::invalid_argument, "ImagesContext::prompt must not be empty");
    ImagesPayload made;
    made.body["model"] = model.id;
    made.body["prompt"] = context.prompt;
    put_input_images(made, model, context, capability);
    if (const auto& size = context.size ? context.size : model.size; size)
        put_size(made.body, *size, capability.size_kind);
    if (const auto& n = context.n ? context.n : model.n; n) made.body[capability.count_field] = *n;
    put(made, capability.quality_field, "quality", word_of(context.quality, model.quality));
    put(made, capability.output_format_field, "output_format",
        word_of(context.output_format, model.output_format));
    put(made, capability.seed_field, "seed", context.seed);
    put(made, capability.negative_prompt_field, "negative_prompt",
        context.negative_prompt.empty() ? std::nullopt
                                        : std::optional<std::string>(context.negative_prompt));
    put(made, capability.steps_field, "steps", context.steps);
    put(made, capability.guidance_field, "guidance", context.guidance);
    if (capability.response_format_field)
        made.body[*capability.response_format_field] = capability.response_format_value;
    if (partial_images > 0 && capability.partial_images) {
        made.body["stream"] = true;
        made.body["partial_images"] = partial_images;
    } else if (partial_images > 0) {
        made.notices.push_back(left_out("partial_images"));
    }
    deep_merge(made.body, capability.extra_payload);
    deep_merge(made.body, context.extra);
    return made;
}

std::string multipart_form(const JsonObject& body, const std::vector<ImageContent>& images,
                           std::string_view image_field, std::string_view boundary) {
    std::string form;
    for (const auto& [key, value] : body) {
        if (key == image_field) continue;
        const std::string text =
            value.is_string() ? std::string(value.get_string()) : boost::json::serialize(value);
        add_part(form, boundary, key, {}, text);
    }
    // Several files go under one name with brackets, as OpenAI has it.
    const std::string name = std::string(image_field) + (images.size() > 1 ? "[]" : "");
    std::size_t number = 0;
    for (const ImageContent& image : images) {
        const std::string type = image.media_type.empty() ? "image/png" : image.media_type.str();
        const std::string more = "; filename=\"image-" + std::to_string(++number) + "." +
                                 extension_of(type) + "\"\r\ncontent-type: " + type;
        add_part(form, boundary, name, more, from_base64(image.source));
    }
    form += "--";
    form += boundary;
    form += "--\r\n";
    return form;
}

void read_images(const Json& answer, std::string_view media_type, AssistantImages& into) {
    const Json* data = member(answer, "data");
    if (!data || !data->is_array()) {
        throw Error(ErrorCode::protocol,
                    "the response has no images; check that the base URL is that of an Images API");
    }
    const std::string type = media_type_in(answer, media_type);
    JsonArray revised;
    for (const Json& item : data->get_array()) {
        if (std::optional<ImageContent> image = image_of(item, type))
            into.output.emplace_back(std::move(*image));
        const std::string_view prompt = text_of(member(item, "revised_prompt"));
        if (!prompt.empty()) revised.push_back(Json(prompt));
    }
    if (into.output.empty()) throw Error(ErrorCode::protocol, "the response contains no images");
    if (!revised.empty()) into.metadata["revised_prompts"] = std::move(revised);
    read_head(answer, into);
}

std::optional<ImagesEvent> read_images_event(const Json& event, std::string_view media_type,
                                             AssistantImages& into) {
    const std::string_view type = text_of(member(event, "type"));
    const Json* error = member(event, "error");
    if (type == "error" || (error && !error->is_null()))
        throw StreamFailure(read_stream_failure(error && !error->is_null() ? *error : event));
    std::optional<ImageContent> image = image_of(event, media_type_in(event, media_type));
    if (type.ends_with(".partial_image") && image) {
        ImagesEvent sketch;
        sketch.type = ImagesEvent::Type::partial_image;
        sketch.image = std::move(*image);
        const Json* index = member(event, "partial_image_index");
        if (index && index->is_int64()) sketch.index = static_cast<int>(index->get_int64());
        return sketch;
    }
    if (type.ends_with(".completed") && image) {
        into.output.emplace_back(std::move(*image));
        read_head(event, into);
    }
    return std::nullopt;
}

std::string from_base64(std::string_view text) {
    static const std::array<std::int8_t, 256> values = [] {
        std::array<std::int8_t, 256> made{};
        made.fill(-1);
        constexpr std::string_view letters =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for (std::size_t i = 0; i < letters.size(); ++i)
            made[static_cast<unsigned char>(letters[i])] = static_cast<std::int8_t>(i);
        return made;
    }();
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t held = 0;
    int bits = 0;
    for (const char c : text) {
        if (c == '=' || c == '\n' || c == '\r' || c == ' ') continue;
        const std::int8_t value = values[static_cast<unsigned char>(c)];
        if (value < 0) {
            throw Error(ErrorCode::invalid_argument,
                        "An image's source is neither base64 nor a URL");
        }
        held = (held << 6) | static_cast<std::uint32_t>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        bytes.push_back(static_cast<char>((held >> bits) & 0xffU));
    }
    return bytes;
}

}  // namespace cubepi::detail
