#include "trace.hpp"

#include <filesystem>
#include <iostream>

#include <bub/tape/search/dates.hpp>
#include <cubepi/core/error.hpp>

#include "../commands.hpp"
#include "../config/config_file.hpp"
#include "../config/paths.hpp"
#include "../exit_code.hpp"
#include "../local_time.hpp"
#include "../terminal/safe_json.hpp"
#include "../terminal/terminal_stream.hpp"
#include "trace_filter.hpp"
#include "trace_list.hpp"
#include "trace_set.hpp"
#include "trace_stats.hpp"
#include "trace_text.hpp"
#include "trace_tree.hpp"
#include "trace_view.hpp"

namespace cubepi::app {

namespace {

TraceFilter filter_of(const TraceArguments& arguments) {
    TraceFilter filter;
    filter.session = arguments.session;
    filter.model = arguments.model;
    filter.tool = arguments.tool;
    filter.error = arguments.error;
    if (!arguments.min_duration.empty())
        filter.min_duration = parse_duration("--min-duration", arguments.min_duration);
    for (const std::string& one : arguments.metadata)
        filter.metadata.push_back(parse_metadata(one));
    if (!arguments.since.empty())
        filter.since = bub::detail::parse_date(utc_time("--since", arguments.since, false));
    return filter;
}

/// One use of `cubepi trace`.
class Show {
public:
    Show(const TraceArguments& arguments, const TraceScreen& screen, std::ostream& out,
         std::ostream& err)
        : arguments_(arguments),
          screen_(screen),
          directory_(trace_directory(arguments.directory)),
          filter_(filter_of(arguments)),
          data_(out),
          out_(out),
          err_(err) {}

    int perform() {
        switch (arguments_.what) {
            case TraceArguments::What::list: return list();
            case TraceArguments::What::view: return view();
            case TraceArguments::What::stats: return statistics();
        }
        return exit_usage;
    }

private:
    int list() {
        const TraceListing listing = list_traces(directory_, filter_, arguments_.limit);
        report(listing);
        if (arguments_.json) {
            data_output(data_, safe_json(list_json(listing)) + "\n");
        } else {
            print_list(listing, arguments_.metadata_columns, screen_, out_);
        }
        if (!listing.unreadable.empty()) return exit_failed;
        if (!listing.traces.empty()) return exit_ok;
        if (!arguments_.json) none_found();
        return exit_failed;
    }

    int view() {
        const TraceSet set = chosen();
        report(set.problems);
        ViewOptions options;
        options.verbose = arguments_.verbose;
        options.content = arguments_.content;
        options.filter = filter_;
        bool first = true;
        for (const Trace& trace : set.traces) {
            const TraceTree tree(trace);
            if (!filter_.accepts_trace(tree)) continue;
            if (!first) out_ << "\n";
            first = false;
            print_trace(set, tree, options, screen_, out_);
        }
        if (!first) return exit_ok;
        none_found();
        return exit_failed;
    }

    int statistics() {
        TraceStats stats(filter_);
        const auto add = [&stats](const TraceTree& tree) { stats.add(tree); };
        bool complete = true;
        if (arguments_.runs.empty()) {
            const TraceListing listing = list_traces(directory_, filter_, 0, add);
            report(listing);
            complete = listing.unreadable.empty();
        }
        for (const std::string& run : arguments_.runs) {
            const TraceSet set = find_trace(directory_, run);
            report(set.problems);
            for (const Trace& trace : set.traces) {
                const TraceTree tree(trace);
                if (filter_.accepts(tree)) stats.add(tree);
            }
        }
        const StatsTables tables{arguments_.by != "tool", arguments_.by != "model"};
        if (arguments_.json) {
            data_output(data_, safe_json(stats_json(stats, tables)) + "\n");
        } else if (stats.traces() > 0) {
            print_stats(stats, tables, screen_, out_);
        } else {
            none_found();
        }
        return complete && stats.traces() > 0 ? exit_ok : exit_failed;
    }

    /// The trace that the user names, or the newest that the filter accepts.
    TraceSet chosen() {
        if (!arguments_.run.empty()) return find_trace(directory_, arguments_.run);
        const TraceListing listing = list_traces(directory_, filter_, 1);
        report(listing);
        if (listing.traces.empty()) return {};
        TraceSet set = read_traces(listing.traces.front().files);
        std::erase_if(set.traces, [&listing](const Trace& trace) {
            return trace.id != listing.traces.front().summary.id;
        });
        return set;
    }

    void none_found() {
        const std::string& run =
            arguments_.runs.size() == 1 ? arguments_.runs.front() : arguments_.run;
        err_ << "No traces "
             << (run.empty() ? TerminalView("match in ") : TerminalView("match of those in "))
             << for_terminal(run.empty() ? directory_.string() : run) << ".\n";
    }

    void report(const LineProblems& problems) {
        const std::string text = describe(problems);
        if (!text.empty()) err_ << "cubepi: " << for_terminal(text) << "\n";
    }
    void report(const TraceListing& listing) {
        for (const std::string& problem : listing.unreadable)
            err_ << "cubepi: " << for_terminal(problem) << "\n";
        report(listing.problems);
    }

    const TraceArguments& arguments_;
    const TraceScreen& screen_;
    const std::filesystem::path directory_;
    const TraceFilter filter_;
    std::ostream& data_;
    TerminalStream out_;
    TerminalStream err_;
};

}  // namespace

std::string trace_directory(const std::string& given) {
    if (!given.empty()) return given;
    const std::filesystem::path configured =
        trace_settings(read_config(config_path()).trace).directory;
    return configured.empty() ? "cubepi-traces" : configured.string();
}

int show_traces(const TraceArguments& arguments, const TraceScreen& screen, std::ostream& out,
                std::ostream& err) {
    return Show(arguments, screen, out, err).perform();
}

int trace_command(const CommandLine& line) {
    const TraceScreen screen = TraceScreen::standard();
    return show_traces(line.trace, screen, std::cout, std::cerr);
}

}  // namespace cubepi::app
