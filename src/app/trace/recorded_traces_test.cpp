#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "trace_list.hpp"
#include "trace_set.hpp"
#include "trace_test_support.hpp"
#include "trace_tree.hpp"
#include "trace_view.hpp"

// The traces that CubePi recorded, and what its own viewer printed for them: the facts must be the same, not the layout.

namespace cubepi::app {
namespace {

/// A trace of a scenario, with its normal form.
struct Recorded {
    std::string scenario = {};
    std::filesystem::path file = {};
    JsonArray spans = {};
};

std::vector<Recorded> all_recorded() {
    std::vector<Recorded> all;
    for (const auto& entry : std::filesystem::directory_iterator(recorded_traces())) {
        if (entry.path().extension() != ".json") continue;
        const Json scenario = file_json(entry.path());
        for (const Json& trace : scenario.at("traces").as_array()) {
            Recorded recorded;
            recorded.scenario = entry.path().stem().string();
            recorded.file = recorded_traces() / std::string(trace.at("file").as_string());
            recorded.spans = trace.at("spans").as_array();
            all.push_back(std::move(recorded));
        }
    }
    return all;
}

std::string view_of(const std::filesystem::path& file, bool content = false) {
    TraceArguments arguments;
    arguments.what = TraceArguments::What::view;
    arguments.run = file.string();
    arguments.content = content;
    std::ostringstream out;
    std::ostringstream err;
    EXPECT_EQ(show_traces(arguments, TraceScreen(), out, err), 0) << file;
    EXPECT_EQ(err.str(), "") << file;
    return out.str();
}

/// The cells of a table of CubePi.
std::vector<std::string> cells(const std::string& line) {
    constexpr std::string_view bar = "│";
    std::vector<std::string> found;
    std::size_t at = line.find(bar);
    while (at != std::string::npos) {
        const std::size_t begin = at + bar.size();
        at = line.find(bar, begin);
        if (at == std::string::npos) break;
        std::string cell = line.substr(begin, at - begin);
        cell.erase(0, cell.find_first_not_of(' '));
        cell.erase(cell.find_last_not_of(' ') + 1);
        found.push_back(std::move(cell));
    }
    return found;
}

}  // namespace

TEST(RecordedTraces, EverySpanIsInTheTreeOfTheNormalForm) {
    const std::vector<Recorded> all = all_recorded();
    ASSERT_GE(all.size(), 24U);
    for (const Recorded& recorded : all) {
        const TraceSet set = read_traces({recorded.file});
        EXPECT_EQ(describe(set.problems), "") << recorded.file;
        ASSERT_EQ(set.traces.size(), 1U) << recorded.file;
        const TraceTree tree(set.traces.front());
        ASSERT_EQ(tree.rows().size(), recorded.spans.size()) << recorded.file;
        for (std::size_t i = 0; i < tree.rows().size(); ++i) {
            const TreeRow& row = tree.rows()[i];
            EXPECT_EQ(tree.span(row).name, recorded.spans[i].at("name").as_string());
            const Json& parent = recorded.spans[i].at("parent");
            EXPECT_EQ(tree.parent(i),
                      parent.is_null() ? std::optional<std::size_t>()
                                       : std::optional(static_cast<std::size_t>(parent.as_int64())))
                << recorded.file << " span " << i;
            EXPECT_FALSE(row.orphan || row.cycle) << recorded.file;
        }
    }
}

TEST(RecordedTraces, TheViewHasTheSpansAndMarksOfCubePisView) {
    for (const Recorded& recorded : all_recorded()) {
        std::filesystem::path text = recorded.file;
        text.replace_extension(".view.txt");
        const std::string theirs = file_text(text);
        ASSERT_FALSE(theirs.empty()) << text;
        const std::string ours = view_of(recorded.file);
        std::size_t at = 0;
        for (const Json& span : recorded.spans) {
            const std::string name(span.at("name").as_string());
            at = ours.find(name, at);
            ASSERT_NE(at, std::string::npos) << recorded.file << " lacks " << name << "\n" << ours;
            at += name.size();
        }
        EXPECT_EQ(occurrences(ours, " ERROR"), occurrences(theirs, " ERROR")) << ours;
        EXPECT_EQ(occurrences(ours, " aborted") - occurrences(ours, "  aborted\n"),
                  occurrences(theirs, "  aborted  ["))
            << ours;
        EXPECT_EQ(occurrences(ours, "  error: "), occurrences(theirs, "── error: ")) << ours;
        EXPECT_EQ(occurrences(ours, "\x1b"), 0U);
    }
}

TEST(RecordedTraces, TokensAreThoseOfCubePisView) {
    const std::string ours = view_of(recorded_traces() / "subagent.jsonl");
    for (const char* tokens : {"196/45", "99/21", "188/10", "412/13"})
        EXPECT_NE(ours.find(tokens), std::string::npos) << ours;
    EXPECT_NE(ours.find("895 tokens in, 89 out"), std::string::npos) << ours;
}

TEST(RecordedTraces, TheListHasTheFactsOfCubePisList) {
    std::ostringstream err;
    const TraceListing listing = list_traces(recorded_traces(), {}, 0);
    EXPECT_EQ(listing.unreadable, std::vector<std::string>());
    EXPECT_EQ(describe(listing.problems), "");
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(recorded_traces())) {
        if (!entry.path().string().ends_with(".ls.txt")) continue;
        std::istringstream theirs(file_text(entry.path()));
        for (std::string line; std::getline(theirs, line);) {
            const std::vector<std::string> row = cells(line);
            // CubePi lists the file of a recorded stream as a trace.
            if (row.size() < 6 || row[1].ends_with(".stream")) continue;
            const auto ours = std::find_if(
                listing.traces.begin(), listing.traces.end(),
                [&row](const ListedTrace& listed) { return listed.summary.id == row[1]; });
            ASSERT_NE(ours, listing.traces.end()) << line;
            ++found;
            EXPECT_EQ(std::to_string(ours->summary.spans), row[2]) << line;
            EXPECT_EQ(ours->summary.status == TraceStatus::error, row[3] == "error") << line;
            EXPECT_EQ(ours->summary.input.empty() ? "—" : ours->summary.input.substr(0, 20),
                      row.back().substr(0, 20))
                << line;
        }
    }
    EXPECT_EQ(found, listing.traces.size());
    EXPECT_TRUE(std::is_sorted(listing.traces.begin(), listing.traces.end(),
                               [](const ListedTrace& a, const ListedTrace& b) {
                                   return a.summary.start > b.summary.start;
                               }));
}

TEST(RecordedTraces, AbortedAndSuspendedRunsAreMarked) {
    const auto status = [](const char* file) {
        const TraceSet set = read_traces({recorded_traces() / file});
        return summarize(TraceTree(set.traces.at(0))).status;
    };
    EXPECT_EQ(status("abort-in-tool.jsonl"), TraceStatus::aborted);
    EXPECT_EQ(status("hitl-suspend.1.jsonl"), TraceStatus::suspended);
    EXPECT_EQ(status("hitl-suspend.2.jsonl"), TraceStatus::ok);
    EXPECT_EQ(status("http-error.jsonl"), TraceStatus::error);
    EXPECT_EQ(status("plain-chat.jsonl"), TraceStatus::ok);
    const std::string view = view_of(recorded_traces() / "hitl-suspend.1.jsonl");
    EXPECT_NE(view.find("invoke_agent suspended"), std::string::npos) << view;
}

TEST(RecordedTraces, ContentShowsEachMessageOfARunOnce) {
    const std::string view = view_of(recorded_traces() / "anthropic.jsonl", true);
    EXPECT_EQ(occurrences(view, "system: Be brief."), 1U) << view;
    EXPECT_EQ(occurrences(view, "user: 1+2?"), 1U) << view;
    EXPECT_EQ(occurrences(view, "assistant (reasoning): Add."), 1U) << view;
    EXPECT_NE(view.find("call add: {\"a\":1,\"b\":2}"), std::string::npos) << view;
    EXPECT_NE(view.find("assistant: It is 3."), std::string::npos) << view;
    // A redacted text is not JSON, and is shown as it is.
    const std::string redacted = view_of(recorded_traces() / "tool-turn-redacted.jsonl", true);
    EXPECT_NE(redacted.find("[secret]"), std::string::npos) << redacted;
}

}  // namespace cubepi::app
