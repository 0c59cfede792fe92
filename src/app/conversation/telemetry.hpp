#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cubepi/core/notice.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/tracer.hpp>

#include "../config/trace_settings.hpp"

namespace cubepi::app {

/// The tracer and the meter of the program, as its settings and the variables of OpenTelemetry ask for.
class Telemetry {
public:
    /// Throws nothing about bad settings: they become notices.
    explicit Telemetry(const TraceSettings& settings);
    /// Exports what is left, for at most two seconds: a collector that is down must not keep the user waiting.
    ~Telemetry();
    Telemetry(const Telemetry&) = delete;
    Telemetry& operator=(const Telemetry&) = delete;

    /// Null if traces have no destination.
    const std::shared_ptr<Tracer>& tracer() const noexcept { return tracer_; }
    /// Null if metrics have no destination.
    const std::shared_ptr<Meter>& meter() const noexcept { return meter_; }
    /// Exports what is left and ends. Further calls have no effect.
    void end();
    /// Takes the texts of notices since the last call, for the user. Thread-safe.
    std::vector<std::string> take_notices();

private:
    /// Notices come from the export thread.
    struct Notices {
        std::mutex mutex;
        std::vector<std::string> texts;
    };

    std::shared_ptr<Notices> notices_ = std::make_shared<Notices>();
    std::shared_ptr<Tracer> tracer_;
    std::shared_ptr<Meter> meter_;
};

}  // namespace cubepi::app
