#include "trace_views.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include <cubepi/net/utf8.hpp>

#include "../process.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_cell = 60;
constexpr std::size_t longest_input = 200;
constexpr std::size_t id_at_terminal = 12;

double seconds(std::int64_t microseconds) { return static_cast<double>(microseconds) / 1e6; }

std::string started(const TraceSummary& summary) { return local_time(seconds(summary.start)); }

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::string utf8(const std::string& text) {
    return is_utf8(text) ? text : replace_broken_utf8(text);
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

std::string metadata_of(const TraceSummary& summary, const std::string& key) {
    for (const auto& [name, value] : summary.metadata) {
        if (name == key) return value;
    }
    return {};
}

/// Safe text in one line, in which no tab separates columns.
TerminalText cell(std::string text, std::size_t width = longest_cell) {
    std::replace(text.begin(), text.end(), '\t', ' ');
    std::replace(text.begin(), text.end(), '\n', ' ');
    return line_for_terminal(text, width);
}

void print_columns(const TraceSummary& summary, const std::vector<std::string>& metadata,
                   TerminalStream& out) {
    const auto dash = [](std::string text) { return text.empty() ? std::string("-") : text; };
    out << cell(started(summary)) << "\t" << cell(summary.id) << "\t" << summary.spans
        << (summary.spans == 1 ? TerminalView(" span\t") : TerminalView(" spans\t"))
        << for_terminal(status_name(summary.status)) << "\t"
        << for_terminal(span_time_text(summary.duration())) << "\t"
        << for_terminal(dash(token_text(summary.tokens))) << "\t"
        << for_terminal(dash(cost_text(summary.cost))) << "\t" << cell(dash(summary.session));
    for (const std::string& key : metadata) out << "\t" << cell(dash(metadata_of(summary, key)));
    out << "\t" << cell(dash(summary.input), longest_input) << "\n";
}

JsonObject to_json(const ListedTrace& listed) {
    const TraceSummary& summary = listed.summary;
    JsonObject object;
    object["trace_id"] = utf8(summary.id);
    object["started_at"] = seconds(summary.start);
    object["duration"] = seconds(summary.duration());
    object["status"] = status_name(summary.status);
    object["spans"] = summary.spans;
    add_tokens(object, summary.tokens);
    object["cost"] = optional_number(summary.cost);
    object["session"] = summary.session.empty() ? Json() : Json(utf8(summary.session));
    JsonObject metadata;
    for (const auto& [key, value] : summary.metadata) metadata[utf8(key)] = utf8(value);
    object["metadata"] = std::move(metadata);
    object["input"] = summary.input.empty() ? Json() : Json(utf8(summary.input));
    JsonArray files;
    for (const std::filesystem::path& path : listed.files)
        files.push_back(Json(utf8(path.string())));
    object["files"] = std::move(files);
    return object;
}

void add_call(CallStats& stats, const TraceSpan& span, bool cost_is_own) {
    ++stats.calls;
    if (span.error) ++stats.errors;
    if (span.aborted) ++stats.aborted;
    stats.durations.push_back(span.duration());
    add_value(stats.tokens, span.tokens);
    if (cost_is_own) add_value(stats.cost, span.cost);
    if (span.tokens && !span.cost) ++stats.without_cost;
}

std::string count_text(std::size_t count) { return count == 0 ? "" : std::to_string(count); }

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

/// The sum of the known costs, with a sign if some are unknown.
std::string call_cost(const CallStats& stats) {
    const std::string text = cost_text(stats.cost);
    return text.empty() || stats.without_cost == 0 ? text : text + "+";
}

void add_columns(TextTable& table, TerminalView title) {
    using Align = TextTable::Align;
    table.add_column(title);
    table.add_column("calls", Align::right);
    table.add_column("errors", Align::right);
    table.add_column("aborted", Align::right, 1);
    table.add_column("p50", Align::right);
    table.add_column("p95", Align::right);
    table.add_column("p99", Align::right, 4);
    table.add_column("total", Align::right, 2);
    table.add_column("tokens in", Align::right, 6);
    table.add_column("cached", Align::right, 3);
    table.add_column("out", Align::right, 5);
    table.add_column("cost", Align::right);
}

void print_table(TerminalView title, const std::vector<CallStats>& list, const TraceScreen& screen,
                 TerminalStream& out) {
    if (list.empty()) return;
    TextTable table;
    add_columns(table, title);
    const std::size_t name_width =
        screen.columns() == 0 ? longest_cell : std::max<std::size_t>(screen.columns() / 3, 12);
    for (const CallStats& stats : list) {
        const auto time = [&stats](double percent) {
            return for_terminal(span_time_text(percentile(stats.durations, percent)));
        };
        const auto tokens = [&stats](std::int64_t TokenCounts::* member) {
            return for_terminal(stats.tokens ? token_count_text((*stats.tokens).*member)
                                             : std::string());
        };
        std::vector<TerminalText> row = {
            line_for_terminal(stats.name.empty() ? "(unknown)" : stats.name, name_width),
            TerminalText::number(stats.calls),
            for_terminal(share_text(stats.errors, stats.calls)),
            for_terminal(count_text(stats.aborted)),
            time(50),
            time(95),
            time(99),
            for_terminal(span_time_text(stats.total_duration())),
            tokens(&TokenCounts::input),
            for_terminal(stats.tokens ? cached_text(*stats.tokens) : std::string()),
            tokens(&TokenCounts::output),
            for_terminal(call_cost(stats))};
        table.add(std::move(row), stats.errors > 0 ? screen.style.red() : TerminalView(), 2);
    }
    out << "\n" << table.text(screen);
}

void print_heading(const TraceStats& stats, const TraceScreen& screen, TerminalStream& out) {
    const Style& style = screen.style;
    TerminalText line = style.bold() + TerminalText::number(stats.traces()) +
                        (stats.traces() == 1 ? TerminalView(" trace") : TerminalView(" traces")) +
                        style.off();
    for (const TraceStatus status : {TraceStatus::error, TraceStatus::aborted,
                                     TraceStatus::suspended, TraceStatus::incomplete}) {
        const std::size_t count = stats.traces_of(status);
        if (count == 0) continue;
        line += ", " + TerminalText(status_color(style, status)) + TerminalText::number(count) +
                " " +
                for_terminal(status == TraceStatus::error ? "with errors" : status_name(status)) +
                style.off();
    }
    out << fitted(line, screen.columns(), screen.ascii) << "\n";
    const auto time = [](std::int64_t value) { return for_terminal(local_time(seconds(value))); };
    out << fitted(time(stats.start()) + " to " + time(stats.end()), screen.columns(), screen.ascii)
        << "\n";
    TerminalText sums = token_sums(stats.tokens());
    if (stats.cost()) {
        if (!sums.empty()) sums += ", ";
        sums += for_terminal(cost_text(stats.cost()));
    }
    if (!sums.empty()) out << fitted(sums, screen.columns(), screen.ascii) << "\n";
}

JsonArray calls_json(std::string_view key, const std::vector<CallStats>& list) {
    JsonArray array;
    for (const CallStats& stats : list) {
        JsonObject object;
        object[key] = stats.name.empty() ? Json() : Json(utf8(stats.name));
        object["calls"] = stats.calls;
        object["errors"] = stats.errors;
        object["aborted"] = stats.aborted;
        object["p50"] = seconds(percentile(stats.durations, 50));
        object["p95"] = seconds(percentile(stats.durations, 95));
        object["p99"] = seconds(percentile(stats.durations, 99));
        object["duration"] = seconds(stats.total_duration());
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
    if (screen.columns() == 0) {
        for (const ListedTrace& listed : listing.traces)
            print_columns(listed.summary, metadata, out);
        return;
    }
    using Align = TextTable::Align;
    TextTable table;
    table.add_column("started");
    table.add_column("trace");
    table.add_column("spans", Align::right, 1);
    table.add_column("status");
    table.add_column("time", Align::right);
    table.add_column("tokens", Align::right, 2);
    table.add_column("cost", Align::right, 3);
    table.add_column("session", Align::left, 4);
    for (const std::string& key : metadata) table.add_column(cell(key));
    table.add_column("input");
    // The zone and, on a narrow terminal, the year are in the output of pipes only.
    const std::size_t skipped = screen.columns() < 100 ? 5 : 0;
    for (const ListedTrace& listed : listing.traces) {
        const TraceSummary& summary = listed.summary;
        const std::string time = started(summary);
        std::vector<TerminalText> row = {
            cell(time.size() > 19 ? time.substr(skipped, 19 - skipped) : time),
            cell(screen.columns() < 150 ? summary.id.substr(0, id_at_terminal) : summary.id),
            TerminalText::number(summary.spans),
            for_terminal(status_name(summary.status)),
            for_terminal(span_time_text(summary.duration())),
            for_terminal(token_text(summary.tokens)),
            for_terminal(cost_text(summary.cost)),
            cell(summary.session, screen.columns() / 5)};
        for (const std::string& key : metadata)
            row.push_back(cell(metadata_of(summary, key), screen.columns() / 5));
        row.push_back(cell(summary.input, longest_input));
        table.add(std::move(row), status_color(screen.style, summary.status), 3);
    }
    out << table.text(screen);
}

Json list_json(const TraceListing& listing) {
    JsonArray list;
    for (const ListedTrace& listed : listing.traces) list.push_back(to_json(listed));
    return list;
}

std::int64_t CallStats::total_duration() const noexcept {
    return std::accumulate(durations.begin(), durations.end(), std::int64_t{0});
}

std::int64_t percentile(const std::vector<std::int64_t>& sorted, double percent) {
    if (sorted.empty()) return 0;
    const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
    const auto lower = static_cast<std::size_t>(place);
    if (lower + 1 >= sorted.size()) return sorted.back();
    const auto step = static_cast<double>(sorted[lower + 1] - sorted[lower]);
    return sorted[lower] + std::llround(step * (place - static_cast<double>(lower)));
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
    start_ = traces_ == 0 ? summary.start : std::min(start_, summary.start);
    end_ = std::max(end_, summary.end);
    ++traces_;
    ++statuses_[summary.status];
    add_value(tokens_, summary.tokens);
    add_value(cost_, summary.cost);
    const std::vector<bool> cost_below = has_below(trace.spans, &TraceSpan::cost);
    for (std::size_t i = 0; i < trace.spans.size(); ++i) {
        const TraceSpan& span = trace.spans[i];
        if (!filter_.accepts_call(span)) continue;
        if (span.operation == SpanOperation::chat) add_call(models_[span.model], span, true);
        if (span.operation == SpanOperation::tool)
            add_call(tools_[span.tool], span, !cost_below[i]);
    }
}

std::size_t TraceStats::traces_of(TraceStatus status) const {
    const auto found = statuses_.find(status);
    return found == statuses_.end() ? 0 : found->second;
}

std::vector<CallStats> TraceStats::sorted(const ByName& by_name) {
    std::vector<CallStats> list;
    for (const auto& [name, stats] : by_name) {
        list.push_back(stats);
        list.back().name = name;
        std::sort(list.back().durations.begin(), list.back().durations.end());
    }
    std::sort(list.begin(), list.end(), [](const CallStats& a, const CallStats& b) {
        return a.calls != b.calls ? a.calls > b.calls : a.name < b.name;
    });
    return list;
}

void print_stats(const TraceStats& stats, StatsTables tables, const TraceScreen& screen,
                 TerminalStream& out) {
    print_heading(stats, screen, out);
    const std::vector<CallStats> models = tables.models ? stats.models() : std::vector<CallStats>();
    const std::vector<CallStats> tools = tables.tools ? stats.tools() : std::vector<CallStats>();
    print_table("model", models, screen, out);
    print_table("tool", tools, screen, out);
    if (models.empty() && tools.empty()) out << "\nNo calls were recorded.\n";
}

Json stats_json(const TraceStats& stats, StatsTables tables) {
    JsonObject object;
    object["traces"] = stats.traces();
    JsonObject statuses;
    for (const TraceStatus status : {TraceStatus::ok, TraceStatus::error, TraceStatus::aborted,
                                     TraceStatus::suspended, TraceStatus::incomplete})
        statuses[status_name(status)] = stats.traces_of(status);
    object["statuses"] = std::move(statuses);
    const bool any = stats.traces() > 0;
    object["started_at"] = any ? Json(seconds(stats.start())) : Json();
    object["ended_at"] = any ? Json(seconds(stats.end())) : Json();
    add_tokens(object, stats.tokens());
    object["cost"] = optional_number(stats.cost());
    if (tables.models) object["models"] = calls_json("model", stats.models());
    if (tables.tools) object["tools"] = calls_json("tool", stats.tools());
    return object;
}

}  // namespace cubepi::app
