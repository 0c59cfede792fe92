#include <cubepi/tracing/metric_registry.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
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

/// A hash that does not depend on the order of the attributes.
std::size_t hash_of(const Attributes& attributes) {
    std::size_t hash = attributes.size();
    for (const Attribute& one : attributes) {
        const std::int64_t* integer = one.value.if_integer();
        const std::size_t value =
            integer
                ? std::hash<std::int64_t>()(*integer)
                : std::hash<std::string_view>()(one.value.if_text().value_or(std::string_view()));
        hash += std::hash<std::string_view>()(one.key) * (2 * value + 1);
    }
    return hash;
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

/// An instrument and its points, one for each set of attributes, in the order of their first use.
struct Instrument {
    explicit Instrument(MetricData definition) : metric(std::move(definition)) {}

    /// Returns the point of a set of attributes; that of all further sets if there are too many. The mutex must be locked.
    template <class Point>
    Point& point_of(std::vector<Point>& points, const Attributes& attributes) {
        const std::size_t hash = hash_of(attributes);
        const auto [first, last] = places.equal_range(hash);
        for (auto at = first; at != last; ++at) {
            if (same_set(points[at->second].attributes, attributes)) return points[at->second];
        }
        if (points.size() == MetricRegistry::max_points) return points.back();
        Point point;
        if (points.size() + 1 < MetricRegistry::max_points) {
            point.attributes = attributes;
            places.emplace(hash, points.size());
        } else {
            point.attributes.set("otel.metric.overflow", true);
        }
        points.push_back(std::move(point));
        return points.back();
    }

    std::mutex mutex;
    MetricData metric;
    std::unordered_multimap<std::size_t, std::size_t> places;  // in the list of points, by hash
};

}  // namespace detail

void Histogram::record(double value, const Attributes& attributes) const {
    if (!std::isfinite(value)) return;
    const std::lock_guard lock(instrument_->mutex);
    auto& data = std::get<HistogramData>(instrument_->metric.data);
    HistogramPoint& point = instrument_->point_of(data.points, attributes);
    point.buckets.resize(data.bounds.size() + 1);
    const auto bucket =
        std::lower_bound(data.bounds.begin(), data.bounds.end(), value) - data.bounds.begin();
    ++point.buckets[static_cast<std::size_t>(bucket)];
    point.min = point.count == 0 ? value : std::min(point.min, value);
    point.max = point.count == 0 ? value : std::max(point.max, value);
    point.sum += value;
    ++point.count;
}

void Counter::add(double value, const Attributes& attributes) const {
    if (!std::isfinite(value) || value < 0) return;
    const std::lock_guard lock(instrument_->mutex);
    auto& data = std::get<CounterData>(instrument_->metric.data);
    instrument_->point_of(data.points, attributes).value += value;
}

struct MetricRegistry::State {
    /// Returns the instrument of that name, and creates it if there is none.
    template <class Data>
    std::shared_ptr<detail::Instrument> instrument(std::string name, std::string unit,
                                                   std::string description, Data data) {
        const std::lock_guard lock(mutex);
        for (const auto& known : instruments) {
            if (known->metric.name != name) continue;
            const Data* points = std::get_if<Data>(&known->metric.data);
            if (points && known->metric.unit == unit && same_bounds(*points, data)) return known;
            throw Error(ErrorCode::invalid_argument,
                        "the instrument '" + name +
                            "' exists with another kind, unit or bounds; choose another name");
        }
        MetricData added;
        added.name = std::move(name);
        added.unit = std::move(unit);
        added.description = std::move(description);
        added.data = std::move(data);
        instruments.push_back(std::make_shared<detail::Instrument>(std::move(added)));
        return instruments.back();
    }
    static bool same_bounds(const HistogramData& a, const HistogramData& b) {
        return a.bounds == b.bounds;
    }
    static bool same_bounds(const CounterData&, const CounterData&) { return true; }

    std::shared_ptr<Clock> clock;
    std::chrono::system_clock::time_point start;
    std::mutex mutex;
    std::vector<std::shared_ptr<detail::Instrument>> instruments;
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
    const bool finite =
        std::all_of(bounds.begin(), bounds.end(), [](double one) { return std::isfinite(one); });
    if (!finite ||
        std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) != bounds.end()) {
        throw Error(ErrorCode::invalid_argument,
                    "the bounds of the histogram '" + name + "' must be finite and ascending");
    }
    HistogramData data;
    data.bounds = std::move(bounds);
    return Histogram(state_->instrument(std::move(name), std::move(unit), std::move(description),
                                        std::move(data)));
}

Counter MetricRegistry::counter(std::string name, std::string unit, std::string description) {
    return Counter(state_->instrument(std::move(name), std::move(unit), std::move(description),
                                      CounterData()));
}

MetricSnapshot MetricRegistry::snapshot() const {
    MetricSnapshot snapshot;
    snapshot.start = state_->start;
    snapshot.time = state_->clock->wall();
    const std::lock_guard lock(state_->mutex);
    for (const auto& instrument : state_->instruments) {
        const std::lock_guard points(instrument->mutex);
        snapshot.metrics.push_back(instrument->metric);
    }
    return snapshot;
}

}  // namespace cubepi
