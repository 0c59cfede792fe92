#pragma once

#include <atomic>
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
#include <cubepi/provider/message_stream.hpp>

// Observers of a provider: they receive every request, event and answer of all its calls (tracers, recorders). They
// cannot change anything, and their exceptions become a `notice` of the stream.

namespace cubepi {

/// The outcome of a call, as passed to response observers.
struct ProviderOutcome {
    /// The answer in the form of an unstreamed response of the endpoint; null if the call failed or was aborted.
    Json body = {};
    /// The final message; empty if the stream was dropped before its end.
    Message message = {};
    /// The typed failure; null if there was none.
    SharedValue<ErrorInfo> error = {};
};

namespace detail {

CUBEPI_DETAIL_SLOT(request_observer,
                   "a request observer must be callable with (const JsonObject& payload, const "
                   "Model&) and return void or Task<void>")
CUBEPI_DETAIL_SLOT(chunk_observer,
                   "a chunk observer must be callable with (const StreamEvent&, const Model&) and "
                   "return void or Task<void>")
CUBEPI_DETAIL_SLOT(response_observer,
                   "a response observer must be callable with (const ProviderOutcome&, const "
                   "Model&) and return void or Task<void>")

/// A callable that returns void or a Task<void>.
template <class Slot, class... Args>
using Observer = AsyncFunction<void(const Args&...), Slot>;

}  // namespace detail

using RequestObserver = detail::Observer<detail::request_observer_slot, JsonObject, Model>;
using ChunkObserver = detail::Observer<detail::chunk_observer_slot, StreamEvent, Model>;
using ResponseObserver = detail::Observer<detail::response_observer_slot, ProviderOutcome, Model>;

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
        bool has_async = false;
    };

    bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
    std::shared_ptr<const Lists> lists() const;

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
};

/// Ends one observation; its destructor does not. Any thread may call it, also the observer itself.
class ObserverHandle {
public:
    ObserverHandle() = default;
    ObserverHandle(std::weak_ptr<ObserverRegistry> registry, std::uint64_t id)
        : registry_(std::move(registry)), id_(id) {}
    /// Further calls have no effect.
    void detach() noexcept {
        if (const auto registry = registry_.lock()) registry->remove(id_);
    }

private:
    std::weak_ptr<ObserverRegistry> registry_;
    std::uint64_t id_ = 0;
};

namespace detail {

/// Creates the unstreamed form of an answer at the end of an observed call.
using BodyBuilder = std::function<JsonObject(const AssistantMessage& message)>;

/// Calls the request observers. Returns their exceptions as notices.
Task<std::vector<Notice>> observe_request(std::shared_ptr<ObserverRegistry> registry,
                                          JsonObject payload, Model model);

/// Places the chunk and response observers between a source and its stream.
std::unique_ptr<StreamSource> observe_stream(std::shared_ptr<ObserverRegistry> registry,
                                             std::unique_ptr<StreamSource> source, Model model,
                                             BodyBuilder body);

}  // namespace detail

}  // namespace cubepi
