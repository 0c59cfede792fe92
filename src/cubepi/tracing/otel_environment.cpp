#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/tracing/otel_environment.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/tracing/console_exporter.hpp>

namespace cubepi {

namespace {

/// The type of a variable: how a value is read and shown, and what is used if no variable has a valid one.
template <class T>
struct VariableType {
    std::string expected;  ///< completes "'x' is not ..."
    std::function<std::optional<T>(std::string_view text)> parse;
    std::function<std::string(const T& value)> show;
    T default_value;
};

/// Reads environment variables by the rules of OpenTelemetry and collects the notices about them.
class VariableReader {
public:
    VariableReader(const EnvironmentLookup& lookup, std::vector<Notice>& notices)
        : lookup_(lookup), notices_(notices) {}

    /// Returns the value without blanks at its ends; nothing if it is empty or not set.
    std::optional<std::string> text(std::string_view name) const;

    /// Returns the value of the first of the variables that has a valid one.
    template <class T>
    T read(std::initializer_list<std::string> names, const VariableType<T>& type) {
        std::vector<std::pair<std::string, std::string>> invalid;
        T used = type.default_value;
        for (const std::string& name : names) {
            const std::optional<std::string> value = text(name);
            if (!value) continue;
            if (std::optional<T> parsed = type.parse(*value)) {
                used = std::move(*parsed);
                break;
            }
            invalid.emplace_back(name, *value);
        }
        for (const auto& [name, value] : invalid) {
            warn(name,
                 quoted(value) + " is not " + type.expected + "; " + type.show(used) + " is used.");
        }
        return used;
    }

    /// Adds a notice, once: a variable of all signals is read for each of them.
    void warn(std::string_view name, std::string text);

    /// Returns a value as it is shown: in quotes, without control characters, at most 60 bytes of it.
    static std::string quoted(std::string_view value);

private:
    const EnvironmentLookup& lookup_;
    std::vector<Notice>& notices_;
};

/// One of several words, in any case.
template <class T>
VariableType<T> word_variable(std::vector<std::pair<std::string, T>> words, T default_value) {
    VariableType<T> type;
    type.default_value = default_value;
    type.expected = "one of";
    for (std::size_t i = 0; i < words.size(); ++i)
        type.expected += (i == 0 ? " " : ", ") + words[i].first;
    type.show = [words](const T& value) {
        for (const auto& [word, of_word] : words) {
            if (of_word == value) return "'" + word + "'";
        }
        return std::string("the default");
    };
    type.parse = [words](std::string_view text) -> std::optional<T> {
        const std::string lower = detail::lower_case(text);
        for (const auto& [word, value] : words) {
            if (word == lower) return value;
        }
        return std::nullopt;
    };
    return type;
}

constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();

std::optional<std::int64_t> integer(std::string_view text, std::int64_t least) {
    const auto value = detail::parsed_number<std::int64_t>(text);
    return value && *value >= least && *value <= largest ? value : std::nullopt;
}

std::optional<std::string> VariableReader::text(std::string_view name) const {
    const std::optional<std::string> value = lookup_(name);
    if (!value) return std::nullopt;
    const std::string_view content = detail::trimmed(*value);
    if (content.empty()) return std::nullopt;
    return std::string(content);
}

void VariableReader::warn(std::string_view name, std::string text) {
    Notice notice;
    notice.code = "otel_variable";
    notice.text = std::string(name) + ": " + std::move(text);
    notice.details["variable"] = name;
    for (const Notice& earlier : notices_) {
        if (earlier.text == notice.text) return;
    }
    notices_.push_back(std::move(notice));
}

std::string VariableReader::quoted(std::string_view value) {
    constexpr std::size_t limit = 60;
    const bool cut = value.size() > limit;
    if (cut) {
        value = value.substr(0, limit);
        value = value.substr(0, complete_utf8_prefix(value));
    }
    std::string shown = "'";
    for (const char c : replace_broken_utf8(value)) {
        const auto byte = static_cast<unsigned char>(c);
        shown.push_back(byte < 0x20 || byte == 0x7f ? '?' : c);
    }
    return shown + (cut ? "...'" : "'");
}

/// "true" or "false", in any case; the default is false.
VariableType<bool> boolean_variable() {
    VariableType<bool> type = word_variable<bool>({{"true", true}, {"false", false}}, false);
    type.expected = "true or false";
    return type;
}

/// A positive integer below 2^31.
VariableType<std::size_t> size_variable(std::size_t default_value) {
    VariableType<std::size_t> type;
    type.default_value = default_value;
    type.expected = "a positive integer";
    type.parse = [](std::string_view text) -> std::optional<std::size_t> {
        const std::optional<std::int64_t> value = integer(text, 1);
        if (!value) return std::nullopt;
        return static_cast<std::size_t>(*value);
    };
    type.show = [](const std::size_t& value) { return std::to_string(value); };
    return type;
}

/// Milliseconds, from `least` to 2^31 - 1.
VariableType<std::chrono::milliseconds> duration_variable(std::chrono::milliseconds default_value,
                                                          std::int64_t least = 0) {
    VariableType<std::chrono::milliseconds> type;
    type.default_value = default_value;
    type.expected =
        least > 0 ? "a positive integer (milliseconds)" : "an integer from 0 (milliseconds)";
    type.parse = [least](std::string_view text) -> std::optional<std::chrono::milliseconds> {
        const std::optional<std::int64_t> value = integer(text, least);
        if (!value) return std::nullopt;
        return std::chrono::milliseconds(*value);
    };
    type.show = [](const std::chrono::milliseconds& value) {
        return value.count() == largest ? std::string("no limit")
                                        : std::to_string(value.count()) + " ms";
    };
    return type;
}

/// As duration_variable(), but zero is without a limit: a duration of weeks.
VariableType<std::chrono::milliseconds> timeout_variable(std::chrono::milliseconds default_value) {
    VariableType<std::chrono::milliseconds> type = duration_variable(default_value);
    const auto parse = type.parse;
    type.parse = [parse](std::string_view text) -> std::optional<std::chrono::milliseconds> {
        std::optional<std::chrono::milliseconds> value = parse(text);
        if (value && value->count() == 0) value = std::chrono::milliseconds(largest);
        return value;
    };
    return type;
}

/// An entry of a list as it is written, without the blanks at the ends of key and value.
struct KeyValue {
    std::string_view key;
    std::optional<std::string_view> value;  ///< empty: the entry has no "="
};

/// Returns the entries of a list such as "key1=value1,key2=value2", which has the format of W3C Baggage without properties
/// (https://www.w3.org/TR/baggage/#header-content). Empty entries, as after a comma at the end, are omitted. Refers to `text`.
std::vector<KeyValue> key_values(std::string_view text) {
    std::vector<KeyValue> entries;
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        const std::string_view entry = detail::trimmed(text.substr(0, comma));
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
        if (entry.empty()) continue;
        const std::size_t equals = entry.find('=');
        KeyValue one;
        one.key = detail::trimmed(entry.substr(0, equals));
        if (equals != std::string_view::npos) one.value = detail::trimmed(entry.substr(equals + 1));
        entries.push_back(one);
    }
    return entries;
}

constexpr const char* prefix = "OTEL_EXPORTER_OTLP_";

/// Returns true for an http or https URL with a host.
bool is_url(std::string_view text) {
    const std::size_t colon = text.find("://");
    if (colon == std::string_view::npos) return false;
    const std::string scheme = detail::lower_case(text.substr(0, colon));
    if (scheme != "http" && scheme != "https") return false;
    const std::string_view rest = text.substr(colon + 3);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    const std::string_view host = authority.substr(authority.rfind('@') + 1);  // npos + 1 is 0
    return !host.empty() && host.front() != ':' &&
           text.find_first_of(" \t\r\n") == std::string_view::npos;
}

/// The variables of OTLP for one signal. Those of the signal precede those of all signals.
class OtlpVariables {
public:
    OtlpVariables(VariableReader& reader, const std::string& signal)
        : reader_(reader), signal_(signal), data_(detail::lower_case(signal)) {}

    /// Returns true if a URL is configured, valid or not.
    bool has_endpoint() const { return text("ENDPOINT").has_value(); }

    /// Returns nothing if the variables do not allow an exporter.
    std::optional<OTLPOptions> read() {
        OTLPOptions options;
        if (!read_protocol(options) || !read_endpoint(options)) return std::nullopt;
        read_headers(options);
        options.gzip = setting(
            "COMPRESSION", word_variable<bool>({{"none", false}, {"gzip", true}}, options.gzip));
        options.timeout = setting("TIMEOUT", timeout_variable(options.timeout));
        options.ca_file = text("CERTIFICATE").value_or("");
        warn_of_unsupported();
        return options;
    }

private:
    std::string of_signal(const char* name) const { return prefix + signal_ + "_" + name; }
    static std::string of_all(const char* name) { return std::string(prefix) + name; }

    template <class T>
    T setting(const char* name, const VariableType<T>& type) {
        return reader_.read({of_signal(name), of_all(name)}, type);
    }
    /// Returns the name of the variable that counts; nothing if none is set.
    std::optional<std::string> set_name(const char* name) const {
        if (reader_.text(of_signal(name))) return of_signal(name);
        if (reader_.text(of_all(name))) return of_all(name);
        return std::nullopt;
    }
    std::optional<std::string> text(const char* name) const {
        const std::optional<std::string> variable = set_name(name);
        return variable ? reader_.text(*variable) : std::nullopt;
    }

    bool read_protocol(OTLPOptions& options);
    bool read_endpoint(OTLPOptions& options);
    void read_headers(OTLPOptions& options);
    void warn_of_unsupported();

    VariableReader& reader_;
    const std::string signal_;
    const std::string data_;  // for messages
};

bool OtlpVariables::read_protocol(OTLPOptions& options) {
    enum class Protocol : std::uint8_t { grpc, http_protobuf, http_json };
    VariableType<Protocol> type =
        word_variable<Protocol>({{"http/protobuf", Protocol::http_protobuf},
                                 {"http/json", Protocol::http_json},
                                 {"grpc", Protocol::grpc}},
                                Protocol::http_protobuf);
    type.expected = "http/protobuf or http/json";
    const Protocol protocol = setting("PROTOCOL", type);
    if (protocol == Protocol::grpc) {
        reader_.warn(set_name("PROTOCOL").value_or(of_all("PROTOCOL")),
                     "OTLP over gRPC is not supported; no " + data_ +
                         " are sent. Set it to http/protobuf, and the endpoint to the collector's "
                         "port for HTTP (4318 by default).");
        return false;
    }
    options.protocol =
        protocol == Protocol::http_json ? OTLPProtocol::http_json : OTLPProtocol::http_protobuf;
    return true;
}

/// The value is not repeated in notices: a URL may contain a password.
bool OtlpVariables::read_endpoint(OTLPOptions& options) {
    constexpr const char* expected = "the value is not an http:// or https:// URL; ";
    const std::optional<std::string> own = reader_.text(of_signal("ENDPOINT"));
    const std::optional<std::string> base = reader_.text(of_all("ENDPOINT"));
    const bool base_counts = base && is_url(*base);
    if (own && is_url(*own)) {
        options.url = *own;
        return true;
    }
    const std::string none = "no " + data_ + " are sent by OTLP.";
    if (own) {
        reader_.warn(of_signal("ENDPOINT"),
                     expected + (base_counts ? of_all("ENDPOINT") + " is used." : none));
    }
    if (base && !base_counts) reader_.warn(of_all("ENDPOINT"), expected + none);
    if (base_counts)
        options.url = signal_ == "TRACES" ? otlp_traces_url(*base) : otlp_metrics_url(*base);
    return base_counts || (!own && !base);
}

/// Neither values nor names that are not valid are repeated in notices: the text may be a secret with a missing "name=".
void OtlpVariables::read_headers(OTLPOptions& options) {
    const std::optional<std::string> variable = set_name("HEADERS");
    if (!variable) return;
    const std::string list = reader_.text(*variable).value_or("");
    std::size_t number = 0;
    for (const KeyValue& entry : key_values(list)) {
        ++number;
        std::optional<std::string> value;
        if (entry.value && is_http_token(entry.key)) value = detail::percent_decoded(*entry.value);
        if (value && is_http_field_value(*value)) {
            options.headers.emplace_back(std::string(entry.key), std::move(*value));
            continue;
        }
        reader_.warn(*variable, "entry " + std::to_string(number) +
                                    " is not a name=value pair of an HTTP header with a "
                                    "percent-encoded value; this header is not sent.");
    }
}

void OtlpVariables::warn_of_unsupported() {
    for (const char* name : {"CLIENT_CERTIFICATE", "CLIENT_KEY"}) {
        if (const std::optional<std::string> variable = set_name(name))
            reader_.warn(*variable, "client certificates are not supported; none is sent.");
    }
    if (signal_ != "METRICS") return;
    const std::string temporality = of_signal("TEMPORALITY_PREFERENCE");
    const std::optional<std::string> value = reader_.text(temporality);
    if (value && detail::lower_case(*value) != "cumulative") {
        reader_.warn(temporality, VariableReader::quoted(*value) +
                                      " is not supported; the temporality is cumulative.");
    }
}

/// Reads the list of exporters. Returns nothing if it names none that is known.
std::optional<OtelSignal> read_exporters(VariableReader& reader, const std::string& signal) {
    const std::string variable = "OTEL_" + signal + "_EXPORTER";
    const std::string list = reader.text(variable).value_or("");
    OtelSignal chosen;
    bool none = false;
    for (const KeyValue& entry : key_values(list)) {
        const std::string name = detail::lower_case(entry.key);
        if (name == "none") {
            none = true;
        } else if (name == "otlp") {
            chosen.otlp = true;
        } else if (name == "console") {
            chosen.console = true;
        } else {
            reader.warn(variable, VariableReader::quoted(entry.key) +
                                      " is not one of otlp, console, none; it is ignored.");
        }
    }
    if (none) return OtelSignal();
    if (!chosen.exported()) return std::nullopt;
    return chosen;
}

OtelSignal read_signal(VariableReader& reader, const std::string& signal) {
    OtlpVariables otlp(reader, signal);
    OtelSignal result;
    if (const std::optional<OtelSignal> chosen = read_exporters(reader, signal)) {
        result = *chosen;
    } else {
        result.otlp = otlp.has_endpoint();
    }
    if (!result.otlp) return result;
    std::optional<OTLPOptions> options = otlp.read();
    result.otlp = options.has_value();
    if (options) result.options = std::move(*options);
    return result;
}

/// One malformed entry discards the whole list (https://opentelemetry.io/docs/specs/otel/resource/sdk/).
Attributes read_resource(VariableReader& reader) {
    constexpr const char* variable = "OTEL_RESOURCE_ATTRIBUTES";
    const std::string list = reader.text(variable).value_or("");
    Attributes attributes;
    std::size_t number = 0;
    for (const KeyValue& entry : key_values(list)) {
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
    VariableType<double> type;
    type.default_value = 1;
    type.expected = "a number from 0 to 1";
    type.parse = [](std::string_view text) -> std::optional<double> {
        const auto value = detail::parsed_number<double>(text);
        return value && *value >= 0 && *value <= 1 ? value : std::nullopt;
    };
    type.show = [](const double& value) { return number_text(value); };
    return reader.read({"OTEL_TRACES_SAMPLER_ARG"}, type);
}

/// A sampler that records nothing on its own does not record failed runs either.
std::optional<Sampling> read_sampling(VariableReader& reader) {
    using enum Sampler;
    VariableType<Sampler> type =
        word_variable<Sampler>({{"always_on", on},
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
        reader.read({"OTEL_BSP_MAX_QUEUE_SIZE"}, size_variable(limits.queue_spans));
    const std::size_t batch = std::min(limits.batch_spans, limits.queue_spans);
    limits.batch_spans = reader.read({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE"}, size_variable(batch));
    if (limits.batch_spans > limits.queue_spans) {
        reader.warn("OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
                    std::to_string(limits.batch_spans) + " is more than the queue holds; " +
                        std::to_string(limits.queue_spans) + " is used.");
        limits.batch_spans = limits.queue_spans;
    }
    limits.delay = reader.read({"OTEL_BSP_SCHEDULE_DELAY"}, duration_variable(limits.delay));
    limits.export_timeout =
        reader.read({"OTEL_BSP_EXPORT_TIMEOUT"}, timeout_variable(limits.export_timeout));
    return limits;
}

MetricReaderOptions read_reader(VariableReader& reader) {
    MetricReaderOptions options;
    options.interval =
        reader.read({"OTEL_METRIC_EXPORT_INTERVAL"}, duration_variable(options.interval, 1));
    options.export_timeout =
        reader.read({"OTEL_METRIC_EXPORT_TIMEOUT"}, timeout_variable(options.export_timeout));
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
    environment.disabled = reader.read({"OTEL_SDK_DISABLED"}, boolean_variable());
    if (environment.disabled) return environment;
    environment.resource_attributes = read_resource(reader);
    environment.sampling = read_sampling(reader);
    environment.traces = read_signal(reader, "TRACES");
    environment.metrics = read_signal(reader, "METRICS");
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
        add(std::make_shared<OTLPSpanExporter>(environment.traces.options));
    if (environment.traces.console) add(std::make_shared<ConsoleSpanExporter>(console));
    return outputs;
}

std::vector<std::shared_ptr<MetricExporter>> metric_exporters(const OtelEnvironment& environment,
                                                              std::ostream& console) {
    std::vector<std::shared_ptr<MetricExporter>> exporters;
    if (environment.disabled) return exporters;
    if (environment.metrics.otlp)
        exporters.push_back(std::make_shared<OTLPMetricExporter>(environment.metrics.options));
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
