#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/tracing/metric_data.hpp>

// Instruments of metrics. Everything here may be used from any thread. A set of attributes is independent of their order; each
// instrument has at most `MetricRegistry::max_points` of them, and what is recorded for further sets goes to one point with the
// attribute `otel.metric.overflow=true` (https://opentelemetry.io/docs/specs/otel/metrics/sdk/#cardinality-limits).

namespace cubepi {

namespace detail {
struct Instrument;
}

/// A distribution of values. A copy refers to the same instrument, which outlives the registry.
class Histogram {
public:
    /// Ignores NaN and infinities.
    void record(double value, const Attributes& attributes) const;

private:
    friend class MetricRegistry;
    explicit Histogram(std::shared_ptr<detail::Instrument> instrument)
        : instrument_(std::move(instrument)) {}
    std::shared_ptr<detail::Instrument> instrument_;
};

/// A sum that only increases. A copy refers to the same instrument, which outlives the registry.
class Counter {
public:
    /// Ignores negative values, NaN and infinities.
    void add(double value, const Attributes& attributes) const;

private:
    friend class MetricRegistry;
    explicit Counter(std::shared_ptr<detail::Instrument> instrument)
        : instrument_(std::move(instrument)) {}
    std::shared_ptr<detail::Instrument> instrument_;
};

/// The instruments of a program and their values since the registry was constructed.
class MetricRegistry {
public:
    static constexpr std::size_t max_points = 2000;

    /// `clock` dates snapshots; null: the system clock.
    explicit MetricRegistry(std::shared_ptr<Clock> clock = nullptr);
    ~MetricRegistry();

    /// Returns the histogram of that name, and creates it if there is none. `bounds` are the inclusive upper bounds of its buckets,
    /// finite and ascending. Throws Error(invalid_argument) if they are not, or if the name is used with other properties.
    Histogram histogram(std::string name, std::string unit, std::string description,
                        std::vector<double> bounds = default_bounds());
    /// Returns the counter of that name, and creates it if there is none. Throws like histogram().
    Counter counter(std::string name, std::string unit, std::string description);

    /// The bounds that OpenTelemetry uses if none are given.
    static std::vector<double> default_bounds();

    /// Returns the values of all instruments, in the order in which instruments and sets of attributes were first used.
    MetricSnapshot snapshot() const;

    MetricRegistry(const MetricRegistry&) = delete;
    MetricRegistry& operator=(const MetricRegistry&) = delete;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi
