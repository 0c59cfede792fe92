#include "trace_views.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include <cubepi/net/utf8.hpp>

#include "../process.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_cell = 60;
constexpr std::size_t longest_input = 200;
constexpr std::size_t id_at_terminal = 12;
constexpr std::array<TraceStatus, 5> all_statuses = {TraceStatus::ok, TraceStatus::error,
                                                     TraceStatus::aborted, TraceStatus::suspended,
                                                     TraceStatus::incomplete};

double seconds(std::int64_t microseconds) { return static_cast<double>(microseconds) / 1e6; }

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

/// Text of a trace as JSON; null if it is empty.
Json text_json(const std::string& text) {
    if (text.empty()) return {};
    return Json(is_utf8(text) ? text : replace_broken_utf8(text));
}

void add_tokens(JsonObject& object, const std::optional<TokenCounts>& tokens) {
    const auto count = [&tokens](std::int64_t TokenCounts::* member) {
        return tokens ? Json((*tokens).*member) : Json();
    };
    object["input_tokens"] = count(&TokenCounts::input);
    object["output_tokens"] = count(&TokenCounts::output);
    object["cache_read_tokens"] = count(&TokenCounts::cache_read);
    object["cache_write_tokens"] = count(&TokenCounts::cache_write);
}

/// Safe text in one line, in which no tab separates columns.
TerminalText cell(std::string text, std::size_t width = longest_cell) {
    std::replace(text.begin(), text.end(), '\t', ' ');
    std::replace(text.begin(), text.end(), '\n', ' ');
    return line_for_terminal(text, width);
}

/// The columns of `ls`. `metadata`: the keys of additional ones.
std::vector<TextTable::Column> list_columns(const std::vector<std::string>& metadata) {
    std::vector<TextTable::Column> columns = {
        {"started"},    {"trace"},           {"spans", true, 1}, {"status"},
        {"time", true}, {"tokens", true, 2}, {"cost", true, 3},  {"session", false, 4}};
    for (const std::string& key : metadata) columns.push_back({cell(key)});
    columns.push_back({"input"});
    return columns;
}

/// The texts of these columns. At a terminal times have no zone, and if it is narrow no year, and ids are cut.
std::vector<TerminalText> list_row(const TraceSummary& summary,
                                   const std::vector<std::string>& metadata,
                                   const TraceScreen& screen) {
    const std::size_t columns = screen.columns();
    const std::size_t width = columns == 0 ? longest_cell : columns / 5;
    std::string started = local_time(seconds(summary.start));
    if (columns > 0) started = started.substr(0, 19);
    if (columns > 0 && columns < 100 && started.size() == 19) started.erase(0, 5);
    const bool is_short = columns > 0 && columns < 150;
    TerminalText spans = TerminalText::number(summary.spans);
    if (columns == 0) spans += summary.spans == 1 ? TerminalView(" span") : TerminalView(" spans");
    std::vector<TerminalText> row = {
        cell(started),
        cell(is_short ? summary.id.substr(0, id_at_terminal) : summary.id),
        spans,
        status_text(screen.style, summary.status),
        for_terminal(span_time_text(summary.duration())),
        for_terminal(token_text(summary.tokens)),
        for_terminal(cost_text(summary.cost)),
        cell(summary.session, width)};
    for (const std::string& key : metadata) {
        const auto found = std::find_if(summary.metadata.begin(), summary.metadata.end(),
                                        [&key](const auto& one) { return one.first == key; });
        row.push_back(found == summary.metadata.end() ? TerminalText()
                                                      : cell(found->second, width));
    }
    row.push_back(cell(summary.input, longest_input));
    return row;
}

void add_call(CallStats& stats, const TraceSpan& span, bool cost_is_own) {
    ++stats.calls;
    if (span.error) ++stats.errors;
    if (span.aborted) ++stats.aborted;
    stats.duration += span.duration();
    stats.durations.push_back(span.duration());
    add_value(stats.tokens, span.tokens);
    if (cost_is_own) add_value(stats.cost, span.cost);
    if (span.tokens && !span.cost) ++stats.without_cost;
}

/// The most frequent first.
std::vector<CallStats> sorted(const std::map<std::string, CallStats>& by_name) {
    std::vector<CallStats> list;
    for (const auto& [name, stats] : by_name) list.emplace_back(stats).name = name;
    std::sort(list.begin(), list.end(), [](const CallStats& a, const CallStats& b) {
        return a.calls != b.calls ? a.calls > b.calls : a.name < b.name;
    });
    return list;
}

/// "3 (25%)". A small share is not rounded to nothing.
std::string share_text(std::size_t part, std::size_t all) {
    if (part == 0) return "0";
    const double percent = 100 * static_cast<double>(part) / static_cast<double>(all);
    const std::string rounded = percent < 1 ? "<1" : std::to_string(static_cast<int>(percent));
    return std::to_string(part) + " (" + rounded + "%)";
}

std::string cached_text(const TokenCounts& tokens) {
    if (tokens.cache_read == 0 || tokens.input == 0) return {};
    return std::to_string(tokens.cache_read * 100 / tokens.input) + "%";
}

void print_table(TerminalView title, const std::vector<CallStats>& list, const TraceScreen& screen,
                 TerminalStream& out) {
    if (list.empty()) return;
    TextTable table;
    table.columns = {{title},
                     {"calls", true},
                     {"errors", true},
                     {"aborted", true, 1},
                     {"p50", true},
                     {"p95", true},
                     {"p99", true, 4},
                     {"total", true, 2},
                     {"tokens in", true, 6},
                     {"cached", true, 3},
                     {"out", true, 5},
                     {"cost", true}};
    const std::size_t name_width =
        screen.columns() == 0 ? longest_cell : std::max<std::size_t>(screen.columns() / 3, 12);
    for (const CallStats& stats : list) {
        std::vector<std::string> figures = {stats.aborted ? std::to_string(stats.aborted) : ""};
        for (const double percent : {50, 95, 99})
            figures.push_back(span_time_text(percentile(stats.durations, percent)));
        figures.push_back(span_time_text(stats.duration));
        const auto& tokens = stats.tokens;
        figures.push_back(tokens ? token_count_text(tokens->input) : "");
        figures.push_back(tokens ? cached_text(*tokens) : "");
        figures.push_back(tokens ? token_count_text(tokens->output) : "");
        // A sum of the known costs, if some are unknown.
        figures.push_back(cost_text(stats.cost) + (stats.cost && stats.without_cost ? "+" : ""));
        const TerminalText errors = for_terminal(share_text(stats.errors, stats.calls));
        const Style& style = screen.style;
        std::vector<TerminalText>& row = table.rows.emplace_back();
        row.push_back(line_for_terminal(stats.name.empty() ? "(unknown)" : stats.name, name_width));
        row.push_back(TerminalText::number(stats.calls));
        row.push_back(stats.errors > 0 ? style.red() + errors + style.off() : errors);
        for (const std::string& figure : figures) row.push_back(for_terminal(figure));
    }
    out << "\n" << table.text(screen.style, screen.ascii);
}

JsonArray calls_json(std::string_view key, const std::vector<CallStats>& list) {
    JsonArray array;
    for (const CallStats& stats : list) {
        JsonObject object;
        object[key] = text_json(stats.name);
        object["calls"] = stats.calls;
        object["errors"] = stats.errors;
        object["aborted"] = stats.aborted;
        object["p50"] = seconds(percentile(stats.durations, 50));
        object["p95"] = seconds(percentile(stats.durations, 95));
        object["p99"] = seconds(percentile(stats.durations, 99));
        object["duration"] = seconds(stats.duration);
        add_tokens(object, stats.tokens);
        object["cost"] = optional_number(stats.cost);
        object["calls_without_cost"] = stats.without_cost;
        array.push_back(std::move(object));
    }
    return array;
}

}  // namespace

void print_list(const TraceListing& listing, const std::vector<std::string>& metadata,
                const TraceScreen& screen, TerminalStream& out) {
    TextTable table;
    table.columns = list_columns(metadata);
    for (const ListedTrace& listed : listing.traces)
        table.rows.push_back(list_row(listed.summary, metadata, screen));
    if (screen.columns() > 0) {
        out << table.text(screen.style, screen.ascii);
        return;
    }
    for (const std::vector<TerminalText>& row : table.rows) {
        for (std::size_t i = 0; i < row.size(); ++i)
            out << (i > 0 ? TerminalView("\t") : TerminalView())
                << (row[i].empty() ? TerminalView("-") : TerminalView(row[i]));
        out << "\n";
    }
}

Json list_json(const TraceListing& listing) {
    JsonArray list;
    for (const ListedTrace& listed : listing.traces) {
        const TraceSummary& summary = listed.summary;
        JsonObject object;
        object["trace_id"] = text_json(summary.id);
        object["started_at"] = seconds(summary.start);
        object["duration"] = seconds(summary.duration());
        object["status"] = status_name(summary.status);
        object["spans"] = summary.spans;
        add_tokens(object, summary.tokens);
        object["cost"] = optional_number(summary.cost);
        object["session"] = text_json(summary.session);
        JsonObject metadata;
        for (const auto& [key, value] : summary.metadata)
            metadata[replace_broken_utf8(key)] = replace_broken_utf8(value);
        object["metadata"] = std::move(metadata);
        object["input"] = text_json(summary.input);
        JsonArray files;
        for (const std::filesystem::path& path : listed.files)
            files.push_back(text_json(path.string()));
        object["files"] = std::move(files);
        list.push_back(std::move(object));
    }
    return list;
}

std::int64_t percentile(std::vector<std::int64_t> values, double percent) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const double place = percent / 100 * static_cast<double>(values.size() - 1);
    const auto lower = static_cast<std::size_t>(place);
    if (lower + 1 >= values.size()) return values.back();
    const auto step = static_cast<double>(values[lower + 1] - values[lower]);
    return values[lower] + std::llround(step * (place - static_cast<double>(lower)));
}

void TraceStats::add(const Trace& trace) {
    std::vector<TraceSpan> unseen;
    for (const TraceSpan& span : trace.spans) {
        if (seen_.insert(std::hash<std::string>()(span.trace_id + "/" + span.span_id)).second)
            unseen.push_back(span);
    }
    if (unseen.size() == trace.spans.size()) {
        add_new(trace);
    } else if (!unseen.empty()) {
        std::size_t repeated = 0;
        add_new(make_trace(std::move(unseen), repeated));
    }
}

void TraceStats::add_new(const Trace& trace) {
    const TraceSummary& summary = trace.summary;
    sums_.start = traces_ == 0 ? summary.start : std::min(sums_.start, summary.start);
    sums_.end = std::max(sums_.end, summary.end);
    add_value(sums_.tokens, summary.tokens);
    add_value(sums_.cost, summary.cost);
    ++traces_;
    ++statuses_[summary.status];
    for (const TraceSpan& span : trace.spans) {
        if (!filter_.accepts_call(span)) continue;
        if (span.operation == SpanOperation::chat && by_ != "tool")
            add_call(models_[span.model], span, true);
        if (span.operation == SpanOperation::tool && by_ != "model")
            add_call(tools_[span.tool], span, !span.cost_below);
    }
}

void TraceStats::print_heading(const TraceScreen& screen, TerminalStream& out) const {
    const Style& style = screen.style;
    const auto print = [&](const TerminalText& line) {
        if (!line.empty()) out << fitted(line, screen.columns(), screen.ascii) << "\n";
    };
    TerminalText line = style.bold() + TerminalText::number(traces_) +
                        (traces_ == 1 ? TerminalView(" trace") : TerminalView(" traces")) +
                        style.off();
    for (const TraceStatus status : all_statuses) {
        const auto count = statuses_.find(status);
        if (status == TraceStatus::ok || count == statuses_.end()) continue;
        line +=
            ", " + TerminalText::number(count->second) + " " +
            (status == TraceStatus::error ? style.red() + TerminalText("with errors") + style.off()
                                          : status_text(style, status));
    }
    print(line);
    print(for_terminal(local_time(seconds(sums_.start)) + " to " + local_time(seconds(sums_.end))));
    print(for_terminal(sums_text(sums_)));
}

void TraceStats::print(const TraceScreen& screen, TerminalStream& out) const {
    print_heading(screen, out);
    print_table("model", sorted(models_), screen, out);
    print_table("tool", sorted(tools_), screen, out);
    if (models_.empty() && tools_.empty()) out << "\nNo calls were recorded.\n";
}

Json TraceStats::json() const {
    JsonObject object;
    object["traces"] = traces_;
    JsonObject statuses;
    for (const TraceStatus status : all_statuses) {
        const auto found = statuses_.find(status);
        statuses[status_name(status)] = found == statuses_.end() ? 0 : found->second;
    }
    object["statuses"] = std::move(statuses);
    object["started_at"] = empty() ? Json() : Json(seconds(sums_.start));
    object["ended_at"] = empty() ? Json() : Json(seconds(sums_.end));
    add_tokens(object, sums_.tokens);
    object["cost"] = optional_number(sums_.cost);
    if (by_ != "tool") object["models"] = calls_json("model", sorted(models_));
    if (by_ != "model") object["tools"] = calls_json("tool", sorted(tools_));
    return object;
}

}  // namespace cubepi::app
