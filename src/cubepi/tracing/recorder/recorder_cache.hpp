#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubepi::detail {

/// Recorders of metrics by the values that select them, so that a call need not build and look up its attributes. Thread-safe.
/// Bounded: further values have no entry, and their recorders are created by each call.
template <class Recorders>
class RecorderCache {
public:
    struct Key {
        std::array<std::string_view, 3> values = {};
        unsigned parts = 0;  ///< which of the recorders exist
    };

    /// Returns the recorders of `key`. `make()` creates them.
    template <class Make>
    std::shared_ptr<const Recorders> get(const Key& key, Make make) {
        {
            const std::lock_guard lock(mutex_);
            if (const auto* known = find(key)) return known->recorders;
        }
        std::shared_ptr<const Recorders> made = std::make_shared<const Recorders>(make());
        const std::lock_guard lock(mutex_);
        if (entries_.size() < max_entries && !find(key)) entries_.push_back(Entry(key, made));
        return made;
    }

private:
    static constexpr std::size_t max_entries = 64;

    struct Entry {
        Entry(const Key& key, std::shared_ptr<const Recorders> made)
            : texts{std::string(key.values[0]), std::string(key.values[1]),
                    std::string(key.values[2])},
              parts(key.parts),
              recorders(std::move(made)) {}
        bool has(const Key& key) const noexcept {
            return parts == key.parts && texts[0] == key.values[0] && texts[1] == key.values[1] &&
                   texts[2] == key.values[2];
        }

        std::array<std::string, 3> texts;
        unsigned parts;
        std::shared_ptr<const Recorders> recorders;
    };

    const Entry* find(const Key& key) const noexcept {
        for (const Entry& entry : entries_) {
            if (entry.has(key)) return &entry;
        }
        return nullptr;
    }

    std::mutex mutex_;
    std::vector<Entry> entries_;
};

}  // namespace cubepi::detail
