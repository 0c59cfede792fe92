#include "trace_list.hpp"

#include <algorithm>
#include <utility>

#include <bub/tape/search/dates.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>

#include "../local_time.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_cell = 60;
constexpr std::size_t longest_input = 200;
constexpr std::size_t id_at_terminal = 12;

void read_files(TraceListing& listing, const TraceFiles& files, const TraceFilter& filter,
                const std::function<void(const TraceTree&)>& see) {
    TraceSet set;
    try {
        set = read_traces(files.paths);
    } catch (const Error& error) {
        // A file that cannot be read does not hide the others.
        listing.unreadable.emplace_back(error.what());
        return;
    }
    listing.problems += set.problems;
    for (const Trace& trace : set.traces) {
        const TraceTree tree(trace);
        if (!filter.accepts(tree)) continue;
        listing.traces.push_back(ListedTrace{summarize(tree), files.paths});
        if (see) see(tree);
    }
}

std::string started(const TraceSummary& summary) {
    return local_time(static_cast<double>(summary.start) / 1e6);
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
    const auto text = [](const std::string& value) {
        return is_utf8(value) ? value : replace_broken_utf8(value);
    };
    JsonObject object;
    object["trace_id"] = text(summary.id);
    object["started_at"] = static_cast<double>(summary.start) / 1e6;
    object["duration"] = static_cast<double>(summary.duration()) / 1e6;
    object["status"] = status_name(summary.status);
    object["spans"] = summary.spans;
    object["input_tokens"] = summary.tokens ? Json(summary.tokens->input) : Json();
    object["output_tokens"] = summary.tokens ? Json(summary.tokens->output) : Json();
    object["cache_read_tokens"] = summary.tokens ? Json(summary.tokens->cache_read) : Json();
    object["cache_write_tokens"] = summary.tokens ? Json(summary.tokens->cache_write) : Json();
    object["cost"] = summary.cost ? Json(*summary.cost) : Json();
    object["session"] = summary.session.empty() ? Json() : Json(text(summary.session));
    JsonObject metadata;
    for (const auto& [key, value] : summary.metadata) metadata[text(key)] = text(value);
    object["metadata"] = std::move(metadata);
    object["input"] = summary.input.empty() ? Json() : Json(text(summary.input));
    JsonArray files;
    for (const std::filesystem::path& path : listed.files)
        files.push_back(Json(text(path.string())));
    object["files"] = std::move(files);
    return object;
}

}  // namespace

TraceListing list_traces(const std::filesystem::path& directory, const TraceFilter& filter,
                         std::size_t limit, const std::function<void(const TraceTree&)>& see) {
    TraceListing listing;
    std::string day;
    std::size_t undated = 0;
    for (const TraceFiles& files : list_trace_files(directory)) {
        if (files.day != day) {
            // Files without a day come first; after them every file is of an older day than those before it.
            if (day.empty()) undated = listing.traces.size();
            if (limit > 0 && listing.traces.size() - undated >= limit) break;
            day = files.day;
            const auto end = bub::detail::parse_date(day, true);
            if (filter.since && end && *end < *filter.since) break;
        }
        read_files(listing, files, filter, see);
    }
    std::sort(listing.traces.begin(), listing.traces.end(),
              [](const ListedTrace& a, const ListedTrace& b) {
                  return a.summary.start != b.summary.start ? a.summary.start > b.summary.start
                                                            : a.summary.id < b.summary.id;
              });
    if (limit > 0 && listing.traces.size() > limit) listing.traces.resize(limit);
    return listing;
}

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

}  // namespace cubepi::app
