#pragma once

#include <memory>
#include <string>
#include <utility>

#include <cubepi/provider/observers.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// A provider with an id and observers. Copies are handles to the same observers. Derive from it to write your
/// own provider with them.
class BaseProvider : public Provider {
public:
    const std::string& provider_id() const noexcept override { return provider_id_; }
    std::shared_ptr<ObserverRegistry> observer_registry() const override { return observers_; }

    /// `observer(const RequestPayload&, const ProviderCall&)`: called right before a request is sent, after all changes.
    /// Observers may return nothing or a Task<void>, which is awaited. They observe the calls that start from now on.
    ObserverHandle subscribe_request(RequestObserver observer) {
        return handle(observers_->add(std::move(observer)));
    }
    /// `observer(const StreamEvent&, const ProviderCall&)`: called with each event before the consumer receives it.
    ObserverHandle subscribe_chunk(ChunkObserver observer) {
        return handle(observers_->add(std::move(observer)));
    }
    /// `observer(const ProviderOutcome&, const ProviderCall&)`: called once per call, at its end. If a stream is dropped
    /// before its end, only observers that return void are called.
    ObserverHandle subscribe_response(ResponseObserver observer) {
        return handle(observers_->add(std::move(observer)));
    }

protected:
    explicit BaseProvider(std::string provider_id)
        : provider_id_(std::move(provider_id)), observers_(std::make_shared<ObserverRegistry>()) {}

    const std::shared_ptr<ObserverRegistry>& observers() const noexcept { return observers_; }

    /// Returns the observation of a call that begins; null if there are no observers.
    std::shared_ptr<ObservedCall> observe(const ModelRequest& request) const {
        return observers_->observe(request);
    }

    /// Returns the stream over `source`, with the observers, if any, in between. `body` creates ProviderOutcome::body.
    static MessageStream observed(std::unique_ptr<StreamSource> source,
                                  std::shared_ptr<ObservedCall> call, BodyBuilder body = {}) {
        if (!call) return MessageStream(std::move(source));
        return MessageStream(observe_stream(std::move(call), std::move(source), std::move(body)));
    }

private:
    ObserverHandle handle(std::uint64_t id) const { return ObserverHandle(observers_, id); }

    std::string provider_id_;
    std::shared_ptr<ObserverRegistry> observers_;
};

}  // namespace cubepi
