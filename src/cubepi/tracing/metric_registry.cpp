#include <cubepi/tracing/metric_registry.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/tracing/span.hpp>

namespace cubepi {

namespace detail {

namespace {

std::uint64_t mixed(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31U);
}

std::uint64_t hash_of(const AttributeValue& value) noexcept {
    const std::uint64_t kind = static_cast<std::uint64_t>(value.kind());
    if (const auto text = value.if_text()) {
        return std::hash<std::string_view>()(*text) + kind;
    }
    if (const TextList* list = value.if_list()) {
        std::uint64_t hash = kind;
        for (const SharedString& one : *list)
            hash = mixed(hash + std::hash<std::string_view>()(one.str()));
        return hash;
    }
    if (const bool* truth = value.if_boolean()) return (*truth ? 1 : 2) + kind;
    if (const std::int64_t* integer = value.if_integer())
        return std::hash<std::int64_t>()(*integer) + kind;
    return std::hash<double>()(*value.if_number()) + kind;
}

/// A hash that does not depend on the order of the attributes.
std::uint64_t hash_of(const Attributes& attributes) noexcept {
    std::uint64_t hash = attributes.size();
    for (const Attribute& one : attributes) {
        const std::uint64_t key = std::hash<std::string_view>()(one.key);
        hash += mixed(mixed(key) ^ hash_of(one.value));
    }
    return mixed(hash);
}

/// Compares without regard to the order.
bool same_set(const Attributes& a, const Attributes& b) noexcept {
    if (a.size() != b.size()) return false;
    return std::all_of(a.begin(), a.end(), [&b](const Attribute& one) {
        const AttributeValue* other = b.find(one.key);
        return other != nullptr && *other == one.value;
    });
}

}  // namespace

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

/// The counts of one point. Each member is updated by itself: no lock, and no exact agreement while others record.
struct HistogramCell {
    explicit HistogramCell(const std::vector<double>& limits)
        : bounds(limits),
          buckets(std::make_unique<std::atomic<std::uint64_t>[]>(limits.size() + 1)) {}

    void record(double value) noexcept;
    HistogramPoint read(Attributes attributes) const;

    const std::vector<double>& bounds;  // of the instrument
    const std::unique_ptr<std::atomic<std::uint64_t>[]> buckets;
    std::atomic<double> sum = 0;
    std::atomic<double> min = std::numeric_limits<double>::infinity();
    std::atomic<double> max = -std::numeric_limits<double>::infinity();
};

void HistogramCell::record(double value) noexcept {
    const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
    buckets[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum.fetch_add(value, std::memory_order_relaxed);
    double known = min.load(std::memory_order_relaxed);
    while (value < known && !min.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
    }
    known = max.load(std::memory_order_relaxed);
    while (value > known && !max.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
    }
}

HistogramPoint HistogramCell::read(Attributes attributes) const {
    HistogramPoint point;
    point.attributes = std::move(attributes);
    for (std::size_t i = 0; i <= bounds.size(); ++i) {
        point.buckets.push_back(buckets[i].load(std::memory_order_relaxed));
        point.count += point.buckets.back();
    }
    point.sum = sum.load(std::memory_order_relaxed);
    const double least = min.load(std::memory_order_relaxed);
    const double most = max.load(std::memory_order_relaxed);
    point.min = std::isfinite(least) ? least : 0;
    point.max = std::isfinite(most) ? most : 0;
    return point;
}

struct CounterCell {
    std::atomic<double> value = 0;
};

class HistogramPoints {
public:
    HistogramPoints(std::vector<double> limits, std::size_t max_points)
        : bounds(std::move(limits)),
          table([this] { return std::make_shared<HistogramCell>(bounds); }, max_points) {}

    HistogramPoints(const HistogramPoints&) = delete;
    HistogramPoints& operator=(const HistogramPoints&) = delete;

    const std::vector<double> bounds;
    PointTable<HistogramCell> table;
};

class CounterPoints {
public:
    explicit CounterPoints(std::size_t max_points)
        : table([] { return std::make_shared<CounterCell>(); }, max_points) {}

    PointTable<CounterCell> table;
};

}  // namespace detail

void HistogramRecorder::record(double value) const noexcept {
    if (std::isfinite(value)) cell_->record(value);
}

HistogramRecorder Histogram::at(const Attributes& attributes) const {
    // Shares the ownership of the instrument, whose bounds the cell refers to.
    detail::HistogramCell* cell = points_->table.find(attributes).get();
    return HistogramRecorder(std::shared_ptr<detail::HistogramCell>(points_, cell));
}

void CounterRecorder::add(double value) const noexcept {
    if (std::isfinite(value) && value >= 0)
        cell_->value.fetch_add(value, std::memory_order_relaxed);
}

CounterRecorder Counter::at(const Attributes& attributes) const {
    return CounterRecorder(points_->table.find(attributes));
}

namespace {

using HistogramHandle = std::shared_ptr<detail::HistogramPoints>;
using CounterHandle = std::shared_ptr<detail::CounterPoints>;

struct Instrument {
    std::string name = {};
    std::string unit = {};
    std::string description = {};
    std::variant<HistogramHandle, CounterHandle> points = {};
};

HistogramData read(const HistogramHandle& points) {
    HistogramData data;
    data.bounds = points->bounds;
    for (auto& point : points->table.points())
        data.points.push_back(point.cell->read(std::move(point.attributes)));
    return data;
}

CounterData read(const CounterHandle& points) {
    CounterData data;
    for (auto& point : points->table.points()) {
        CounterPoint read;
        read.attributes = std::move(point.attributes);
        read.value = point.cell->value.load(std::memory_order_relaxed);
        data.points.push_back(std::move(read));
    }
    return data;
}

void check_bounds(const std::string& name, const std::vector<double>& bounds) {
    const bool finite =
        std::all_of(bounds.begin(), bounds.end(), [](double one) { return std::isfinite(one); });
    if (finite &&
        std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end()) {
        return;
    }
    throw Error(ErrorCode::invalid_argument,
                "the bounds of the histogram '" + name + "' must be finite and ascending");
}

}  // namespace

struct MetricRegistry::State {
    /// Returns the instrument of that name if it has the wanted kind and unit; null if there is none.
    template <class Handle>
    const Handle* find(const std::string& name, const std::string& unit) const {
        const auto found =
            std::find_if(instruments.begin(), instruments.end(),
                         [&name](const Instrument& one) { return one.name == name; });
        if (found == instruments.end()) return nullptr;
        const Handle* handle = std::get_if<Handle>(&found->points);
        if (handle == nullptr || found->unit != unit) reject(name);
        return handle;
    }
    [[noreturn]] static void reject(const std::string& name) {
        throw Error(ErrorCode::invalid_argument, "the instrument '" + name +
                                                     "' exists with another kind, unit or bounds; "
                                                     "choose another name");
    }

    std::shared_ptr<Clock> clock;
    std::chrono::system_clock::time_point start;
    mutable std::mutex mutex;
    std::vector<Instrument> instruments;
};

MetricRegistry::MetricRegistry(std::shared_ptr<Clock> clock) : state_(std::make_unique<State>()) {
    state_->clock = clock ? std::move(clock) : std::make_shared<SystemClock>();
    state_->start = state_->clock->wall();
}

MetricRegistry::~MetricRegistry() = default;

std::vector<double> MetricRegistry::default_bounds() {
    return {0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000};
}

Histogram MetricRegistry::histogram(std::string name, std::string unit, std::string description,
                                    std::vector<double> bounds) {
    check_bounds(name, bounds);
    const std::lock_guard lock(state_->mutex);
    if (const HistogramHandle* known = state_->find<HistogramHandle>(name, unit)) {
        if ((*known)->bounds != bounds) State::reject(name);
        return Histogram(*known);
    }
    auto points = std::make_shared<detail::HistogramPoints>(std::move(bounds), max_points);
    Instrument added;
    added.name = std::move(name);
    added.unit = std::move(unit);
    added.description = std::move(description);
    added.points = points;
    state_->instruments.push_back(std::move(added));
    return Histogram(std::move(points));
}

Counter MetricRegistry::counter(std::string name, std::string unit, std::string description) {
    const std::lock_guard lock(state_->mutex);
    if (const CounterHandle* known = state_->find<CounterHandle>(name, unit))
        return Counter(*known);
    auto points = std::make_shared<detail::CounterPoints>(max_points);
    Instrument added;
    added.name = std::move(name);
    added.unit = std::move(unit);
    added.description = std::move(description);
    added.points = points;
    state_->instruments.push_back(std::move(added));
    return Counter(std::move(points));
}

MetricSnapshot MetricRegistry::snapshot() const {
    MetricSnapshot snapshot;
    snapshot.start = state_->start;
    snapshot.time = state_->clock->wall();
    const std::lock_guard lock(state_->mutex);
    for (const Instrument& instrument : state_->instruments) {
        MetricData metric;
        metric.name = instrument.name;
        metric.description = instrument.description;
        metric.unit = instrument.unit;
        std::visit([&metric](const auto& points) { metric.data = read(points); },
                   instrument.points);
        snapshot.metrics.push_back(std::move(metric));
    }
    return snapshot;
}

}  // namespace cubepi
