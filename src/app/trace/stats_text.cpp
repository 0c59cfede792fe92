#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/net/utf8.hpp>

#include "../local_time.hpp"
#include "trace_stats.hpp"

// The output of `cubepi trace stats`.

namespace cubepi::app {

namespace {

constexpr std::size_t longest_name = 60;

double seconds(std::int64_t microseconds) { return static_cast<double>(microseconds) / 1e6; }

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
        screen.columns() == 0 ? longest_name : std::max<std::size_t>(screen.columns() / 3, 12);
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

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

void add_tokens(JsonObject& object, const std::optional<TokenCounts>& tokens) {
    const auto count = [&tokens](std::int64_t TokenCounts::* member) {
        return tokens ? Json((*tokens).*member) : Json();
    };
    object["input_tokens"] = count(&TokenCounts::input);
    object["output_tokens"] = count(&TokenCounts::output);
    object["cache_read_tokens"] = count(&TokenCounts::cache_read);
    object["cache_write_tokens"] = count(&TokenCounts::cache_write);
}

JsonArray calls_json(std::string_view key, const std::vector<CallStats>& list) {
    JsonArray array;
    for (const CallStats& stats : list) {
        JsonObject object;
        object[key] =
            stats.name.empty()
                ? Json()
                : Json(is_utf8(stats.name) ? stats.name : replace_broken_utf8(stats.name));
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
