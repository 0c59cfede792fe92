#include "traces.hpp"

#include <algorithm>
#include <system_error>
#include <tuple>
#include <unordered_map>

#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>

#include "../saved_sessions.hpp"
#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

/// The index of each span's parent, or `none`. Cuts cycles at their first span.
std::vector<std::size_t> link_parents(std::vector<TraceSpan>& spans) {
    std::unordered_map<std::string, std::size_t> by_id;
    for (std::size_t i = 0; i < spans.size(); ++i) by_id.emplace(spans[i].span_id, i);
    std::vector<std::size_t> parents(spans.size(), none);
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const auto parent = by_id.find(spans[i].parent_id);
        spans[i].cycle = spans[i].cost_below = false;
        spans[i].orphan = parent == by_id.end() && !spans[i].parent_id.empty();
        if (parent != by_id.end()) parents[i] = parent->second;
    }
    std::vector<std::size_t> seen(spans.size(), none);  // by span: the first one below it
    for (std::size_t i = 0; i < spans.size(); ++i) {
        std::size_t at = i;
        for (; at != none && seen[at] == none; at = parents[at]) seen[at] = i;
        if (at == none || seen[at] != i) continue;
        spans[at].cycle = true;
        parents[at] = none;
    }
    return parents;
}

/// Puts the spans of a trace in the order of a depth-first walk of its tree.
std::vector<TraceSpan> in_tree_order(std::vector<TraceSpan> spans) {
    std::sort(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) {
        return std::tie(a.start, a.place.file, a.place.offset) <
               std::tie(b.start, b.place.file, b.place.offset);
    });
    const std::vector<std::size_t> parents = link_parents(spans);
    std::vector<std::vector<std::size_t>> children(spans.size());
    std::vector<std::pair<std::size_t, std::optional<std::size_t>>> open;  // and the parent's place
    for (std::size_t i = spans.size(); i-- > 0;) {
        if (parents[i] == none) {
            open.emplace_back(i, std::nullopt);
        } else {
            children[parents[i]].push_back(i);
        }
    }
    std::vector<TraceSpan> placed;
    placed.reserve(spans.size());
    while (!open.empty()) {
        const auto [next, parent] = open.back();
        open.pop_back();
        TraceSpan& span = placed.emplace_back(std::move(spans[next]));
        span.parent = parent;
        span.depth = parent ? placed[*parent].depth + 1 : 0;
        for (const std::size_t child : children[next]) open.emplace_back(child, placed.size() - 1);
    }
    return placed;
}

TraceStatus status_of(const TraceSpan& span) {
    if (span.error) return TraceStatus::error;
    if (span.aborted) return TraceStatus::aborted;
    if (span.suspended) return TraceStatus::suspended;
    // A part of a run without its parent: the run has not ended yet, or was killed.
    const bool is_part =
        span.operation != SpanOperation::agent && span.operation != SpanOperation::other;
    return span.orphan && is_part ? TraceStatus::incomplete : TraceStatus::ok;
}

/// Also marks the spans whose cost is a sum of others.
TraceSummary summarize(std::vector<TraceSpan>& spans) {
    TraceSummary summary;
    if (spans.empty()) return summary;
    summary.id = spans.front().trace_id;
    summary.spans = spans.size();
    summary.start = spans.front().start;
    const TraceSpan* first = nullptr;  // of those with an input
    for (const TraceSpan& span : spans) {
        summary.status = std::max(summary.status, status_of(span));
        summary.start = std::min(summary.start, span.start);
        summary.end = std::max(summary.end, span.end);
        if (summary.session.empty()) summary.session = span.session;
        if (summary.metadata.empty()) summary.metadata = span.metadata;
        if (!span.input.empty() && (!first || span.start < first->start)) first = &span;
    }
    if (first) summary.input = first->input;
    // Parents repeat the sums of their children: only the lowest spans with a value count.
    std::vector<bool> tokens_below(spans.size());
    for (std::size_t i = spans.size(); i-- > 0;) {
        const TraceSpan& span = spans[i];
        if (!tokens_below[i]) add_value(summary.tokens, span.tokens);
        if (!span.cost_below) add_value(summary.cost, span.cost);
        if (!span.parent) continue;
        if (span.tokens || tokens_below[i]) tokens_below[*span.parent] = true;
        if (span.cost || span.cost_below) spans[*span.parent].cost_below = true;
    }
    return summary;
}

[[noreturn]] void report_ambiguous(const std::string& kind, const std::string& name,
                                   const std::vector<std::string>& ids) {
    constexpr std::size_t most_candidates = 8;
    std::string text = "several " + kind + " begin with '" + printable(name) + "':";
    for (std::size_t i = 0; i < std::min(ids.size(), most_candidates); ++i)
        text += "\n  " + printable(ids[i]);
    if (ids.size() > most_candidates)
        text += "\n  and " + std::to_string(ids.size() - most_candidates) + " more";
    throw Error(ErrorCode::invalid_argument, text);
}

[[noreturn]] void report_missing(const std::string& what, const std::filesystem::path& directory,
                                 const std::string& name) {
    throw Error(ErrorCode::not_found, "no " + what + " in " + printable(directory.string()) +
                                          " begins with '" + printable(name) +
                                          "'.\n  To list the traces: cubepi trace ls");
}

template <class Has>
bool any_span(const Trace& trace, Has has) {
    return std::any_of(trace.spans.begin(), trace.spans.end(), has);
}

}  // namespace

const char* status_name(TraceStatus status) noexcept {
    switch (status) {
        case TraceStatus::ok: return "ok";
        case TraceStatus::incomplete: return "incomplete";
        case TraceStatus::suspended: return "suspended";
        case TraceStatus::aborted: return "aborted";
        case TraceStatus::error: return "error";
    }
    return "";
}

Trace make_trace(std::vector<TraceSpan> spans, std::size_t& repeated) {
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const std::size_t place = places.emplace(spans[i].span_id, places.size()).first->second;
        if (place != i) spans[place] = std::move(spans[i]);
    }
    repeated += spans.size() - places.size();
    spans.resize(places.size());
    Trace trace;
    trace.spans = in_tree_order(std::move(spans));
    trace.summary = summarize(trace.spans);
    return trace;
}

bool TraceFilter::calls_model(const TraceSpan& span) const {
    return !model.empty() && span.operation == SpanOperation::chat && span.model == model;
}

bool TraceFilter::calls_tool(const TraceSpan& span) const {
    return !tool.empty() && span.operation == SpanOperation::tool && span.tool == tool;
}

bool TraceFilter::accepts_call(const TraceSpan& span) const {
    return (model.empty() && tool.empty()) || calls_model(span) || calls_tool(span);
}

bool TraceFilter::accepts_span(const TraceSpan& span) const {
    return accepts_call(span) && (!error || span.error) &&
           (!min_duration || span.duration() >= *min_duration);
}

bool TraceFilter::accepts_trace(const Trace& trace) const {
    if (since && trace.summary.start < *since) return false;
    const auto is_of_session = [this](const TraceSpan& span) {
        return span.session == session || span.thread == session ||
               span.session == session_id_of(session);
    };
    if (!session.empty() && !any_span(trace, is_of_session)) return false;
    return std::all_of(metadata.begin(), metadata.end(), [&trace](const auto& wanted) {
        return any_span(trace, [&wanted](const TraceSpan& span) {
            return std::find(span.metadata.begin(), span.metadata.end(), wanted) !=
                   span.metadata.end();
        });
    });
}

bool TraceFilter::accepts(const Trace& trace) const {
    const auto of_model = [this](const TraceSpan& span) { return calls_model(span); };
    const auto of_tool = [this](const TraceSpan& span) { return calls_tool(span); };
    return accepts_trace(trace) && (model.empty() || any_span(trace, of_model)) &&
           (tool.empty() || any_span(trace, of_tool)) &&
           (!error || trace.summary.status == TraceStatus::error) &&
           (!min_duration || trace.summary.duration() >= *min_duration);
}

JsonObject TraceSet::line_of(const TraceSpan& span) const {
    if (span.place.file >= files.size()) return {};
    return read_line(files[span.place.file], span.place);
}

TraceSet read_traces(std::vector<std::filesystem::path> files) {
    TraceSet set;
    set.files = std::move(files);
    std::unordered_map<std::string, std::size_t> places;
    std::vector<std::vector<TraceSpan>> by_trace;
    for (std::size_t i = 0; i < set.files.size(); ++i) {
        const auto add = [&](TraceSpan&& span) {
            const auto [place, is_new] = places.emplace(span.trace_id, by_trace.size());
            if (is_new) by_trace.emplace_back();
            by_trace[place->second].push_back(std::move(span));
        };
        read_spans(set.files[i], static_cast<std::uint32_t>(i), add, set.problems);
    }
    for (std::vector<TraceSpan>& spans : by_trace)
        set.traces.push_back(make_trace(std::move(spans), set.problems.repeated));
    std::sort(set.traces.begin(), set.traces.end(), [](const Trace& a, const Trace& b) {
        return std::tie(a.summary.start, a.summary.id) < std::tie(b.summary.start, b.summary.id);
    });
    return set;
}

TraceSet find_trace(const std::filesystem::path& directory, const std::string& name) {
    std::error_code failed;
    if (name.ends_with(".jsonl") && std::filesystem::exists(name, failed))
        return read_traces({name});
    const std::string id(without_0x(name));
    std::vector<std::string> ids;
    std::vector<std::filesystem::path> found;
    std::vector<std::filesystem::path> others;  // files of several traces
    for (const TraceFiles& files : list_trace_files(directory)) {
        if (files.name == id) return read_traces(files.paths);
        if (files.name.starts_with(id)) {
            ids.push_back(files.name);
            found = files.paths;
        } else if (!is_trace_id(files.name)) {
            others.insert(others.end(), files.paths.begin(), files.paths.end());
        }
    }
    if (ids.size() == 1) return read_traces(std::move(found));
    TraceSet set;
    if (ids.empty()) {
        set = read_traces(std::move(others));
        std::erase_if(set.traces,
                      [&id](const Trace& one) { return !one.summary.id.starts_with(id); });
        for (const Trace& trace : set.traces) ids.push_back(trace.summary.id);
    }
    if (ids.empty()) report_missing("trace", directory, name);
    if (ids.size() > 1) report_ambiguous("traces", name, ids);
    return set;
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
            found.traces.assign(1, std::move(trace));
        }
    }
    if (ids.empty()) report_missing("trace and no span", directory, prefix);
    if (ids.size() > 1) report_ambiguous("spans", prefix, ids);
    return found;
}

TraceListing list_traces(const std::filesystem::path& directory, const TraceFilter& filter,
                         std::size_t limit, const std::function<void(const Trace&)>& see) {
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
        TraceSet set;
        try {
            set = read_traces(files.paths);
        } catch (const Error& error) {
            // A file that cannot be read does not hide the others.
            listing.unreadable.emplace_back(error.what());
        }
        listing.problems += set.problems;
        for (const Trace& trace : set.traces) {
            if (!filter.accepts(trace)) continue;
            listing.traces.push_back(ListedTrace{trace.summary, files.paths});
            if (see) see(trace);
        }
    }
    std::sort(listing.traces.begin(), listing.traces.end(),
              [](const ListedTrace& a, const ListedTrace& b) {
                  return a.summary.start != b.summary.start ? a.summary.start > b.summary.start
                                                            : a.summary.id < b.summary.id;
              });
    if (limit > 0 && listing.traces.size() > limit) listing.traces.resize(limit);
    return listing;
}

}  // namespace cubepi::app
