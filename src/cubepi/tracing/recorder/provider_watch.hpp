#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cubepi/provider/observers.hpp>

namespace cubepi::detail {

/// Observes the providers of many agents, each provider once, however many agents share it. Thread-safe.
class ProviderWatch {
public:
    /// `on_request` may be empty.
    ProviderWatch(RequestObserver on_request, ResponseObserver on_response)
        : on_request_(std::move(on_request)), on_response_(std::move(on_response)) {}
    ~ProviderWatch();
    ProviderWatch(const ProviderWatch&) = delete;
    ProviderWatch& operator=(const ProviderWatch&) = delete;

    /// The providers of some models. An observation ends when the last of these lists with its provider is destroyed.
    class Lease {
    public:
        Lease() = default;
        Lease(std::shared_ptr<ProviderWatch> watch,
              std::vector<std::shared_ptr<ObserverRegistry>> registries)
            : watch_(std::move(watch)), registries_(std::move(registries)) {}
        Lease(Lease&& other) noexcept
            : watch_(std::move(other.watch_)), registries_(std::exchange(other.registries_, {})) {}
        Lease& operator=(Lease&& other) noexcept;
        ~Lease() { release(); }

    private:
        void release() noexcept;

        std::shared_ptr<ProviderWatch> watch_;
        std::vector<std::shared_ptr<ObserverRegistry>> registries_;
    };

    /// Observes all providers of the models that can be observed.
    static Lease watch(const std::shared_ptr<ProviderWatch>& self,
                       const std::vector<BoundModel>& models);

private:
    struct Entry {
        std::size_t users = 0;
        ObserverHandle request;
        ObserverHandle response;
    };
    void add(const std::shared_ptr<ObserverRegistry>& registry);
    void remove(const std::shared_ptr<ObserverRegistry>& registry) noexcept;

    const RequestObserver on_request_;
    const ResponseObserver on_response_;
    std::mutex mutex_;
    std::unordered_map<ObserverRegistry*, Entry> entries_;
};

}  // namespace cubepi::detail
