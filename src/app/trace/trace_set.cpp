#include "trace_set.hpp"

#include <algorithm>
#include <limits>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <cubepi/core/error.hpp>

#include "../terminal/terminal_text.hpp"
#include "span_index.hpp"

namespace cubepi::app {

namespace {

/// Sorts spans into traces; a span that occurs again replaces the earlier one.
class Sorter {
public:
    explicit Sorter(TraceSet& set) : set_(set) {}

    void add(TraceSpan&& span) {
        const std::size_t place = place_of(span.trace_id);
        std::vector<TraceSpan>& spans = set_.traces[place].spans;
        const std::size_t earlier = spans_[place].add(spans, span.span_id);
        if (earlier == spans.size()) {
            spans.push_back(std::move(span));
        } else {
            spans[earlier] = std::move(span);
            ++set_.problems.repeated;
        }
    }

private:
    std::size_t place_of(const std::string& id) {
        // Most spans have the trace of the span before.
        if (last_ < set_.traces.size() && set_.traces[last_].id == id) return last_;
        const auto [entry, is_new] = traces_.try_emplace(id, set_.traces.size());
        if (is_new) {
            set_.traces.push_back(Trace{id, {}});
            spans_.emplace_back();
        }
        last_ = entry->second;
        return last_;
    }

    TraceSet& set_;
    std::unordered_map<std::string, std::size_t> traces_;
    std::vector<SpanIndex> spans_;
    std::size_t last_ = 0;
};

std::int64_t start_of(const Trace& trace) {
    std::int64_t start = std::numeric_limits<std::int64_t>::max();
    for (const TraceSpan& span : trace.spans) start = std::min(start, span.start);
    return start;
}

constexpr std::size_t most_candidates = 8;

[[noreturn]] void report_ambiguous(const std::string& kind, const std::string& name,
                                   const std::vector<std::string>& ids) {
    std::string text = "several " + kind + " begin with '" + printable(name) + "':";
    for (std::size_t i = 0; i < std::min(ids.size(), most_candidates); ++i)
        text += "\n  " + printable(ids[i]);
    if (ids.size() > most_candidates)
        text += "\n  and " + std::to_string(ids.size() - most_candidates) + " more";
    throw Error(ErrorCode::invalid_argument, text);
}

/// Returns the ids of the traces in files whose names are not ids.
TraceSet search_inside(const std::vector<TraceFiles>& all, const std::string& prefix) {
    std::vector<std::filesystem::path> paths;
    for (const TraceFiles& files : all) {
        if (!is_trace_id(files.name))
            paths.insert(paths.end(), files.paths.begin(), files.paths.end());
    }
    TraceSet found = read_traces(std::move(paths));
    std::erase_if(found.traces,
                  [&prefix](const Trace& trace) { return !trace.id.starts_with(prefix); });
    return found;
}

}  // namespace

JsonObject TraceSet::line_of(const TraceSpan& span) const {
    if (span.place.file >= files.size()) return {};
    return read_line(files[span.place.file], span.place);
}

TraceSet read_traces(std::vector<std::filesystem::path> files) {
    TraceSet set;
    set.files = std::move(files);
    Sorter sorter(set);
    for (std::size_t i = 0; i < set.files.size(); ++i) {
        read_spans(
            set.files[i], static_cast<std::uint32_t>(i),
            [&sorter](TraceSpan&& span) { sorter.add(std::move(span)); }, set.problems);
    }
    std::vector<std::pair<std::int64_t, std::size_t>> order;
    for (std::size_t i = 0; i < set.traces.size(); ++i)
        order.emplace_back(start_of(set.traces[i]), i);
    std::sort(order.begin(), order.end());
    std::vector<Trace> sorted;
    sorted.reserve(order.size());
    for (const auto& [start, i] : order) sorted.push_back(std::move(set.traces[i]));
    set.traces = std::move(sorted);
    return set;
}

TraceSet find_trace(const std::filesystem::path& directory, const std::string& name) {
    std::error_code failed;
    if (name.ends_with(".jsonl") && std::filesystem::exists(name, failed))
        return read_traces({name});
    std::string id = name;
    if (id.starts_with("0x")) id.erase(0, 2);
    const std::vector<TraceFiles> all = list_trace_files(directory);
    std::vector<const TraceFiles*> found;
    for (const TraceFiles& files : all) {
        if (files.name == id) return read_traces(files.paths);
        if (files.name.starts_with(id)) found.push_back(&files);
    }
    if (found.size() == 1) return read_traces(found.front()->paths);
    std::vector<std::string> ids;
    for (const TraceFiles* files : found) ids.push_back(files->name);
    if (!found.empty()) report_ambiguous("traces", name, ids);
    TraceSet inside = search_inside(all, id);
    if (inside.traces.size() == 1) return inside;
    for (const Trace& trace : inside.traces) ids.push_back(trace.id);
    if (!ids.empty()) report_ambiguous("traces", name, ids);
    throw Error(ErrorCode::not_found, "there is no trace '" + printable(name) + "' in " +
                                          printable(directory.string()) +
                                          ".\n  To list the traces: cubepi trace ls");
}

TraceSet find_span(const std::filesystem::path& directory, const std::string& prefix) {
    TraceSet found;
    std::vector<std::string> ids;
    for (const TraceFiles& files : list_trace_files(directory)) {
        TraceSet set = read_traces(files.paths);
        for (Trace& trace : set.traces) {
            const std::size_t before = ids.size();
            for (const TraceSpan& span : trace.spans) {
                if (span.span_id.starts_with(prefix)) ids.push_back(span.span_id);
            }
            if (ids.size() == before) continue;
            found.files = set.files;
            found.traces.clear();
            found.traces.push_back(std::move(trace));
        }
    }
    if (ids.empty())
        throw Error(ErrorCode::not_found,
                    "no trace and no span in " + printable(directory.string()) + " begins with '" +
                        printable(prefix) + "'.\n  To list the traces: cubepi trace ls");
    if (ids.size() > 1) report_ambiguous("spans", prefix, ids);
    return found;
}

}  // namespace cubepi::app
