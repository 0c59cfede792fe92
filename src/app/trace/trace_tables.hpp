#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <cubepi/core/json.hpp>

#include "../terminal/terminal_stream.hpp"
#include "trace_text.hpp"
#include "traces.hpp"

// The tables of `cubepi trace ls` and `cubepi trace stats`.

namespace cubepi::app {

/// Prints one line for each trace: a table at a terminal, columns separated by tabs on a pipe. `metadata`: the keys of
/// additional columns.
void print_list(const TraceListing& listing, const std::vector<std::string>& metadata,
                const TraceScreen& screen, TerminalStream& out);

/// Returns the same as JSON: an array of objects. All metadata is included.
Json list_json(const TraceListing& listing);

/// The calls of one model or of one tool.
struct CallStats {
    std::string name = {};  ///< empty: not recorded
    std::size_t calls = 0;
    std::size_t errors = 0;
    std::size_t aborted = 0;
    std::vector<std::int64_t> durations = {};  ///< microseconds, sorted
    std::optional<TokenCounts> tokens = {};
    std::optional<double> cost = {};  ///< USD
    std::size_t without_cost = 0;     ///< calls with tokens whose cost is unknown

    std::int64_t total_duration() const noexcept;
};

/// Returns the percentile `percent` of sorted values, linearly interpolated between two of them; 0 if there are none.
std::int64_t percentile(const std::vector<std::int64_t>& sorted, double percent);

/// Counts the calls of models and tools of any number of traces. Each call counts once: the request of an MCP client is a part
/// of a tool call, the sums of runs repeat those of their calls, and a span may occur in several files.
class TraceStats {
public:
    /// Of the filter only the model and the tool are used, which restrict the calls.
    explicit TraceStats(const TraceFilter& filter) : filter_(filter) {}

    void add(const Trace& trace);

    std::size_t traces() const noexcept { return traces_; }
    std::size_t traces_of(TraceStatus status) const;
    std::int64_t start() const noexcept { return start_; }
    std::int64_t end() const noexcept { return end_; }
    /// Sums over the traces, as `trace ls` shows them.
    const std::optional<TokenCounts>& tokens() const noexcept { return tokens_; }
    const std::optional<double>& cost() const noexcept { return cost_; }
    /// The most frequent first.
    std::vector<CallStats> models() const { return sorted(models_); }
    std::vector<CallStats> tools() const { return sorted(tools_); }

private:
    using ByName = std::map<std::string, CallStats>;
    static std::vector<CallStats> sorted(const ByName& by_name);
    void add_new(const Trace& trace);

    const TraceFilter& filter_;
    ByName models_;
    ByName tools_;
    std::size_t traces_ = 0;
    std::map<TraceStatus, std::size_t> statuses_;
    std::int64_t start_ = 0;
    std::int64_t end_ = 0;
    std::optional<TokenCounts> tokens_;
    std::optional<double> cost_;
    std::unordered_set<std::size_t> seen_;  // hashes of the ids of traces and spans
};

/// The tables that are shown.
struct StatsTables {
    bool models = true;
    bool tools = true;
};

/// Prints a heading and a table for models and for tools.
void print_stats(const TraceStats& stats, StatsTables tables, const TraceScreen& screen,
                 TerminalStream& out);

/// Returns the same as JSON. Durations are in seconds, costs in USD; what was not recorded is null.
Json stats_json(const TraceStats& stats, StatsTables tables);

}  // namespace cubepi::app
