#include <cubepi/provider/images.hpp>

#include <algorithm>
#include <charconv>

namespace cubepi {

namespace {

constexpr std::string_view one_pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJg"
    "gg==";

template <class List>
auto snapshot(std::mutex& mutex, const List& list) {
    const std::scoped_lock lock(mutex);
    return list;
}

/// Returns the pixels of a size like "1024x768"; 0 for other texts.
double pixels_of(std::string_view size) {
    const std::size_t cross = size.find('x');
    if (cross == std::string_view::npos) return 0;
    int width = 0;
    int height = 0;
    const char* const end = size.data() + size.size();
    if (std::from_chars(size.data(), size.data() + cross, width).ec != std::errc()) return 0;
    if (std::from_chars(size.data() + cross + 1, end, height).ec != std::errc()) return 0;
    return static_cast<double>(width) * static_cast<double>(height);
}

}  // namespace

std::string_view to_string(ImageQuality quality) noexcept {
    switch (quality) {
        case ImageQuality::low: return "low";
        case ImageQuality::medium: return "medium";
        case ImageQuality::high: return "high";
    }
    return "medium";
}

std::string_view to_string(ImageFormat format) noexcept {
    switch (format) {
        case ImageFormat::png: return "png";
        case ImageFormat::jpeg: return "jpeg";
        case ImageFormat::webp: return "webp";
    }
    return "png";
}

std::string_view media_type_of(ImageFormat format) noexcept {
    switch (format) {
        case ImageFormat::png: return "image/png";
        case ImageFormat::jpeg: return "image/jpeg";
        case ImageFormat::webp: return "image/webp";
    }
    return "image/png";
}

std::vector<const ImageContent*> AssistantImages::images() const {
    std::vector<const ImageContent*> found;
    for (const Content& block : output) {
        if (const auto* image = std::get_if<ImageContent>(&block)) found.push_back(image);
    }
    return found;
}

std::optional<double> cost_of(const AssistantImages& images, const ImagesModel& model) {
    if (!model.cost) return std::nullopt;
    const auto count = static_cast<double>(images.images().size());
    if (model.cost->per_image) return count * *model.cost->per_image;
    if (!model.cost->per_megapixel) return std::nullopt;
    const Json* size = images.metadata.if_contains("size");
    const double pixels =
        pixels_of(size && size->is_string() ? std::string_view(size->get_string())
                                            : std::string_view(model.size.value_or("")));
    if (pixels == 0) return std::nullopt;
    return count * *model.cost->per_megapixel * pixels / 1e6;
}

std::shared_ptr<const Runtime> ImagesOptions::runtime() const {
    return runtime_ ? runtime_ : Runtime::standard();
}

std::uint64_t ImagesObservers::add(ImagesRequestObserver observer) {
    const std::scoped_lock lock(mutex_);
    requests_.emplace_back(++last_id_,
                           std::make_shared<const ImagesRequestObserver>(std::move(observer)));
    return last_id_;
}

std::uint64_t ImagesObservers::add(ImagesResponseObserver observer) {
    const std::scoped_lock lock(mutex_);
    responses_.emplace_back(++last_id_,
                            std::make_shared<const ImagesResponseObserver>(std::move(observer)));
    return last_id_;
}

void ImagesObservers::remove(std::uint64_t id) noexcept {
    const std::scoped_lock lock(mutex_);
    std::erase_if(requests_, [id](const auto& one) { return one.first == id; });
    std::erase_if(responses_, [id](const auto& one) { return one.first == id; });
}

void ImagesObservers::notify(const JsonObject& payload, const ImagesModel& model) const {
    for (const auto& one : snapshot(mutex_, requests_)) {
        try {
            (*one.second)(payload, model);
        } catch (...) {
            // An observer cannot harm the call.
        }
    }
}

void ImagesObservers::notify(const ImagesOutcome& outcome, const ImagesModel& model) const {
    for (const auto& one : snapshot(mutex_, responses_)) {
        try {
            (*one.second)(outcome, model);
        } catch (...) {
            // An observer cannot harm the call.
        }
    }
}

ImagesModel BaseImagesProvider::model(std::string id) const {
    ImagesModel made;
    made.id = std::move(id);
    made.provider_id = provider_id_;
    return made;
}

FauxImagesProvider::FauxImagesProvider(std::string png_base64, std::exception_ptr failure)
    : BaseImagesProvider("faux"),
      png_base64_(png_base64.empty() ? std::string(one_pixel) : std::move(png_base64)),
      failure_(std::move(failure)) {}

Task<AssistantImages> FauxImagesProvider::generate_images(ImagesModel model, ImagesContext context,
                                                          ImagesOptions options) {
    AssistantImages made;
    made.provider_id = provider_id();
    made.model = model.id;
    JsonObject payload;
    payload["model"] = model.id;
    payload["prompt"] = context.prompt;
    observers()->notify(payload, model);
    ImagesOutcome outcome;
    if (failure_) {
        outcome.failure = failure_;
        observers()->notify(outcome, model);
        std::rethrow_exception(failure_);
    }
    if (options.stop_token().stop_requested()) {
        made.stop_reason = stop_reason::shared(stop_reason::aborted);
    } else {
        const int count = std::max(1, context.n.value_or(model.n.value_or(1)));
        for (int i = 0; i < count; ++i) {
            ImageContent image;
            image.source = png_base64_;
            image.media_type = "image/png";
            made.output.emplace_back(std::move(image));
        }
    }
    outcome.images = made;
    observers()->notify(outcome, model);
    co_return made;
}

}  // namespace cubepi
