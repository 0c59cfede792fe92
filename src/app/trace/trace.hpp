#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace cubepi::app {

/// The arguments of `cubepi trace`.
struct TraceArguments {
    enum class What { list, view, stats, convert, follow };
    What what = What::list;
    std::string directory = {};  ///< of the traces; empty: $CUBEPI_TRACE, or ./cubepi-traces
    std::string run = {};  ///< a trace's id, the beginning of one, or a file; empty: the newest
    std::vector<std::string> runs =
        {};               ///< stats: the same for several traces; empty: all of the directory
    std::string by = {};  ///< stats: "model" or "tool"; empty: both
    std::string session = {};
    std::string model = {};
    std::string tool = {};
    bool error = false;
    std::string min_duration = {};
    std::vector<std::string> metadata = {};  ///< KEY=VALUE
    std::vector<std::string> metadata_columns = {};
    std::string since = {};  ///< a local date or time
    std::size_t limit = 20;  ///< 0: all
    bool json = false;
    bool verbose = false;
    bool content = false;
    bool html = false;  ///< view: as a page
    std::string output =
        {};  ///< view --html: the file; empty: standard output, or a file named after the trace
    bool force = false;           ///< replace the file
    std::string span = {};        ///< convert: the beginning of the id of a span
    std::size_t call = 0;         ///< convert: the call of a model, from 1; 0: the last
    std::string form = "curl";    ///< convert: the only form
    std::string idle_limit = {};  ///< follow: ends after so long without a new span; empty: never
};

struct TraceScreen;

/// Shows traces; never changes them. Returns the exit status. Throws Error for wrong arguments and for a directory or file
/// that cannot be read.
int show_traces(const TraceArguments& arguments, const TraceScreen& screen, std::ostream& out,
                std::ostream& err);

/// The directory of traces: `given`, else $CUBEPI_TRACE, else ./cubepi-traces.
std::string trace_directory(const std::string& given);

}  // namespace cubepi::app
