#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/stream_event.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/observer_handle.hpp>
#include <cubepi/provider/provider.hpp>

// Observers of a provider: they receive every request, event and answer of all its calls (tracers, recorders). They
// cannot change anything, and their exceptions become a `notice` of the stream.

namespace cubepi {

/// One call of a provider (D70). All notifications about it refer to the same object.
struct ProviderCall {
    ProviderCall() = default;
    explicit ProviderCall(ModelRequest&& made) : request(std::move(made)) {}

    /// The request as the caller made it. Its options name the run, the message, the purpose and the attempt.
    ModelRequest request = {};
    /// When the request was announced to the observers, by the clock of its runtime.
    std::chrono::steady_clock::time_point started = {};

    /// Returns the unique id of the call; created when it is first asked for, so only one thread at a time may ask.
    const std::string& id() const;

    const Model& model() const noexcept { return request.model; }
    /// The run that made the call; empty: none.
    const SharedString& run_id() const noexcept { return request.options.run_id(); }
    /// The id of the answer; empty: none.
    const std::string& message_id() const noexcept { return request.options.message_id(); }
    const SharedString& purpose() const noexcept { return request.options.purpose(); }
    std::uint32_t attempt() const noexcept { return request.options.attempt(); }

private:
    mutable std::string id_ = {};
};

/// The body of a request, as passed to request observers. Valid during the notification.
class RequestPayload {
public:
    using Builder = JsonObject (*)(const ModelRequest& request);

    /// The provider has no body.
    RequestPayload() = default;
    /// `body` must outlive the payload.
    explicit RequestPayload(const JsonObject& body) noexcept : body_(&body) {}
    /// A body that is built only if it is used. `request` must outlive the payload.
    RequestPayload(Builder build, const ModelRequest& request) noexcept
        : build_(build), request_(&request) {}

    /// Returns the body; empty if the provider has none.
    const JsonObject& json() const;
    /// Returns the body if it exists without being built, otherwise null. For observers of every call.
    const JsonObject* built() const noexcept { return body_ || !built_ ? body_ : &*built_; }

private:
    const JsonObject* body_ = nullptr;
    Builder build_ = nullptr;
    const ModelRequest* request_ = nullptr;
    mutable std::optional<JsonObject> built_ = {};
};

/// Creates the unstreamed form of an answer.
using BodyBuilder = std::function<JsonObject(const AssistantMessage& message)>;

/// The outcome of a call, as passed to response observers.
struct ProviderOutcome {
    /// The final message; empty if the stream was dropped before its end.
    Message message = {};
    /// The typed failure; null if there was none.
    SharedValue<ErrorInfo> error = {};
    std::chrono::steady_clock::time_point started = {};  ///< ProviderCall::started
    /// When the first delta arrived; empty: none did.
    std::optional<std::chrono::steady_clock::time_point> first_chunk = {};
    std::chrono::steady_clock::time_point ended = {};
    /// The details that the endpoint states about the answer.
    ResponseDetails details = {};
    /// Creates the body; empty if the call failed or was aborted, or the provider has none.
    BodyBuilder build_body = {};

    /// Returns the answer in the form of an unstreamed response of the endpoint, created by each call; null if there is none.
    Json body() const;
};

namespace detail {

CUBEPI_DETAIL_SLOT(request_observer,
                   "a request observer must be callable with (const RequestPayload&, const "
                   "ProviderCall&) and return void or Task<void>")
CUBEPI_DETAIL_SLOT(chunk_observer,
                   "a chunk observer must be callable with (const StreamEvent&, const "
                   "ProviderCall&) and return void or Task<void>")
CUBEPI_DETAIL_SLOT(response_observer,
                   "a response observer must be callable with (const ProviderOutcome&, const "
                   "ProviderCall&) and return void or Task<void>")

/// A callable that returns void or a Task<void>.
template <class Slot, class... Args>
using Observer = AsyncFunction<void(const Args&...), Slot>;

}  // namespace detail

using RequestObserver =
    detail::Observer<detail::request_observer_slot, RequestPayload, ProviderCall>;
using ChunkObserver = detail::Observer<detail::chunk_observer_slot, StreamEvent, ProviderCall>;
using ResponseObserver =
    detail::Observer<detail::response_observer_slot, ProviderOutcome, ProviderCall>;

class ObserverRegistry;

/// A call with the observers of its provider.
struct ObservedCall {
    ObservedCall(std::shared_ptr<ObserverRegistry> of, ModelRequest&& request)
        : observers(std::move(of)), call(std::move(request)) {}

    const std::shared_ptr<ObserverRegistry> observers;
    ProviderCall call;
    bool announced = false;  ///< the request observers were called
    /// Set for a source that does not call observe_request() itself: builds the payload that the observers receive before
    /// the source is asked for its first event.
    RequestPayload::Builder build_payload = nullptr;
    ResponseDetails details = {};  ///< of the answer; set by the source before its last event

    RequestPayload payload() const noexcept {
        return build_payload ? RequestPayload(build_payload, call.request) : RequestPayload();
    }
    std::chrono::steady_clock::time_point now() const {
        return call.request.options.runtime()->clock->now();
    }
    /// Notes that the request observers are called now. Returns false if they were already.
    bool announce();
};

/// All observers of one provider. Any thread may call any member.
class ObserverRegistry : public std::enable_shared_from_this<ObserverRegistry> {
public:
    template <class O>
    struct Entry {
        std::uint64_t id = 0;
        O observer;
    };
    /// Immutable: a round of calls uses the list as it was at its beginning.
    struct Lists {
        std::vector<Entry<RequestObserver>> request = {};
        std::vector<Entry<ChunkObserver>> chunk = {};
        std::vector<Entry<ResponseObserver>> response = {};
        bool has_async = false;  ///< an observer may return a task
    };

    bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
    std::shared_ptr<const Lists> lists() const;
    /// Changes with the lists.
    std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
    /// Returns the observation of a call that begins; null if there are no observers.
    std::shared_ptr<ObservedCall> observe(const ModelRequest& request);
    /// The same, but moves the request into the observation instead of copying it. Without observers, it stays where it is.
    std::shared_ptr<ObservedCall> take(ModelRequest& request);

    std::uint64_t add(RequestObserver observer);
    std::uint64_t add(ChunkObserver observer);
    std::uint64_t add(ResponseObserver observer);
    void remove(std::uint64_t id) noexcept;

private:
    template <class F>
    void change(F&& f);

    mutable std::mutex mutex_;
    std::shared_ptr<const Lists> lists_ = std::make_shared<const Lists>();
    std::uint64_t next_id_ = 1;
    std::atomic<std::size_t> count_{0};
    std::atomic<std::uint64_t> version_{1};
};

using ObserverHandle = BasicObserverHandle<ObserverRegistry>;

/// Calls the request observers. Returns their exceptions as notices. `call` must not be null.
Task<std::vector<Notice>> observe_request(std::shared_ptr<ObservedCall> call,
                                          RequestPayload payload);

/// Places the observers between a source and its stream: they receive its events and, if the source does not call
/// observe_request() before its first event, a request with the payload of the call. `call` must not be null.
std::unique_ptr<StreamSource> observe_stream(std::shared_ptr<ObservedCall> call,
                                             std::unique_ptr<StreamSource> source,
                                             BodyBuilder body);

}  // namespace cubepi
