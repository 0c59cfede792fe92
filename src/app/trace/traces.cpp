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

/// Puts the spans of a trace in the order of its tree.
class TreeBuilder {
public:
    explicit TreeBuilder(std::vector<TraceSpan> spans) : spans_(std::move(spans)) {}

    std::vector<TraceSpan> build() {
        link();
        places_.assign(spans_.size(), none);
        for (const std::size_t span : by_start_) {
            if (parents_[span] == none) walk(span, false);
        }
        // Spans that no root reaches are in a cycle, or below one: starts at a span of the cycle itself.
        std::vector<bool> seen(spans_.size(), false);
        for (std::size_t at : by_start_) {
            if (places_[at] != none) continue;
            while (!seen[at]) {
                seen[at] = true;
                at = parents_[at];
            }
            if (places_[at] == none) walk(at, true);
        }
        // Swaps each span to its place: a second vector would double the memory.
        for (std::size_t i = 0; i < spans_.size(); ++i) {
            while (places_[i] != i) {
                std::swap(spans_[i], spans_[places_[i]]);
                std::swap(places_[i], places_[places_[i]]);
            }
        }
        return std::move(spans_);
    }

private:
    void link() {
        std::unordered_map<std::string, std::size_t> by_id;
        for (std::size_t i = 0; i < spans_.size(); ++i) {
            by_id.emplace(spans_[i].span_id, i);
            by_start_.push_back(i);
        }
        std::sort(by_start_.begin(), by_start_.end(), [this](std::size_t a, std::size_t b) {
            return spans_[a].start != spans_[b].start ? spans_[a].start < spans_[b].start : a < b;
        });
        parents_.assign(spans_.size(), none);
        children_.resize(spans_.size());
        for (const std::size_t i : by_start_) {
            const auto parent = by_id.find(spans_[i].parent_id);
            if (spans_[i].parent_id.empty() || parent == by_id.end()) continue;
            parents_[i] = parent->second;
            children_[parent->second].push_back(i);
        }
    }

    void walk(std::size_t root, bool cycle) {
        struct Open {
            std::size_t span = 0;
            std::optional<std::size_t> parent = {};  // its place
            std::size_t depth = 0;
            bool last = true;
        };
        std::vector<Open> open = {{root, {}, 0, true}};
        while (!open.empty()) {
            const Open next = open.back();
            open.pop_back();
            if (places_[next.span] != none) continue;  // the end of a cycle
            const std::size_t place = placed_++;
            places_[next.span] = place;
            TraceSpan& span = spans_[next.span];
            span.parent = next.parent;
            span.depth = next.depth;
            span.last = next.last;
            span.cycle = cycle && !next.parent;
            span.orphan = !cycle && !next.parent && !span.parent_id.empty();
            bool last = true;
            const std::vector<std::size_t>& below = children_[next.span];
            for (auto child = below.rbegin(); child != below.rend(); ++child) {
                if (places_[*child] != none) continue;
                open.push_back({*child, place, span.depth + 1, std::exchange(last, false)});
            }
        }
    }

    std::vector<TraceSpan> spans_;
    std::vector<std::size_t> by_start_;
    std::vector<std::size_t> parents_;
    std::vector<std::vector<std::size_t>> children_;  // by their start
    std::vector<std::size_t> places_;                 // of spans in the tree
    std::size_t placed_ = 0;
};

/// A part of a run: if it has no parent in the file, the run has not ended yet, or was killed.
bool belongs_to_run(SpanOperation operation) {
    return operation != SpanOperation::agent && operation != SpanOperation::other;
}

TraceStatus status_of(const std::vector<TraceSpan>& spans) {
    const auto any = [&spans](auto has) { return std::any_of(spans.begin(), spans.end(), has); };
    if (any([](const TraceSpan& span) { return span.error; })) return TraceStatus::error;
    if (any([](const TraceSpan& span) { return span.aborted; })) return TraceStatus::aborted;
    if (any([](const TraceSpan& span) { return span.suspended; })) return TraceStatus::suspended;
    const bool incomplete =
        any([](const TraceSpan& span) { return span.orphan && belongs_to_run(span.operation); });
    return incomplete ? TraceStatus::incomplete : TraceStatus::ok;
}

/// The sum of a value of which parents may repeat the sum of their children: only the lowest spans that have it count.
template <class Value>
std::optional<Value> lowest_sum(const std::vector<TraceSpan>& spans,
                                std::optional<Value> TraceSpan::* value) {
    const std::vector<bool> below = has_below(spans, value);
    std::optional<Value> sum;
    for (std::size_t i = spans.size(); i-- > 0;) {
        if (!below[i]) add_value(sum, spans[i].*value);
    }
    return sum;
}

TraceSummary summarize(const std::vector<TraceSpan>& spans) {
    TraceSummary summary;
    if (!spans.empty()) summary.id = spans.front().trace_id;
    summary.spans = spans.size();
    summary.status = status_of(spans);
    summary.tokens = lowest_sum(spans, &TraceSpan::tokens);
    summary.cost = lowest_sum(spans, &TraceSpan::cost);
    const TraceSpan* first = nullptr;  // of those with an input
    for (const TraceSpan& span : spans) {
        summary.start = summary.start == 0 ? span.start : std::min(summary.start, span.start);
        summary.end = std::max(summary.end, span.end);
        if (summary.session.empty()) summary.session = span.session;
        if (summary.metadata.empty()) summary.metadata = span.metadata;
        if (!span.input.empty() && (!first || span.start < first->start)) first = &span;
    }
    if (first) summary.input = first->input;
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

/// The traces in files whose names are not ids.
TraceSet search_inside(const std::vector<TraceFiles>& all, const std::string& prefix) {
    std::vector<std::filesystem::path> paths;
    for (const TraceFiles& files : all) {
        if (!is_trace_id(files.name))
            paths.insert(paths.end(), files.paths.begin(), files.paths.end());
    }
    TraceSet found = read_traces(std::move(paths));
    std::erase_if(found.traces,
                  [&prefix](const Trace& one) { return !one.summary.id.starts_with(prefix); });
    return found;
}

void add_traces(TraceListing& listing, const TraceFiles& files, const TraceFilter& filter,
                const std::function<void(const Trace&)>& see) {
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
        if (!filter.accepts(trace)) continue;
        listing.traces.push_back(ListedTrace{trace.summary, files.paths});
        if (see) see(trace);
    }
}

}  // namespace

const char* status_name(TraceStatus status) noexcept {
    switch (status) {
        case TraceStatus::ok: return "ok";
        case TraceStatus::error: return "error";
        case TraceStatus::aborted: return "aborted";
        case TraceStatus::suspended: return "suspended";
        case TraceStatus::incomplete: return "incomplete";
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
    trace.spans = TreeBuilder(std::move(spans)).build();
    trace.summary = summarize(trace.spans);
    return trace;
}

bool TraceFilter::selects_spans() const {
    return !model.empty() || !tool.empty() || error || min_duration;
}

bool TraceFilter::accepts_trace(const Trace& trace) const {
    const auto any = [&trace](auto has) {
        return std::any_of(trace.spans.begin(), trace.spans.end(), has);
    };
    if (since && trace.summary.start < *since) return false;
    if (!session.empty() && !any([this](const TraceSpan& span) {
            return span.session == session || span.thread == session ||
                   span.session == session_id_of(session);
        }))
        return false;
    return std::all_of(metadata.begin(), metadata.end(), [&any](const auto& wanted) {
        return any([&wanted](const TraceSpan& span) {
            return std::find(span.metadata.begin(), span.metadata.end(), wanted) !=
                   span.metadata.end();
        });
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

bool TraceFilter::accepts(const Trace& trace) const {
    const auto any = [&trace](auto has) {
        return std::any_of(trace.spans.begin(), trace.spans.end(), has);
    };
    if (!accepts_trace(trace)) return false;
    if (!model.empty() && !any([this](const TraceSpan& span) {
            return span.operation == SpanOperation::chat && span.model == model;
        }))
        return false;
    if (!tool.empty() && !any([this](const TraceSpan& span) {
            return span.operation == SpanOperation::tool && span.tool == tool;
        }))
        return false;
    if (error && !any([](const TraceSpan& span) { return span.error; })) return false;
    return !min_duration || trace.summary.duration() >= *min_duration;
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
    const std::string id = name.starts_with("0x") ? name.substr(2) : name;
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
    for (const Trace& trace : inside.traces) ids.push_back(trace.summary.id);
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
        add_traces(listing, files, filter, see);
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
