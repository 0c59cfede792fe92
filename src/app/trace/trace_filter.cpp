#include "trace_filter.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include <cubepi/core/error.hpp>

#include "../saved_sessions.hpp"
#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

bool has_session(const TraceSpan& span, const std::string& wanted) {
    return span.session == wanted || span.thread == wanted || span.session == session_id_of(wanted);
}

bool has_metadata(const TraceSpan& span, const std::pair<std::string, std::string>& wanted) {
    return std::find(span.metadata.begin(), span.metadata.end(), wanted) != span.metadata.end();
}

}  // namespace

bool TraceFilter::selects_spans() const {
    return !model.empty() || !tool.empty() || error || min_duration;
}

bool TraceFilter::accepts_trace(const TraceTree& tree) const {
    const std::vector<TraceSpan>& spans = tree.trace().spans;
    const auto any = [&spans](const auto& accepts) {
        return std::any_of(spans.begin(), spans.end(), accepts);
    };
    if (since && any([this](const TraceSpan& span) { return span.start < *since; })) return false;
    if (!session.empty() &&
        !any([this](const TraceSpan& span) { return has_session(span, session); }))
        return false;
    return std::all_of(metadata.begin(), metadata.end(), [&any](const auto& wanted) {
        return any([&wanted](const TraceSpan& span) { return has_metadata(span, wanted); });
    });
}

bool TraceFilter::accepts_call(const TraceSpan& span) const {
    if (model.empty() && tool.empty()) return true;
    if (span.operation == SpanOperation::chat) return !model.empty() && span.model == model;
    return span.operation == SpanOperation::tool && !tool.empty() && span.tool == tool;
}

bool TraceFilter::accepts_span(const TraceSpan& span) const {
    if (!accepts_call(span)) return false;
    if (error && !span.error) return false;
    return !min_duration || span.duration() >= *min_duration;
}

bool TraceFilter::accepts(const TraceTree& tree) const {
    if (!accepts_trace(tree)) return false;
    const std::vector<TraceSpan>& spans = tree.trace().spans;
    const auto any = [&spans](const auto& accepts) {
        return std::any_of(spans.begin(), spans.end(), accepts);
    };
    const auto is_call = [](const TraceSpan& span, SpanOperation operation, const std::string& text,
                            const std::string& wanted) {
        return span.operation == operation && text == wanted;
    };
    if (!model.empty() && !any([&](const TraceSpan& span) {
            return is_call(span, SpanOperation::chat, span.model, model);
        }))
        return false;
    if (!tool.empty() && !any([&](const TraceSpan& span) {
            return is_call(span, SpanOperation::tool, span.tool, tool);
        }))
        return false;
    if (error && !any([](const TraceSpan& span) { return span.error; })) return false;
    if (!min_duration || spans.empty()) return true;
    const TraceSummary summary = summarize(tree);
    return summary.duration() >= *min_duration;
}

std::int64_t parse_duration(const std::string& option, const std::string& text) {
    static constexpr std::array<std::pair<std::string_view, double>, 6> units = {
        {{"", 1e6}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"h", 3600e6}}};
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, failed] = std::from_chars(text.data(), end, number);
    const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    for (const auto& [name, microseconds] : units) {
        const double result = number * microseconds;
        if (failed == std::errc() && unit == name && result >= 0 && result < 1e18)
            return static_cast<std::int64_t>(std::llround(result));
    }
    throw Error(ErrorCode::invalid_argument, option + ": '" + printable(text) +
                                                 "' is not a duration; expected 500ms, 2s, 1.5s, "
                                                 "3m, or a number of seconds");
}

std::pair<std::string, std::string> parse_metadata(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw Error(ErrorCode::invalid_argument,
                    "--meta: '" + printable(text) + "' has no key; expected KEY=VALUE");
    return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace cubepi::app
