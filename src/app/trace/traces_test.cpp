#include "traces.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/sanitizer_test_support.hpp>
#include <cubepi/core/support/posix_file.hpp>

#include "failure.hpp"
#include "trace_test_support.hpp"

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

constexpr bool reuses_memory = !under_sanitizer;  // sanitizers do not reuse freed memory at once

/// A size in KiB in /proc/self/status, in bytes.
std::size_t memory(const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(key + ":")) return std::stoul(line.substr(key.size() + 1)) * 1024;
    }
    return 0;
}

using LargeTrace = TraceCommandTest;

constexpr const char* id = "0123456789abcdef0123456789abcdef";

class TraceFollowTest : public TraceCommandTest {
protected:
    std::string file() const { return "2026-11-21/" + std::string(id) + ".jsonl"; }
    void append(const std::string& text) { append_to(file(), text); }
    void append_to(const std::string& name, const std::string& text) {
        const std::filesystem::path path = directory() / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary | std::ios::app) << text;
    }
    static std::string names(const std::vector<TraceSpan>& spans) {
        std::string text;
        for (const TraceSpan& span : spans) text += (text.empty() ? "" : " ") + span.span_id;
        return text;
    }
    std::filesystem::path directory() const { return arguments_.directory; }
};

}  // namespace

// The traces that CubePi recorded, and what its own viewer printed for them: the facts must be the same, not the layout.

TEST(RecordedTraces, EverySpan_IsInTheNormalFormTree) {
    const std::vector<Recorded> all = all_recorded();
    ASSERT_GE(all.size(), 24U);
    for (const Recorded& recorded : all) {
        const TraceSet set = read_traces({recorded.file});
        EXPECT_EQ(describe(set.problems), "") << recorded.file;
        ASSERT_EQ(set.traces.size(), 1U) << recorded.file;
        const std::vector<TraceSpan>& spans = set.traces.front().spans;
        ASSERT_EQ(spans.size(), recorded.spans.size()) << recorded.file;
        for (std::size_t i = 0; i < spans.size(); ++i) {
            EXPECT_EQ(spans[i].name, recorded.spans[i].at("name").as_string());
            const Json& parent = recorded.spans[i].at("parent");
            EXPECT_EQ(spans[i].parent,
                      parent.is_null() ? std::optional<std::size_t>()
                                       : std::optional(static_cast<std::size_t>(parent.as_int64())))
                << recorded.file << " span " << i;
            EXPECT_FALSE(spans[i].orphan || spans[i].cycle) << recorded.file;
        }
    }
}

TEST(RecordedTraces, View_HasSpansAndMarksOfCubePi) {
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

TEST(RecordedTraces, Tokens_MatchTheViewOfCubePi) {
    const std::string ours = view_of(recorded_traces() / "subagent.jsonl");
    for (const char* tokens : {"196/45", "99/21", "188/10", "412/13"})
        EXPECT_NE(ours.find(tokens), std::string::npos) << ours;
    EXPECT_NE(ours.find("895 tokens in, 89 out"), std::string::npos) << ours;
}

TEST(RecordedTraces, List_HasTheFactsOfCubePi) {
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

TEST(RecordedTraces, AbortedAndSuspendedRuns_AreMarked) {
    const auto status = [](const char* file) {
        const TraceSet set = read_traces({recorded_traces() / file});
        return set.traces.at(0).summary.status;
    };
    EXPECT_EQ(status("abort-in-tool.jsonl"), TraceStatus::aborted);
    EXPECT_EQ(status("hitl-suspend.1.jsonl"), TraceStatus::suspended);
    EXPECT_EQ(status("hitl-suspend.2.jsonl"), TraceStatus::ok);
    EXPECT_EQ(status("http-error.jsonl"), TraceStatus::error);
    EXPECT_EQ(status("plain-chat.jsonl"), TraceStatus::ok);
    const std::string view = view_of(recorded_traces() / "hitl-suspend.1.jsonl");
    EXPECT_NE(view.find("invoke_agent suspended"), std::string::npos) << view;
}

TEST(RecordedTraces, Content_ShowsEachMessageOfARunOnce) {
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

TEST(ReadLines, LinesOverTheLimit_AreSkippedWhereverCut) {
    const std::string text = "one\n" + std::string(11, 'x') + "\ntwo\n" + std::string(10, 'y') +
                             "\n" + std::string(30, 'z');
    const ScopedTestDirectory directory;
    const std::filesystem::path path = directory.path() / "lines";
    std::ofstream(path, std::ios::binary) << text;
    const detail::UniqueFd file = detail::open_file(path.c_str(), O_RDONLY);
    for (std::size_t piece = 1; piece <= text.size() + 1; ++piece) {
        std::string lines;
        const auto take = [&](std::string_view line, std::uint64_t offset) {
            EXPECT_EQ(text.substr(offset, line.size()), line);
            lines += std::string(line) + ";";
        };
        const LineRest rest = read_lines(file.get(), path, 0, take, 10, piece);
        EXPECT_EQ(lines, "one;two;yyyyyyyyyy;") << piece;
        EXPECT_EQ(rest.too_long, 2u) << piece;
        EXPECT_EQ(rest.text, "") << piece;
        EXPECT_EQ(rest.offset, text.find('z')) << piece;
    }
}

TEST_F(LargeTrace, TraceOf100Megabytes_NeedsMemoryForLargestLine) {
    constexpr std::size_t spans = 50;
    constexpr std::size_t line_bytes = std::size_t{2} << 20U;
    {
        std::ofstream file(temporary_.path() / "t.jsonl", std::ios::binary);
        const std::string text(line_bytes, 'x');
        for (std::size_t i = 0; i < spans; ++i) {
            TestSpan chat = chat_span(std::to_string(10 + i), "01", "m");
            chat.attributes["gen_ai.input.messages"] = text;
            file << chat.line();
        }
        const std::string root = agent_span("01").line();
        file << root << root.substr(0, root.size() / 2);
    }
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak is now the current size
    const std::size_t before = memory("VmRSS");
    arguments_.run = (temporary_.path() / "t.jsonl").string();
    EXPECT_EQ(show(TraceArguments::What::view), exit_ok) << err();
    EXPECT_EQ(occurrences(out(), "- chat m"), spans);
    EXPECT_EQ(err(), "cubepi: skipped 1 incomplete line at the end\n");
    const std::size_t peak = memory("VmHWM");
    EXPECT_GT(peak, 0u);
    if (reuses_memory) {
        EXPECT_LT(peak, before + 10 * line_bytes);
    }
}

TEST_F(TraceFollowTest, Follow_ReturnsSpansUntilTheRootEnds) {
    FollowedTrace trace(directory(), "0123");
    EXPECT_TRUE(trace.poll().empty());
    EXPECT_TRUE(trace.paths().empty());
    append(chat_span("03", "02", "m").line());
    EXPECT_EQ(names(trace.poll()), "03");
    EXPECT_EQ(names(trace.poll()), "");
    const std::string rest = agent_span("01").line();
    append(chat_span("04", "02", "m").line() + rest.substr(0, 40));
    EXPECT_EQ(names(trace.poll()), "04");
    EXPECT_FALSE(trace.ended());
    append(rest.substr(40));
    EXPECT_EQ(names(trace.poll()), "01");
    EXPECT_TRUE(trace.ended());
}

TEST_F(TraceFollowTest, RunBelowRemoteSpan_EndsTheTrace) {
    FollowedTrace trace(directory(), "0123");
    append(chat_span("03", "02", "m").line());
    EXPECT_EQ(names(trace.poll()), "03");
    append(agent_span("02", "ee").line());
    EXPECT_EQ(names(trace.poll()), "02");
    EXPECT_FALSE(trace.ended()) << "its parent may be a turn that has not ended";
    TestSpan turn = agent_span("ee", "ff");
    turn.attributes["cubepi.remote_parent"] = true;
    append(turn.line());
    EXPECT_EQ(names(trace.poll()), "ee");
    EXPECT_TRUE(trace.ended());
}

TEST_F(TraceFollowTest, NoName_FollowsTheFirstTraceThatGrows) {
    append_to("2026-11-21/ffffffffffffffffffffffffffffffff.jsonl",
              chat_span("09", "08", "m").line());
    append(chat_span("03", "02", "m").line());
    FollowedTrace trace(directory(), "");
    EXPECT_TRUE(trace.poll().empty());
    append(chat_span("04", "02", "m").line());
    EXPECT_EQ(names(trace.poll()), "03 04");
    append_to("2026-11-21/ffffffffffffffffffffffffffffffff.jsonl", agent_span("08").line());
    EXPECT_EQ(names(trace.poll()), "");
}

TEST_F(TraceFollowTest, MissingDirectory_MayAppearLater) {
    arguments_.directory += "/later";
    FollowedTrace trace(directory(), "");
    EXPECT_TRUE(trace.poll().empty());
    append(agent_span("01").line());
    EXPECT_EQ(names(trace.poll()), "01");
    EXPECT_TRUE(trace.ended());
}

TEST_F(TraceFollowTest, ReplacedFile_IsReadAgain) {
    append(chat_span("03", "02", "m").line() + chat_span("04", "02", "m").line());
    FollowedTrace trace(directory(), id);
    EXPECT_EQ(names(trace.poll()), "03 04");
    std::filesystem::remove(directory() / file());
    EXPECT_EQ(names(trace.poll()), "");
    append(agent_span("01").line());
    EXPECT_EQ(names(trace.poll()), "01");
}

TEST_F(TraceFollowTest, LinesThatAreNotSpans_AreSkipped) {
    append("garbage\n\n{}\n" + agent_span("01").line());
    FollowedTrace trace(directory(), id);
    EXPECT_EQ(names(trace.poll()), "01");
}

TEST_F(TraceFollowTest, AmbiguousName_IsRefused) {
    append(chat_span("03", "02", "m").line());
    append_to("2026-11-21/0123ffffffffffffffffffffffffffff.jsonl", agent_span("01").line());
    FollowedTrace trace(directory(), "0123");
    EXPECT_THROW((void)trace.poll(), Error);
}

TEST_F(TraceFollowTest, Command_PrintsSpansAndThenTheTree) {
    append(chat_span("03", "01", "m").line() + agent_span("01").line());
    arguments_.run = id;
    EXPECT_EQ(show(TraceArguments::What::follow), 0);
    EXPECT_NE(out().find("  chat m\n"), std::string::npos) << out();
    EXPECT_NE(out().find("`- chat m"), std::string::npos) << out();
}

TEST_F(TraceFollowTest, IdleLimit_EndsTheCommand) {
    append(chat_span("03", "01", "m").line());
    arguments_.run = id;
    arguments_.idle_limit = "1ms";
    EXPECT_EQ(show(TraceArguments::What::follow), 1);
    EXPECT_NE(err().find("no new span"), std::string::npos) << err();
}

}  // namespace cubepi::app
