#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cubepi/tracing/span.hpp>

namespace cubepi::detail {

/// A hash that does not depend on the order of the attributes.
std::uint64_t hash_of(const Attributes& attributes) noexcept;
/// Compares without regard to the order.
bool same_set(const Attributes& a, const Attributes& b) noexcept;

/// The cells of an instrument, one for each set of attributes; bounded. Divided into shards, so that threads that record for
/// different sets rarely wait for each other.
template <class Cell>
class PointTable {
public:
    /// `make` creates a cell; `max_points` includes the cell for all further sets.
    PointTable(std::function<std::shared_ptr<Cell>()> make, std::size_t max_points)
        : make_(std::move(make)), max_points_(max_points) {
        overflow_.attributes.set("otel.metric.overflow", true);
    }

    std::shared_ptr<Cell> find(const Attributes& attributes) {
        const std::uint64_t hash = hash_of(attributes);
        Shard& shard = shards_[hash % shards_.size()];
        const std::lock_guard lock(shard.mutex);
        const auto [first, last] = shard.points.equal_range(hash);
        for (auto at = first; at != last; ++at) {
            if (same_set(at->second.attributes, attributes)) return at->second.cell;
        }
        const std::size_t number = used_.fetch_add(1);
        if (number + 1 >= max_points_) {
            used_.fetch_sub(1);
            return overflow();
        }
        Point point;
        point.attributes = attributes;
        point.cell = make_();
        point.number = number;
        return shard.points.emplace(hash, std::move(point))->second.cell;
    }

    struct Point {
        Attributes attributes = {};
        std::shared_ptr<Cell> cell = {};
        std::size_t number = 0;
    };
    /// All points, oldest first.
    std::vector<Point> points() {
        std::vector<Point> all;
        for (Shard& shard : shards_) {
            const std::lock_guard lock(shard.mutex);
            for (const auto& [hash, point] : shard.points) all.push_back(point);
        }
        std::sort(all.begin(), all.end(),
                  [](const Point& a, const Point& b) { return a.number < b.number; });
        const std::lock_guard lock(overflow_mutex_);
        if (overflow_.cell) all.push_back(overflow_);
        return all;
    }

    PointTable(const PointTable&) = delete;
    PointTable& operator=(const PointTable&) = delete;

private:
    struct Shard {
        std::mutex mutex;
        std::unordered_multimap<std::uint64_t, Point> points;
    };

    std::shared_ptr<Cell> overflow() {
        const std::lock_guard lock(overflow_mutex_);
        if (!overflow_.cell) overflow_.cell = make_();
        return overflow_.cell;
    }

    const std::function<std::shared_ptr<Cell>()> make_;
    const std::size_t max_points_;
    std::atomic<std::size_t> used_ = 0;
    std::array<Shard, 16> shards_;
    std::mutex overflow_mutex_;
    Point overflow_;
};

}  // namespace cubepi::detail
