#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace_set.hpp"

namespace cubepi::app {

/// A span at its place in the tree.
struct TreeRow {
    std::size_t span = 0;  ///< index into Trace::spans
    std::size_t depth = 0;
    bool last = false;    ///< the last child of its parent
    bool orphan = false;  ///< its parent is not in the file
    bool cycle = false;   ///< its parent is one of its descendants
};

/// The spans of a trace as a tree. Parents are found by the span ids of the same trace. A span whose parent is missing is a
/// root, and so is the first span of a cycle; every span occurs once.
class TraceTree {
public:
    /// `trace` must outlive the object. Linear in the number of spans, except for sorting siblings by their start.
    explicit TraceTree(const Trace& trace);

    /// In the order of a depth-first walk.
    const std::vector<TreeRow>& rows() const noexcept { return rows_; }
    const TraceSpan& span(const TreeRow& row) const { return trace_.spans[row.span]; }
    const Trace& trace() const noexcept { return trace_; }
    /// The row of the parent; empty for a root.
    std::optional<std::size_t> parent(std::size_t row) const;

private:
    void link();
    void walk(std::size_t root, bool cycle);

    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    const Trace& trace_;
    std::vector<std::size_t> parents_;      // of spans, as indices of spans
    std::vector<std::size_t> children_;     // of all spans, in the order of their parents
    std::vector<std::size_t> first_child_;  // of spans, as indices into children_; and the end
    std::vector<std::size_t> roots_;
    std::vector<std::size_t> row_of_;  // of spans
    std::vector<TreeRow> rows_;
};

enum class TraceStatus : std::uint8_t { ok, error, aborted, suspended, incomplete };

/// "ok", "error", "aborted", "suspended", "incomplete".
const char* status_name(TraceStatus status) noexcept;

/// The facts of a whole trace.
struct TraceSummary {
    std::string id = {};
    std::size_t spans = 0;
    TraceStatus status = TraceStatus::ok;
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::optional<TokenCounts> tokens = {};
    std::optional<double> cost = {};
    std::string session = {};
    std::string input = {};  ///< what the user asked first; empty if content was not recorded
    std::vector<std::pair<std::string, std::string>> metadata = {};

    std::int64_t duration() const noexcept { return end - start; }
};

/// `error` if any span failed; else `aborted`, `suspended`, or `incomplete` while the span of the run itself is missing.
TraceSummary summarize(const TraceTree& tree);

}  // namespace cubepi::app
