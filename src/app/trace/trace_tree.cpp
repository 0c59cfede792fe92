#include "trace_tree.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "span_index.hpp"

namespace cubepi::app {

namespace {

/// The sum of a value over a tree in which parents may repeat the sum of their children: only the lowest spans that have
/// the value count.
template <class Value>
class LowestSum {
public:
    explicit LowestSum(std::size_t rows) : below_(rows, false) {}

    /// Rows are added from the last to the first, so that children precede their parents.
    void add(std::size_t row, std::optional<std::size_t> parent,
             const std::optional<Value>& value) {
        if (value && !below_[row]) {
            if (!sum_) sum_.emplace();
            *sum_ += *value;
        }
        if (parent && (value || below_[row])) below_[*parent] = true;
    }
    const std::optional<Value>& sum() const noexcept { return sum_; }

private:
    std::vector<bool> below_;
    std::optional<Value> sum_;
};

/// Orders indices of spans by their start, and by their lines if they began at the same time.
struct StartsFirst {
    const std::vector<TraceSpan>& spans;
    bool operator()(std::size_t a, std::size_t b) const {
        return spans[a].start != spans[b].start ? spans[a].start < spans[b].start : a < b;
    }
};

/// A part of a run: if it has no parent in the file, the run has not ended yet, or was killed.
bool belongs_to_run(SpanOperation operation) {
    return operation == SpanOperation::turn || operation == SpanOperation::chat ||
           operation == SpanOperation::tool || operation == SpanOperation::mcp;
}

TraceStatus status_of(const TraceTree& tree) {
    bool aborted = false;
    bool suspended = false;
    bool incomplete = false;
    for (const TreeRow& row : tree.rows()) {
        const TraceSpan& span = tree.span(row);
        if (span.error) return TraceStatus::error;
        aborted = aborted || span.aborted;
        suspended = suspended || span.suspended;
        incomplete = incomplete || (row.orphan && belongs_to_run(span.operation));
    }
    if (aborted) return TraceStatus::aborted;
    if (suspended) return TraceStatus::suspended;
    return incomplete ? TraceStatus::incomplete : TraceStatus::ok;
}

void read_runs(TraceSummary& summary, const TraceTree& tree) {
    const TraceSpan* first = nullptr;
    for (const TreeRow& row : tree.rows()) {
        const TraceSpan& span = tree.span(row);
        if (summary.session.empty()) summary.session = span.session;
        if (summary.metadata.empty()) summary.metadata = span.metadata;
        if (span.input.empty()) continue;
        if (!first || span.start < first->start) first = &span;
    }
    if (first) summary.input = first->input;
}

}  // namespace

TraceTree::TraceTree(const Trace& trace) : trace_(trace) {
    link();
    rows_.reserve(trace_.spans.size());
    row_of_.assign(trace_.spans.size(), none);
    for (const std::size_t root : roots_) walk(root, false);
    if (rows_.size() == trace_.spans.size()) return;
    // Spans that no root reaches are in a cycle, or below one.
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < row_of_.size(); ++i) {
        if (row_of_[i] == none) left.push_back(i);
    }
    std::sort(left.begin(), left.end(), StartsFirst{trace_.spans});
    // Starts at a span of the cycle itself rather than at one that hangs below it.
    std::vector<bool> seen(trace_.spans.size(), false);
    for (std::size_t at : left) {
        if (row_of_[at] != none) continue;
        while (!seen[at]) {
            seen[at] = true;
            at = parents_[at];
        }
        if (row_of_[at] == none) walk(at, true);
    }
}

void TraceTree::link() {
    const std::vector<TraceSpan>& spans = trace_.spans;
    const SpanIndex by_id(spans);
    parents_.assign(spans.size(), none);
    first_child_.assign(spans.size() + 1, 0);
    std::vector<std::pair<std::int64_t, std::size_t>> by_start;
    by_start.reserve(spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
        by_start.emplace_back(spans[i].start, i);
        const std::string& parent = spans[i].parent_id;
        const std::size_t found = parent.empty() ? spans.size() : by_id.find(spans, parent);
        if (found == spans.size()) continue;
        parents_[i] = found;
        ++first_child_[found];
    }
    std::sort(by_start.begin(), by_start.end());
    // From the last child of the last span to the first of the first: each place moves from the end of a range to its start.
    std::partial_sum(first_child_.begin(), first_child_.end(), first_child_.begin());
    children_.resize(first_child_.back());
    for (std::size_t n = by_start.size(); n-- > 0;) {
        const std::size_t i = by_start[n].second;
        if (parents_[i] != none) children_[--first_child_[parents_[i]]] = i;
    }
    for (const auto& [start, i] : by_start) {
        if (parents_[i] == none) roots_.push_back(i);
    }
}

void TraceTree::walk(std::size_t root, bool cycle) {
    std::vector<TreeRow> open;
    TreeRow first;
    first.span = root;
    first.last = true;
    first.cycle = cycle;
    first.orphan = !cycle && !trace_.spans[root].parent_id.empty();
    open.push_back(first);
    while (!open.empty()) {
        const TreeRow row = open.back();
        open.pop_back();
        if (row_of_[row.span] != none) continue;  // the end of a cycle
        row_of_[row.span] = rows_.size();
        rows_.push_back(row);
        bool last = true;
        for (std::size_t i = first_child_[row.span + 1]; i-- > first_child_[row.span];) {
            if (row_of_[children_[i]] != none) continue;
            TreeRow child;
            child.span = children_[i];
            child.depth = row.depth + 1;
            child.last = std::exchange(last, false);
            open.push_back(child);
        }
    }
}

std::optional<std::size_t> TraceTree::parent(std::size_t row) const {
    const TreeRow& child = rows_[row];
    if (child.depth == 0) return std::nullopt;
    return row_of_[parents_[child.span]];
}

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

TraceSummary summarize(const TraceTree& tree) {
    TraceSummary summary;
    summary.id = tree.trace().id;
    summary.spans = tree.rows().size();
    summary.status = status_of(tree);
    LowestSum<TokenCounts> tokens(tree.rows().size());
    LowestSum<double> cost(tree.rows().size());
    for (std::size_t i = tree.rows().size(); i-- > 0;) {
        const TraceSpan& span = tree.span(tree.rows()[i]);
        tokens.add(i, tree.parent(i), span.tokens);
        cost.add(i, tree.parent(i), span.cost);
        summary.start = summary.start == 0 ? span.start : std::min(summary.start, span.start);
        summary.end = std::max(summary.end, span.end);
    }
    summary.tokens = tokens.sum();
    summary.cost = cost.sum();
    read_runs(summary, tree);
    return summary;
}

}  // namespace cubepi::app
