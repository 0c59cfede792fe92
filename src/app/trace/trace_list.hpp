#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "../terminal/terminal_stream.hpp"
#include "trace_filter.hpp"
#include "trace_set.hpp"
#include "trace_text.hpp"
#include "trace_tree.hpp"

namespace cubepi::app {

/// A trace of a directory.
struct ListedTrace {
    TraceSummary summary = {};
    std::vector<std::filesystem::path> files = {};
};

struct TraceListing {
    std::vector<ListedTrace> traces = {};      ///< newest first
    std::vector<std::string> unreadable = {};  ///< one message for each file that could not be read
    LineProblems problems = {};
};

/// Returns the newest traces of a directory that the filter accepts. `limit` 0: all. The files of older days are not read
/// when enough traces are found; memory is limited by the largest trace. Calls `see` for each accepted trace, also for those
/// beyond the limit that were read. Throws Error if the directory does not exist.
TraceListing list_traces(const std::filesystem::path& directory, const TraceFilter& filter,
                         std::size_t limit, const std::function<void(const TraceTree&)>& see = {});

/// Prints one line for each trace: a table at a terminal, columns separated by tabs on a pipe. `metadata`: the keys of
/// additional columns.
void print_list(const TraceListing& listing, const std::vector<std::string>& metadata,
                const TraceScreen& screen, TerminalStream& out);

/// Returns the same as JSON: an array of objects. All metadata is included.
Json list_json(const TraceListing& listing);

}  // namespace cubepi::app
