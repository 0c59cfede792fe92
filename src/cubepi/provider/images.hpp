#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/observer_handle.hpp>
#include <cubepi/provider/stream_options.hpp>

// Image generation: providers separate from those of chat models.

namespace cubepi {

enum class ImageQuality : std::uint8_t { low, medium, high };
enum class ImageFormat : std::uint8_t { png, jpeg, webp };
std::string_view to_string(ImageQuality quality) noexcept;
std::string_view to_string(ImageFormat format) noexcept;
/// "image/png"
std::string_view media_type_of(ImageFormat format) noexcept;

/// USD. Absent means unknown, not free.
struct ImagesCost {
    std::optional<double> per_image = {};
    std::optional<double> per_megapixel = {};
};

/// An image model with the defaults of its requests. Absent values are not sent.
struct ImagesModel {
    std::string id = {};
    std::string provider_id = {};
    std::string api = {};
    std::optional<std::string> size = {};
    std::optional<int> n = {};
    std::optional<ImageQuality> quality = {};
    std::optional<ImageFormat> output_format = {};
    std::optional<std::size_t> max_input_images = {};
    std::optional<ImagesCost> cost = {};
};

/// The images to create.
struct ImagesContext {
    std::string prompt = {};
    std::vector<ImageContent> input_images =
        {};                                ///< to edit or to use as a reference; base64, not URLs
    std::optional<std::string> size = {};  ///< "1024x1024", or a ratio if the endpoint accepts one
    std::optional<int> n = {};             ///< number of images
    std::optional<ImageQuality> quality = {};
    std::optional<ImageFormat> output_format = {};
    std::optional<std::int64_t> seed = {};
    std::string negative_prompt = {};
    std::optional<int> steps = {};
    std::optional<double> guidance = {};
    JsonObject extra = {};  ///< merged into the request, over everything else
};

/// The result of a call. Failures are thrown, not stored here.
struct AssistantImages {
    std::string api = {};
    std::string provider_id = {};
    std::string model = {};
    ContentList<Content> output = {};  ///< images (base64 or URLs) and texts
    SharedString stop_reason = stop_reason::shared(stop_reason::stop);  ///< "stop" or "aborted"
    std::string response_id = {};
    std::optional<double> timestamp = {};  ///< Unix time, seconds
    std::optional<Usage> usage = {};
    JsonObject metadata = {};  ///< further data of the response: size, quality, revised prompts

    bool aborted() const noexcept { return stop_reason == stop_reason::aborted; }
    /// The images of the output; valid as long as this object.
    std::vector<const ImageContent*> images() const;
};

/// Returns the cost of the images in USD, by ImagesModel::cost; empty if it has no applicable price.
std::optional<double> cost_of(const AssistantImages& images, const ImagesModel& model);

/// An event during the generation of images.
struct ImagesEvent {
    enum class Type : std::uint8_t {
        partial_image,  ///< a preview of an unfinished image
        notice,         ///< a retry, or a value that was omitted or changed
    };
    Type type = Type::notice;
    int index = 0;  ///< of the preview
    ImageContent image = {};
    Notice notice = {};
};

namespace detail {
CUBEPI_DETAIL_SLOT(images_on_payload,
                   "ImagesOptions::on_payload must be callable as Task<std::optional<JsonObject>> "
                   "(JsonObject payload, ImagesModel model)")
CUBEPI_DETAIL_SLOT(images_on_response,
                   "ImagesOptions::on_response must be callable as Task<void> (ProviderResponse "
                   "response, ImagesModel model)")
CUBEPI_DETAIL_SLOT(images_on_event,
                   "ImagesOptions::on_event must be callable as void (const ImagesEvent&); a Task "
                   "would never run")
CUBEPI_DETAIL_SLOT(images_request_observer,
                   "an images request observer must be callable as void (const JsonObject& "
                   "payload, const ImagesModel&); a Task would never run")
CUBEPI_DETAIL_SLOT(images_response_observer,
                   "an images response observer must be callable as void (const ImagesOutcome&, "
                   "const ImagesModel&); a Task would never run")
}  // namespace detail

using ImagesPayloadHook =
    detail::SlotFunction<Task<std::optional<JsonObject>>(JsonObject payload, ImagesModel model),
                         detail::images_on_payload_slot>;
using ImagesResponseHook =
    detail::SlotFunction<Task<void>(ProviderResponse response, ImagesModel model),
                         detail::images_on_response_slot>;
using ImagesEventHandler =
    detail::SlotFunction<void(const ImagesEvent&), detail::images_on_event_slot>;

/// Options of one call. `ImagesOptions().stop_token(token).partial_images(2)`
class ImagesOptions {
public:
    ImagesOptions() {}

    ImagesOptions&& stop_token(std::stop_token value) && {
        stop_token_ = std::move(value);
        return std::move(*this);
    }
    ImagesOptions&& on_payload(ImagesPayloadHook value) && {
        on_payload_ = std::move(value);
        return std::move(*this);
    }
    ImagesOptions&& on_response(ImagesResponseHook value) && {
        on_response_ = std::move(value);
        return std::move(*this);
    }
    /// Called on the executor of the call.
    ImagesOptions&& on_event(ImagesEventHandler value) && {
        on_event_ = std::move(value);
        return std::move(*this);
    }
    /// Number of previews to request per image, if the endpoint supports them.
    ImagesOptions&& partial_images(int value) && {
        partial_images_ = value;
        return std::move(*this);
    }
    ImagesOptions&& runtime(std::shared_ptr<const Runtime> value) && {
        runtime_ = std::move(value);
        return std::move(*this);
    }

    /// Ends the call from any thread; the result has the stop reason "aborted" and no output.
    const std::stop_token& stop_token() const noexcept { return stop_token_; }
    const ImagesPayloadHook& on_payload() const noexcept { return on_payload_; }
    const ImagesResponseHook& on_response() const noexcept { return on_response_; }
    const ImagesEventHandler& on_event() const noexcept { return on_event_; }
    int partial_images() const noexcept { return partial_images_; }
    /// Never null.
    std::shared_ptr<const Runtime> runtime() const;

private:
    std::stop_token stop_token_;
    ImagesPayloadHook on_payload_;
    ImagesResponseHook on_response_;
    ImagesEventHandler on_event_;
    int partial_images_ = 0;
    std::shared_ptr<const Runtime> runtime_;
};

/// An endpoint that creates images. May be shared by several executors.
class ImagesProvider {
public:
    virtual ~ImagesProvider() = default;
    /// Creates images. Throws ProviderError for failures of the endpoint or the network, Error for an invalid
    /// request; an abort is a result.
    virtual Task<AssistantImages> generate_images(ImagesModel model, ImagesContext context,
                                                  ImagesOptions options = {}) = 0;
    virtual const std::string& provider_id() const noexcept = 0;
};

/// The outcome of a call, as passed to observers at its end.
struct ImagesOutcome {
    std::optional<AssistantImages> images = {};  ///< empty when the call failed
    std::exception_ptr failure = {};
};
using ImagesRequestObserver =
    detail::SlotFunction<void(const JsonObject& payload, const ImagesModel&),
                         detail::images_request_observer_slot>;
using ImagesResponseObserver = detail::SlotFunction<void(const ImagesOutcome&, const ImagesModel&),
                                                    detail::images_response_observer_slot>;

/// The observers of an images provider. Their exceptions are ignored. Any thread may call any member.
class ImagesObservers {
public:
    std::uint64_t add(ImagesRequestObserver observer);
    std::uint64_t add(ImagesResponseObserver observer);
    void remove(std::uint64_t id) noexcept;
    void notify(const JsonObject& payload, const ImagesModel& model) const;
    void notify(const ImagesOutcome& outcome, const ImagesModel& model) const;

private:
    mutable std::mutex mutex_;
    std::uint64_t last_id_ = 0;
    std::vector<std::pair<std::uint64_t, std::shared_ptr<const ImagesRequestObserver>>> requests_;
    std::vector<std::pair<std::uint64_t, std::shared_ptr<const ImagesResponseObserver>>> responses_;
};

using ImagesObserverHandle = BasicObserverHandle<ImagesObservers>;

/// An images provider with an id and observers. Copies are handles to the same observers.
class BaseImagesProvider : public ImagesProvider {
public:
    const std::string& provider_id() const noexcept override { return provider_id_; }
    /// A model of this provider.
    ImagesModel model(std::string id) const;
    /// Called right before a request is sent, after all changes.
    ImagesObserverHandle subscribe_request(ImagesRequestObserver observer) {
        return {observers_, observers_->add(std::move(observer))};
    }
    /// Called once per call, at its end.
    ImagesObserverHandle subscribe_response(ImagesResponseObserver observer) {
        return {observers_, observers_->add(std::move(observer))};
    }

protected:
    explicit BaseImagesProvider(std::string provider_id)
        : provider_id_(std::move(provider_id)), observers_(std::make_shared<ImagesObservers>()) {}
    const std::shared_ptr<ImagesObservers>& observers() const noexcept { return observers_; }

private:
    std::string provider_id_;
    std::shared_ptr<ImagesObservers> observers_;
};

/// Returns the same small image for every call: for tests.
class FauxImagesProvider final : public BaseImagesProvider {
public:
    /// `png_base64` empty: one transparent pixel. `failure` is thrown by each call if it is set.
    explicit FauxImagesProvider(std::string png_base64 = {}, std::exception_ptr failure = {});
    Task<AssistantImages> generate_images(ImagesModel model, ImagesContext context,
                                          ImagesOptions options = {}) override;

private:
    std::string png_base64_;
    std::exception_ptr failure_;
};

}  // namespace cubepi
