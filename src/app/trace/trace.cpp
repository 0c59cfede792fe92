#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <thread>

#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../config/config_file.hpp"
#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "trace_views.hpp"
#include "traces.hpp"

namespace cubepi::app {

namespace {

/// Parses "500ms", "2s", "1.5s", "3m" or a number of seconds to microseconds. Throws Error(invalid_argument) that names
/// `option`.
std::int64_t parse_duration(const std::string& option, const std::string& text) {
    static constexpr std::array<std::pair<std::string_view, double>, 6> units = {
        {{"", 1e6}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"h", 3600e6}}};
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, failed] = std::from_chars(text.data(), end, number);
    const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    for (const auto& [name, microseconds] : units) {
        const double result = number * microseconds;
        if (failed == std::errc() && unit == name && result >= 0 && result < 1e18)
            return static_cast<std::int64_t>(std::llround(result));
    }
    throw Error(ErrorCode::invalid_argument, option + ": '" + printable(text) +
                                                 "' is not a duration; expected 500ms, 2s, 1.5s, "
                                                 "3m, or a number of seconds");
}

/// Splits "KEY=VALUE". Throws Error(invalid_argument).
std::pair<std::string, std::string> parse_metadata(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw Error(ErrorCode::invalid_argument,
                    "--meta: '" + printable(text) + "' has no key; expected KEY=VALUE");
    return {text.substr(0, equals), text.substr(equals + 1)};
}

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
class TraceCommand {
public:
    TraceCommand(const TraceArguments& arguments, const TraceScreen& screen, std::ostream& out,
                 std::ostream& err)
        : arguments_(arguments),
          screen_(screen),
          filter_(filter_of(arguments)),
          directory_(trace_directory(arguments.directory)),
          data_(out),
          out_(out),
          err_(err) {}

    int perform() {
        switch (arguments_.what) {
            case TraceArguments::What::list: return list();
            case TraceArguments::What::view: return view();
            case TraceArguments::What::stats: return statistics();
            case TraceArguments::What::convert: return convert();
            case TraceArguments::What::follow: return follow();
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
        return arguments_.json ? exit_failed : none_found();
    }

    int view() {
        const TraceSet set = chosen();
        report(set.problems);
        if (arguments_.html) return page(set);
        const ViewOptions options{arguments_.verbose, arguments_.content, filter_};
        bool first = true;
        for (const Trace& trace : set.traces) {
            if (!filter_.accepts_trace(trace)) continue;
            if (!first) out_ << "\n";
            first = false;
            print_trace(set, trace, options, screen_, out_);
        }
        return first ? none_found() : exit_ok;
    }

    /// Writes a page about one trace.
    int page(const TraceSet& set) {
        if (set.traces.empty()) return none_found();
        if (set.traces.size() > 1)
            throw Error(ErrorCode::invalid_argument,
                        "the file has " + std::to_string(set.traces.size()) +
                            " traces; name one of them to write its page");
        const Trace& trace = set.traces.front();
        const std::string text = trace_page(set, trace);
        std::string name = arguments_.output;
        if (name.empty() && screen_.style.terminal) {
            constexpr std::size_t digits = 8;
            name = "trace-" + trace.summary.id.substr(0, digits) + ".html";
        }
        if (name.empty()) {
            data_output(data_, text);
            return exit_ok;
        }
        create_file(name, arguments_.force) << text;
        err_ << "Wrote " << for_terminal(name) << ".\n";
        return exit_ok;
    }

    int statistics() {
        TraceStats stats(filter_, arguments_.by);
        const auto add = [&stats](const Trace& trace) { stats.add(trace); };
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
                if (filter_.accepts(trace)) stats.add(trace);
            }
        }
        if (arguments_.json) data_output(data_, safe_json(stats.json()) + "\n");
        if (stats.empty()) return arguments_.json ? exit_failed : none_found();
        if (!arguments_.json) stats.print(screen_, out_);
        return complete ? exit_ok : exit_failed;
    }

    int convert() {
        const TraceSet set = chosen_call();
        report(set.problems);
        if (set.traces.empty()) return none_found();
        const TraceSpan& span = chosen_of(model_calls(set.traces.front(), span_));
        const JsonObject line = set.line_of(span);
        const JsonObject* attributes = detail::object_member(line, "attributes");
        const CurlCommand command = curl_command(attributes ? *attributes : JsonObject());
        if (!command.note.empty()) err_ << "cubepi: " << for_terminal(command.note) << "\n";
        data_output(data_, command.text);
        return exit_ok;
    }

    /// Prints each span when it has ended, and the tree when the trace has.
    int follow() {
        const std::string& idle_limit = arguments_.idle_limit;
        const std::chrono::microseconds limit(idle_limit.empty()
                                                  ? std::numeric_limits<std::int64_t>::max()
                                                  : parse_duration("--idle-limit", idle_limit));
        const auto interval =
            std::min<std::chrono::microseconds>(std::chrono::milliseconds(200), limit);
        FollowedTrace trace(directory_, arguments_.run);
        std::chrono::microseconds idle(0);
        while (true) {
            const std::vector<TraceSpan> spans = trace.poll();
            for (const TraceSpan& span : spans) {
                if (filter_.accepts_span(span)) print_followed_span(span, screen_, out_);
            }
            out_ << flush_now;
            if (trace.ended()) break;
            idle = spans.empty() ? idle : std::chrono::microseconds(0);
            if (idle >= limit) {
                err_ << "cubepi: no new span for " << for_terminal(idle_limit) << "\n";
                return exit_failed;
            }
            std::this_thread::sleep_for(interval);
            idle += interval;
        }
        out_ << "\n";
        const TraceSet set = read_traces(trace.paths());
        const ViewOptions options{false, false, filter_};
        for (const Trace& one : set.traces) print_trace(set, one, options, screen_, out_);
        return exit_ok;
    }

    /// The trace, or the trace with the span, that the user names.
    TraceSet chosen_call() {
        span_ = without_0x(arguments_.span);
        try {
            return chosen();
        } catch (const Error& error) {
            if (error.code() != ErrorCode::not_found || arguments_.run.empty() || !span_.empty())
                throw;
            span_ = without_0x(arguments_.run);
            return find_span(directory_, span_);
        }
    }

    const TraceSpan& chosen_of(const std::vector<const TraceSpan*>& calls) {
        const std::string where = span_.empty() ? "the trace" : "span '" + printable(span_) + "'";
        if (calls.empty())
            throw Error(ErrorCode::not_found,
                        where +
                            " has no call of a model\n"
                            "  To see its spans and their ids: cubepi trace view -v");
        if (arguments_.call > calls.size())
            throw Error(ErrorCode::invalid_argument,
                        "--call: " + where + " has " + std::to_string(calls.size()) +
                            (calls.size() == 1 ? " call" : " calls") + " of models");
        const std::size_t number = arguments_.call == 0 ? calls.size() : arguments_.call;
        const TraceSpan& span = *calls[number - 1];
        if (arguments_.call == 0 && calls.size() > 1)
            err_ << "cubepi: the last of " << calls.size()
                 << " calls: " << line_for_terminal(span.name, longest_name) << ", span "
                 << line_for_terminal(span.span_id, longest_name)
                 << "; choose another one with --call\n";
        return span;
    }

    /// The trace that the user names, or the newest that the filter accepts.
    TraceSet chosen() {
        if (!arguments_.run.empty()) return find_trace(directory_, arguments_.run);
        const TraceListing listing = list_traces(directory_, filter_, 1);
        report(listing);
        if (listing.traces.empty()) return {};
        TraceSet set = read_traces(listing.traces.front().files);
        std::erase_if(set.traces, [&listing](const Trace& trace) {
            return trace.summary.id != listing.traces.front().summary.id;
        });
        return set;
    }

    int none_found() {
        const std::string& run =
            arguments_.runs.size() == 1 ? arguments_.runs.front() : arguments_.run;
        err_ << "No traces "
             << (run.empty() ? TerminalView("match in ") : TerminalView("match of those in "))
             << for_terminal(run.empty() ? directory_.string() : run) << ".\n";
        return exit_failed;
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

    static constexpr std::size_t longest_name = 60;
    const TraceArguments& arguments_;
    const TraceScreen& screen_;
    const TraceFilter
        filter_;  // before the directory: a wrong option is reported whatever the configuration has
    const std::filesystem::path directory_;
    std::string span_;  // the beginning of the id of the span to convert
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
    return TraceCommand(arguments, screen, out, err).perform();
}

int trace_command(const CommandLine& line) {
    const TraceScreen screen = TraceScreen::standard();
    return show_traces(line.trace, screen, std::cout, std::cerr);
}

}  // namespace cubepi::app
