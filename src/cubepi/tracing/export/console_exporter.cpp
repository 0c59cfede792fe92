#include <cubepi/tracing/console_exporter.hpp>

#include <ostream>
#include <variant>

#include <cubepi/core/number_text.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/tracing/export/span_json.hpp>
#include <cubepi/tracing/metric_data.hpp>

namespace cubepi {

namespace {

constexpr std::size_t longest_value = 60;

/// One line without control characters, cut to its limit.
std::string shortened(std::string_view text) {
    const bool cut = text.size() > longest_value;
    if (cut) {
        text = text.substr(0, longest_value);
        text = text.substr(0, complete_utf8_prefix(text));
    }
    std::string clean = replace_broken_utf8(text);
    for (std::size_t i = 0; i < clean.size(); ++i) {
        const auto c = static_cast<unsigned char>(clean[i]);
        if (c < 0x20 || c == 0x7f) clean[i] = ' ';
        // U+0080 to U+009F, which are two bytes.
        if (c != 0xc2 || static_cast<unsigned char>(clean[i + 1]) > 0x9f) continue;
        clean[i] = ' ';
        clean[i + 1] = ' ';
    }
    return cut ? clean + "…" : clean;
}

std::string value_text(const AttributeValue& value) {
    if (const auto text = value.if_text()) return shortened(*text);
    if (const bool* truth = value.if_boolean()) return *truth ? "true" : "false";
    if (const std::int64_t* integer = value.if_integer()) return std::to_string(*integer);
    if (const double* number = value.if_number()) return number_text(*number);
    std::string list;
    for (const SharedString& one : *value.if_list()) list += (list.empty() ? "" : ",") + one.str();
    return shortened(list);
}

std::string line_of(const SpanData& span) {
    std::string time;
    detail::append_iso_time(time, span.start);
    std::string line = time.substr(11, 12) + "  " + shortened(span.name) + "  " +
                       seconds_text(span.end - span.start);
    if (span.status == SpanStatus::error) {
        line += "  error";
        if (!span.status_description.empty()) line += ": " + shortened(span.status_description);
    } else {
        line += "  ok";
    }
    for (const Attribute& one : span.attributes)
        line += "  " + shortened(one.key) + "=" + value_text(one.value);
    line += "  trace=" + span.context.trace_id.hex() + " span=" + span.context.span_id.hex();
    if (span.parent.valid()) line += " parent=" + span.parent.hex();
    return line + "\n";
}

/// Writes `text`, which has `items` spans or data points.
ExportResult write(std::ostream& out, const std::string& text, std::size_t items) {
    out << text << std::flush;
    ExportResult result;
    if (!out) {
        out.clear();
        result.rejected = items;
        result.error = "cannot write to the stream";
    }
    return result;
}

}  // namespace

ConsoleSpanExporter::ConsoleSpanExporter(std::ostream& out) : out_(out) {}

Task<ExportResult> ConsoleSpanExporter::export_spans(SpanBatch batch,
                                                     std::shared_ptr<const Resource>) {
    std::string lines;
    for (const auto& span : batch) lines += line_of(*span);
    co_return write(out_, lines, batch.size());
}

ConsoleMetricExporter::ConsoleMetricExporter(std::ostream& out) : out_(out) {}

Task<ExportResult> ConsoleMetricExporter::export_metrics(
    std::shared_ptr<const MetricSnapshot> metrics, std::shared_ptr<const Resource> resource) {
    co_return write(out_, prometheus_text(*metrics, *resource), metrics->point_count());
}

}  // namespace cubepi
