#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cubepi/provider/observers.hpp>

// Tables that the recorders of many agents share: the observed providers, the active runs, and the recorders of metrics.

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

/// Objects of type T, one for each active run, by run id. Thread-safe: divided into parts so that sessions on several threads do
/// not wait for each other.
template <class T>
class RunTable {
public:
    void add(std::string_view run_id, std::shared_ptr<T> run) {
        Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        part.runs.insert_or_assign(std::string(run_id), std::move(run));
    }
    /// Removes the run, unless another one has taken its id.
    void remove(std::string_view run_id, const T* run) noexcept {
        std::shared_ptr<T> removed;  // destroyed after the lock
        Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        const auto found = part.runs.find(run_id);
        if (found == part.runs.end() || found->second.get() != run) return;
        removed = std::move(found->second);
        part.runs.erase(found);
    }
    /// Calls `use` with the run, if there is one, under the lock of its part of the table.
    template <class Use>
    void with(std::string_view run_id, Use use) const {
        const Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        const auto found = part.runs.find(run_id);
        if (found != part.runs.end()) use(*found->second);
    }
    /// Locks the part of the table with this id: what with() protects.
    std::unique_lock<std::mutex> lock(std::string_view run_id) const {
        return std::unique_lock(part_of(run_id).mutex);
    }
    /// Returns null if there is none.
    std::shared_ptr<T> find(std::string_view run_id) const {
        const Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        const auto found = part.runs.find(run_id);
        return found == part.runs.end() ? nullptr : found->second;
    }

private:
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    struct Part {
        mutable std::mutex mutex;
        std::unordered_map<std::string, std::shared_ptr<T>, Hash, std::equal_to<>> runs;
    };

    Part& part_of(std::string_view run_id) noexcept {
        return parts_[Hash()(run_id) % parts_.size()];
    }
    const Part& part_of(std::string_view run_id) const noexcept {
        return parts_[Hash()(run_id) % parts_.size()];
    }

    std::array<Part, 16> parts_;
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

/// Recorders of metrics by the values that select them, so that a call need not build and look up its attributes. Thread-safe, without
/// locks. Bounded: further values have no entry, and their recorders are created by each call.
template <class Recorders>
class RecorderCache {
public:
    struct Key {
        std::array<std::string_view, 3> values = {};
        unsigned parts = 0;  ///< which of the recorders exist
    };

    RecorderCache() = default;
    ~RecorderCache() {
        for (Entry* entry = first_.load(); entry;) delete std::exchange(entry, entry->next);
    }
    RecorderCache(const RecorderCache&) = delete;
    RecorderCache& operator=(const RecorderCache&) = delete;

    /// Calls `use` with the recorders of `key`. `make()` creates them.
    template <class Make, class Use>
    void use(const Key& key, Make make, Use use) {
        if (const Entry* known = find(key)) return use(known->recorders);
        auto entry = std::make_unique<Entry>(key, make());
        use(entry->recorders);
        if (count_.fetch_add(1) >= max_entries) {
            count_.fetch_sub(1);
            return;
        }
        // Another thread may add the same key: its entry is not found any more, and has the same recorders.
        entry->next = first_.load();
        while (!first_.compare_exchange_weak(entry->next, entry.get())) {
        }
        (void)entry.release();
    }

private:
    static constexpr std::size_t max_entries = 64;

    struct Entry {
        Entry(const Key& key, Recorders made)
            : texts{std::string(key.values[0]), std::string(key.values[1]),
                    std::string(key.values[2])},
              parts(key.parts),
              recorders(std::move(made)) {}
        bool has(const Key& key) const noexcept {
            return parts == key.parts && texts[0] == key.values[0] && texts[1] == key.values[1] &&
                   texts[2] == key.values[2];
        }

        const std::array<std::string, 3> texts;
        const unsigned parts;
        const Recorders recorders;
        Entry* next = nullptr;  // not changed once the entry is in the list
    };

    const Entry* find(const Key& key) const noexcept {
        const Entry* entry = first_.load(std::memory_order_acquire);
        while (entry && !entry->has(key)) entry = entry->next;
        return entry;
    }

    std::atomic<Entry*> first_ = nullptr;  // entries are added, never removed
    std::atomic<std::size_t> count_ = 0;
};

}  // namespace cubepi::detail
