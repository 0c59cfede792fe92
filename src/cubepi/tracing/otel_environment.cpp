#include <cubepi/tracing/otel_environment.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <cubepi/core/number_text.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/tracing/console_exporter.hpp>
#include <cubepi/tracing/environment/key_values.hpp>
#include <cubepi/tracing/environment/otlp_variables.hpp>
#include <cubepi/tracing/environment/variable_reader.hpp>

namespace cubepi {

using detail::VariableReader;

namespace {

/// One malformed entry discards the whole list (https://opentelemetry.io/docs/specs/otel/resource/sdk/).
Attributes read_resource(VariableReader& reader) {
    constexpr const char* variable = "OTEL_RESOURCE_ATTRIBUTES";
    const std::string list = reader.text(variable).value_or("");
    Attributes attributes;
    std::size_t number = 0;
    for (const detail::KeyValue& entry : detail::key_values(list)) {
        ++number;
        const std::optional<std::string> key = detail::percent_decoded(entry.key);
        std::optional<std::string> value;
        if (entry.value) value = detail::percent_decoded(*entry.value);
        if (!key || key->empty() || !value || !is_utf8(*key) || !is_utf8(*value)) {
            reader.warn(variable, "entry " + std::to_string(number) +
                                      " is not a key=value pair with percent-encoded UTF-8; the "
                                      "whole variable is ignored.");
            attributes = Attributes();
            break;
        }
        attributes.set(*key, SharedString(*value));
    }
    if (std::optional<std::string> name = reader.text("OTEL_SERVICE_NAME"))
        attributes.set("service.name", SharedString(std::move(*name)));
    return attributes;
}

enum class Sampler : std::uint8_t { none, on, off, ratio, parent_on, parent_off, parent_ratio };

/// Returns the argument of the samplers that take a ratio.
double read_ratio(VariableReader& reader) {
    detail::VariableType<double> type;
    type.default_value = 1;
    type.expected = "a number from 0 to 1";
    type.parse = [](std::string_view text) -> std::optional<double> {
        double value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        if (error != std::errc() || stop != end || !(value >= 0 && value <= 1)) return std::nullopt;
        return value;
    };
    type.show = [](const double& value) { return number_text(value); };
    return reader.read({"OTEL_TRACES_SAMPLER_ARG"}, type);
}

/// A sampler that records nothing on its own does not record failed runs either.
std::optional<Sampling> read_sampling(VariableReader& reader) {
    using enum Sampler;
    detail::VariableType<Sampler> type =
        detail::word_variable<Sampler>({{"always_on", on},
                                        {"always_off", off},
                                        {"traceidratio", ratio},
                                        {"parentbased_always_on", parent_on},
                                        {"parentbased_always_off", parent_off},
                                        {"parentbased_traceidratio", parent_ratio}},
                                       none);
    type.show = [](const Sampler&) { return std::string("parentbased_always_on"); };
    const Sampler sampler = reader.read({"OTEL_TRACES_SAMPLER"}, type);
    if (sampler == none) return std::nullopt;
    Sampling sampling;
    sampling.follow_caller =
        sampler == parent_on || sampler == parent_off || sampler == parent_ratio;
    if (sampler == off || sampler == parent_off) sampling.ratio = 0;
    if (sampler == ratio || sampler == parent_ratio) sampling.ratio = read_ratio(reader);
    sampling.failed_runs = sampling.ratio > 0;
    return sampling;
}

ExportLimits read_limits(VariableReader& reader) {
    ExportLimits limits;
    limits.queue_spans =
        reader.read({"OTEL_BSP_MAX_QUEUE_SIZE"}, detail::size_variable(limits.queue_spans));
    const std::size_t batch = std::min(limits.batch_spans, limits.queue_spans);
    limits.batch_spans =
        reader.read({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE"}, detail::size_variable(batch));
    if (limits.batch_spans > limits.queue_spans) {
        reader.warn("OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
                    std::to_string(limits.batch_spans) + " is more than the queue holds; " +
                        std::to_string(limits.queue_spans) + " is used.");
        limits.batch_spans = limits.queue_spans;
    }
    limits.delay =
        reader.read({"OTEL_BSP_SCHEDULE_DELAY"}, detail::duration_variable(limits.delay));
    limits.export_timeout =
        reader.read({"OTEL_BSP_EXPORT_TIMEOUT"}, detail::timeout_variable(limits.export_timeout));
    return limits;
}

MetricReaderOptions read_reader(VariableReader& reader) {
    MetricReaderOptions options;
    options.interval = reader.read({"OTEL_METRIC_EXPORT_INTERVAL"},
                                   detail::duration_variable(options.interval, 1));
    options.export_timeout = reader.read({"OTEL_METRIC_EXPORT_TIMEOUT"},
                                         detail::timeout_variable(options.export_timeout));
    return options;
}

void add_missing(Attributes& to, const Attributes& from) {
    for (const Attribute& one : from) {
        if (!to.find(one.key)) to.add(one.key, one.value);
    }
}

}  // namespace

OtelEnvironment read_otel_environment(const EnvironmentLookup& lookup) {
    OtelEnvironment environment;
    VariableReader reader(lookup, environment.notices);
    environment.disabled = reader.read({"OTEL_SDK_DISABLED"}, detail::boolean_variable());
    if (environment.disabled) return environment;
    environment.resource_attributes = read_resource(reader);
    environment.sampling = read_sampling(reader);
    environment.traces = detail::read_signal(reader, "TRACES");
    environment.metrics = detail::read_signal(reader, "METRICS");
    environment.limits = read_limits(reader);
    environment.reader = read_reader(reader);
    return environment;
}

OtelEnvironment process_otel_environment() {
    return read_otel_environment([](std::string_view name) -> std::optional<std::string> {
        const char* value = std::getenv(std::string(name).c_str());
        if (!value) return std::nullopt;
        return std::string(value);
    });
}

std::vector<SpanSink::Output> span_outputs(const OtelEnvironment& environment,
                                           std::ostream& console) {
    std::vector<SpanSink::Output> outputs;
    if (environment.disabled) return outputs;
    const auto add = [&](std::shared_ptr<SpanExporter> exporter) {
        SpanSink::Output output;
        output.exporter = std::move(exporter);
        output.limits = environment.limits;
        outputs.push_back(std::move(output));
    };
    if (environment.traces.otlp)
        add(std::make_shared<OtlpSpanExporter>(environment.traces.options));
    if (environment.traces.console) add(std::make_shared<ConsoleSpanExporter>(console));
    return outputs;
}

std::vector<std::shared_ptr<MetricExporter>> metric_exporters(const OtelEnvironment& environment,
                                                              std::ostream& console) {
    std::vector<std::shared_ptr<MetricExporter>> exporters;
    if (environment.disabled) return exporters;
    if (environment.metrics.otlp)
        exporters.push_back(std::make_shared<OtlpMetricExporter>(environment.metrics.options));
    if (environment.metrics.console)
        exporters.push_back(std::make_shared<ConsoleMetricExporter>(console));
    return exporters;
}

void apply(const OtelEnvironment& environment, TracerOptions& options, std::ostream& console) {
    if (environment.disabled) return;
    for (SpanSink::Output& output : span_outputs(environment, console))
        options.exporters.push_back(std::move(output));
    add_missing(options.resource ? options.resource->attributes : options.resource_attributes,
                environment.resource_attributes);
    if (environment.sampling) options.sampling = *environment.sampling;
}

void apply(const OtelEnvironment& environment, MeterOptions& options, std::ostream& console) {
    if (environment.disabled) return;
    for (std::shared_ptr<MetricExporter>& exporter : metric_exporters(environment, console))
        options.exporters.push_back(std::move(exporter));
    add_missing(options.resource ? options.resource->attributes : options.resource_attributes,
                environment.resource_attributes);
    options.reader = environment.reader;
}

}  // namespace cubepi
