#include "telemetry.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/tracing/jsonl_exporter.hpp>
#include <cubepi/tracing/otel_environment.hpp>

#include "../process.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::milliseconds end_limit{2000};
constexpr std::size_t most_notices = 100;
constexpr std::string_view service = "cubepi";

SpanSink::Output files_in(const std::filesystem::path& directory) {
    SpanSink::Output output;
    output.exporter = std::make_shared<JsonlSpanExporter>(directory);
    output.limits = JsonlSpanExporter::limits();
    return output;
}

/// Returns true for the counts of an exporter that has delivered everything.
bool is_routine(const Notice& notice) {
    if (notice.code != "export_ended") return false;
    return notice.details.at("dropped") == 0 && notice.details.at("failed") == 0;
}

}  // namespace

Telemetry::Telemetry(const TraceSettings& settings) {
    const OtelEnvironment environment = process_otel_environment();
    auto keep = [notices = notices_, log = Runtime::standard()->log](const Notice& notice) {
        log_notice(log, notice);
        if (!is_routine(notice)) add(notices, notice.text);
    };
    for (const Notice& notice : environment.notices) keep(notice);

    TracerOptions tracing;
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES may name the service.
    if (!environment.resource_attributes.find("service.name")) tracing.service_name = service;
    tracing.service_version = version();
    tracing.record_content = settings.content;
    tracing.on_notice = keep;
    if (!settings.directory.empty()) tracing.exporters.push_back(files_in(settings.directory));
    // Standard output belongs to answers.
    apply(environment, tracing, log_output());
    if (!tracing.exporters.empty()) tracer_ = std::make_shared<Tracer>(std::move(tracing));

    MeterOptions measuring;
    if (tracer_) measuring.resource = tracer_->resource();
    measuring.on_notice = keep;
    apply(environment, measuring, log_output());
    if (!measuring.exporters.empty()) meter_ = std::make_shared<Meter>(std::move(measuring));
}

Telemetry::~Telemetry() { end(); }

void Telemetry::end() {
    const auto begin = std::chrono::steady_clock::now();
    if (tracer_) (void)tracer_->shutdown(end_limit);
    const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    // Both usually have the same collector.
    constexpr std::chrono::milliseconds least{100};
    if (meter_) (void)meter_->shutdown(std::max(least, end_limit - used));
    show_all(*notices_);
    notices_->show = nullptr;
}

void Telemetry::add(const std::shared_ptr<Notices>& notices, std::string text) {
    const std::lock_guard lock(notices->mutex);
    if (notices->texts.size() >= most_notices) return;
    notices->texts.push_back(std::move(text));
    if (notices->texts.size() != 1 || !notices->executor) return;
    boost::asio::post(*notices->executor, [notices] { show_all(*notices); });
}

void Telemetry::show_all(Notices& notices) {
    if (!notices.show) return;
    std::vector<std::string> texts;
    {
        const std::lock_guard lock(notices.mutex);
        texts = std::exchange(notices.texts, {});
    }
    for (const std::string& text : texts) notices.show(text);
}

void Telemetry::show_notices(Executor executor, std::function<void(const std::string& text)> show) {
    notices_->show = std::move(show);
    {
        const std::lock_guard lock(notices_->mutex);
        notices_->executor = std::move(executor);
    }
    show_all(*notices_);
}

std::vector<std::string> Telemetry::take_notices() {
    const std::lock_guard lock(notices_->mutex);
    return std::exchange(notices_->texts, {});
}

}  // namespace cubepi::app
