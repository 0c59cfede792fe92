#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace cubepi::detail {

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
