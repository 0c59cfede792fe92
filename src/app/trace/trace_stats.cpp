#include "trace_stats.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace cubepi::app {

namespace {

template <class Value>
void add_value(std::optional<Value>& sum, const std::optional<Value>& value) {
    if (!value) return;
    if (!sum) sum.emplace();
    *sum += *value;
}

/// By row: a span below it has a cost, which the cost of the row includes.
std::vector<bool> costs_below(const TraceTree& tree) {
    std::vector<bool> below(tree.rows().size(), false);
    for (std::size_t i = below.size(); i-- > 0;) {
        const auto parent = tree.parent(i);
        if (parent && (below[i] || tree.span(tree.rows()[i]).cost)) below[*parent] = true;
    }
    return below;
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

}  // namespace

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

std::size_t TraceStats::count_repeated(const Trace& trace) {
    repeated_.assign(trace.spans.size(), false);
    std::size_t count = 0;
    for (std::size_t i = 0; i < trace.spans.size(); ++i) {
        std::string key = trace.id;
        key += '/';
        key += trace.spans[i].span_id;
        repeated_[i] = !seen_.insert(std::hash<std::string>()(key)).second;
        if (repeated_[i]) ++count;
    }
    return count;
}

void TraceStats::add(const TraceTree& tree) {
    const Trace& trace = tree.trace();
    const std::size_t repeated = count_repeated(trace);
    if (repeated == trace.spans.size()) return;
    if (repeated == 0) {
        add_new(tree);
        return;
    }
    Trace rest;
    rest.id = trace.id;
    for (std::size_t i = 0; i < trace.spans.size(); ++i) {
        if (!repeated_[i]) rest.spans.push_back(trace.spans[i]);
    }
    add_new(TraceTree(rest));
}

void TraceStats::add_new(const TraceTree& tree) {
    const TraceSummary summary = summarize(tree);
    start_ = traces_ == 0 ? summary.start : std::min(start_, summary.start);
    end_ = std::max(end_, summary.end);
    ++traces_;
    ++statuses_[summary.status];
    add_value(tokens_, summary.tokens);
    add_value(cost_, summary.cost);
    const std::vector<bool> below = costs_below(tree);
    for (std::size_t i = 0; i < tree.rows().size(); ++i) {
        const TraceSpan& span = tree.span(tree.rows()[i]);
        if (!filter_.accepts_call(span)) continue;
        if (span.operation == SpanOperation::chat) add_call(models_[span.model], span, true);
        if (span.operation == SpanOperation::tool) add_call(tools_[span.tool], span, !below[i]);
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

}  // namespace cubepi::app
