#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/notice.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/tracer.hpp>

#include "../config/config_file.hpp"

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
    /// From now on passes the texts of notices to `show`, on `executor` when they come, and the last ones in end(). For a program that
    /// runs until it is stopped. Called, as end() is, on the executor, which runs one handler at a time.
    void show_notices(Executor executor, std::function<void(const std::string& text)> show);

private:
    /// Notices come from the export thread.
    struct Notices {
        std::mutex mutex;
        std::vector<std::string> texts;
        std::optional<Executor> executor;              // empty: take_notices() is called
        std::function<void(const std::string&)> show;  // used on the executor
    };
    static void add(const std::shared_ptr<Notices>& notices, std::string text);
    static void show_all(Notices& notices);

    std::shared_ptr<Notices> notices_ = std::make_shared<Notices>();
    std::shared_ptr<Tracer> tracer_;
    std::shared_ptr<Meter> meter_;
};

}  // namespace cubepi::app
