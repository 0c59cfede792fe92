#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cubepi/provider/observers.hpp>

// Tables that the recorders of many agents share: the observed providers and the active runs.

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

/// Objects of type T, one for each active run, by run id. Thread-safe.
template <class T>
class RunTable {
public:
    void add(std::string_view run_id, std::shared_ptr<T> run) {
        const std::lock_guard lock(mutex_);
        runs_.insert_or_assign(std::string(run_id), std::move(run));
    }
    /// Removes the run, unless another one has taken its id.
    void remove(std::string_view run_id, const T* run) noexcept {
        std::shared_ptr<T> removed;  // destroyed after the lock
        const std::lock_guard lock(mutex_);
        const auto found = runs_.find(run_id);
        if (found == runs_.end() || found->second.get() != run) return;
        removed = std::move(found->second);
        runs_.erase(found);
    }
    /// Calls `use` with the run, if there is one, under the lock of the table.
    template <class Use>
    void with(std::string_view run_id, Use use) const {
        const std::lock_guard lock(mutex_);
        const auto found = runs_.find(run_id);
        if (found != runs_.end()) use(*found->second);
    }
    /// Locks what with() protects.
    std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
    /// Returns null if there is none.
    std::shared_ptr<T> find(std::string_view run_id) const {
        const std::lock_guard lock(mutex_);
        const auto found = runs_.find(run_id);
        return found == runs_.end() ? nullptr : found->second;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<T>, std::less<>> runs_;
};

/// The recorders of agents: one for each agent, however often it is attached (D103). Thread-safe.
template <class Recorder>
class AttachedAgents {
public:
    void add(const void* agent, const std::shared_ptr<Recorder>& recorder) {
        const std::lock_guard lock(mutex_);
        recorders_.insert_or_assign(agent, recorder);
    }
    /// Returns null if there is none. The recorder may be that of an earlier agent at this address.
    std::shared_ptr<Recorder> find(const void* agent) const {
        const std::lock_guard lock(mutex_);
        const auto found = recorders_.find(agent);
        return found == recorders_.end() ? nullptr : found->second.lock();
    }
    /// Removes what has no owner left.
    void remove(const void* agent) noexcept {
        const std::lock_guard lock(mutex_);
        const auto found = recorders_.find(agent);
        if (found != recorders_.end() && found->second.expired()) recorders_.erase(found);
    }

private:
    mutable std::mutex mutex_;
    std::unordered_map<const void*, std::weak_ptr<Recorder>> recorders_;
};

}  // namespace cubepi::detail
