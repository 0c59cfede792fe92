#include <cubepi/tracing/metric_data.hpp>

#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include <cubepi/core/number_text.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/tracing/export/span_json.hpp>

namespace cubepi {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Replaces what a name must not contain by "_", and repeated "_" by one.
std::string clean_name(std::string_view name, std::string_view also_valid) {
    std::string clean;
    for (const char c : name) {
        const bool valid =
            is_letter(c) || is_digit(c) || also_valid.find(c) != std::string_view::npos;
        if (valid) {
            clean.push_back(c);
        } else if (clean.empty() || clean.back() != '_') {
            clean.push_back('_');
        }
    }
    if (clean.empty() || is_digit(clean.front())) clean.insert(0, "_");
    return clean;
}

std::string_view unit_word(std::string_view unit) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 24> words = {{
        {"d", "days"},         {"h", "hours"},         {"min", "minutes"},
        {"s", "seconds"},      {"ms", "milliseconds"}, {"us", "microseconds"},
        {"ns", "nanoseconds"}, {"By", "bytes"},        {"KiBy", "kibibytes"},
        {"MiBy", "mebibytes"}, {"GiBy", "gibibytes"},  {"TiBy", "tibibytes"},
        {"KBy", "kilobytes"},  {"MBy", "megabytes"},   {"GBy", "gigabytes"},
        {"TBy", "terabytes"},  {"m", "meters"},        {"V", "volts"},
        {"A", "amperes"},      {"J", "joules"},        {"W", "watts"},
        {"g", "grams"},        {"Hz", "hertz"},        {"%", "percent"},
    }};
    for (const auto& [symbol, word] : words) {
        if (symbol == unit) return word;
    }
    // "1" is dimensionless: only gauges get a suffix for it.
    return unit == "1" ? std::string_view() : unit;
}

std::string_view time_word(std::string_view unit) {
    if (unit == "s") return "second";
    if (unit == "min" || unit == "m") return "minute";
    if (unit == "h") return "hour";
    if (unit == "d") return "day";
    return unit;
}

/// "s" becomes "seconds", "By/s" becomes "bytes_per_second", and annotations such as "{token}" vanish.
std::string unit_suffix(std::string_view unit) {
    std::string plain;
    int depth = 0;
    for (const char c : unit) {
        if (c == '{') ++depth;
        if (depth == 0) plain.push_back(c);
        if (c == '}' && depth > 0) --depth;
    }
    const std::size_t slash = plain.find('/');
    std::string suffix(unit_word(std::string_view(plain).substr(0, slash)));
    if (slash != std::string::npos && slash + 1 < plain.size()) {
        suffix += suffix.empty() ? "per_" : "_per_";
        suffix += time_word(std::string_view(plain).substr(slash + 1));
    }
    return suffix.empty() ? suffix : clean_name(suffix, "_");
}

void add_suffix(std::string& name, const std::string& suffix) {
    if (suffix.empty() || name.ends_with("_" + suffix)) return;
    if (!name.ends_with('_')) name.push_back('_');
    name += suffix;
}

std::string metric_name(const MetricData& metric, bool counter) {
    std::string name = clean_name(metric.name, "_:");
    if (counter && name.ends_with("_total")) name.resize(name.size() - 6);
    add_suffix(name, unit_suffix(metric.unit));
    if (counter) add_suffix(name, "total");
    return name;
}

std::string escaped(std::string_view text, bool quotes) {
    const std::string valid = replace_broken_utf8(text);
    std::string out;
    for (const char c : valid) {
        if (c == '\\') {
            out += "\\\\";
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '"' && quotes) {
            out += "\\\"";
        } else {
            out.push_back(c);
        }
    }
    return out;
}

std::string value_text(double value) {
    const std::string text = number_text(value);
    if (text == "inf") return "+Inf";
    if (text == "-inf") return "-Inf";
    return text == "nan" ? "NaN" : text;
}

std::string label_text(const AttributeValue& value) {
    if (const auto text = value.if_text()) return std::string(*text);
    if (const bool* truth = value.if_boolean()) return *truth ? "true" : "false";
    if (const std::int64_t* integer = value.if_integer()) return std::to_string(*integer);
    if (const double* number = value.if_number()) return value_text(*number);
    std::string list = "[";
    for (const SharedString& one : *value.if_list()) {
        if (list.size() > 1) list.push_back(',');
        detail::append_json_string(list, one);
    }
    return list + "]";
}

/// The labels without braces. Attributes whose names become equal share a label, their values joined by ";".
std::string labels_of(const Attributes& attributes) {
    std::map<std::string, std::string> labels;
    for (const Attribute& one : attributes) {
        std::string value = escaped(label_text(one.value), true);
        const auto [at, added] = labels.try_emplace(clean_name(one.key, "_"), value);
        if (!added) at->second += ";" + value;
    }
    std::string out;
    for (const auto& [name, value] : labels) {
        if (!out.empty()) out.push_back(',');
        out += name + "=\"" + value + "\"";
    }
    return out;
}

/// Appends a line; `labels` may be empty.
void add_sample(std::string& out, const std::string& name, const std::string& labels,
                const std::string& value) {
    out += name;
    if (!labels.empty()) out += "{" + labels + "}";
    out += " " + value + "\n";
}

void add_head(std::string& out, const std::string& name, const std::string& description,
              const char* type) {
    if (!description.empty()) out += "# HELP " + name + " " + escaped(description, false) + "\n";
    out += "# TYPE " + name + " " + type + "\n";
}

void add_metric(std::string& out, const MetricData& metric, const HistogramData& data) {
    const std::string name = metric_name(metric, false);
    add_head(out, name, metric.description, "histogram");
    for (const HistogramPoint& point : data.points) {
        const std::string labels = labels_of(point.attributes);
        const std::string separator = labels.empty() ? "" : ",";
        std::uint64_t count = 0;
        for (std::size_t i = 0; i < point.buckets.size(); ++i) {
            count += point.buckets[i];
            const std::string bound =
                i < data.bounds.size() ? value_text(data.bounds[i]) : std::string("+Inf");
            add_sample(out, name + "_bucket", labels + separator + "le=\"" + bound + "\"",
                       std::to_string(count));
        }
        add_sample(out, name + "_sum", labels, value_text(point.sum));
        add_sample(out, name + "_count", labels, std::to_string(point.count));
    }
}

void add_metric(std::string& out, const MetricData& metric, const CounterData& data) {
    const std::string name = metric_name(metric, true);
    add_head(out, name, metric.description, "counter");
    for (const CounterPoint& point : data.points)
        add_sample(out, name, labels_of(point.attributes), value_text(point.value));
}

}  // namespace

std::string prometheus_text(const MetricSnapshot& metrics) {
    std::string out;
    for (const MetricData& metric : metrics.metrics) {
        std::visit(
            [&](const auto& data) {
                if (!data.points.empty()) add_metric(out, metric, data);
            },
            metric.data);
    }
    return out;
}

std::string prometheus_text(const MetricSnapshot& metrics, const Resource& resource) {
    std::string out;
    add_head(out, "target_info", "Target metadata", "gauge");
    add_sample(out, "target_info", labels_of(resource.attributes), "1");
    return out + prometheus_text(metrics);
}

}  // namespace cubepi
