#include "trace_views.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>

#include <cubepi/core/error.hpp>

#include "failure.hpp"
#include "terminal/text_layout.hpp"
#include "trace_test_support.hpp"

namespace cubepi::app {
namespace {

using What = TraceArguments::What;

TestSpan with_usage(TestSpan span, int input, int output, double cost) {
    span.attributes["gen_ai.usage.input_tokens"] = input;
    span.attributes["gen_ai.usage.output_tokens"] = output;
    if (cost >= 0) span.attributes["cubepi.usage.cost"] = cost;
    return span;
}

TestSpan lasting(TestSpan span, int microseconds) {
    span.end = span.start + microseconds;
    return span;
}

class TraceStatsCommand : public TraceCommandTest {
protected:
    JsonObject stats() {
        arguments_.json = true;
        EXPECT_EQ(show(What::stats), exit_ok) << err();
        return boost::json::parse(out()).as_object();
    }
    static const JsonObject& row(const JsonObject& stats, const char* table, std::size_t index) {
        return stats.at(table).as_array().at(index).as_object();
    }
};

/// The numbers of a table that CubePi printed: the cells of its rows.
std::vector<std::vector<std::string>> their_rows(const std::string& text) {
    constexpr std::string_view bar = "│";
    std::vector<std::vector<std::string>> rows;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        std::vector<std::string> row;
        std::size_t at = line.find(bar);
        while (at != std::string::npos) {
            const std::size_t begin = at + bar.size();
            at = line.find(bar, begin);
            if (at == std::string::npos) break;
            std::istringstream words(line.substr(begin, at - begin));
            std::string cell;
            words >> cell;
            row.push_back(cell);
        }
        if (!row.empty()) rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace

TEST(Percentile, Percentile_IsInterpolatedLinearly) {
    EXPECT_EQ(percentile({}, 50), 0);
    EXPECT_EQ(percentile({7}, 99), 7);
    EXPECT_EQ(percentile({0, 10}, 50), 5);
    EXPECT_EQ(percentile({0, 10, 20, 30, 40}, 95), 38);
    EXPECT_EQ(percentile({0, 10, 20, 30, 40}, 100), 40);
}

TEST_F(TraceStatsCommand, Statistics_CountCallsErrorsPercentilesTokensAndCost) {
    std::string text;
    for (int i = 1; i <= 100; ++i) {
        TestSpan chat = with_usage(chat_span("c" + std::to_string(i), "01", "gpt-5"), 10, 2, 0.01);
        chat.attributes["gen_ai.usage.cache_read.input_tokens"] = 5;
        text += lasting(chat, i * 1000).line();
    }
    TestSpan failed = lasting(tool_span("t1", "01", "bash"), 5000);
    failed.status = "ERROR";
    TestSpan aborted = lasting(tool_span("t2", "01", "bash"), 1000);
    aborted.attributes["cubepi.aborted"] = true;
    text += failed.line() + aborted.line() + agent_span("01").line();
    write("trace.jsonl", text);
    const JsonObject all = stats();
    EXPECT_EQ(all.at("traces").to_number<int>(), 1);
    EXPECT_EQ(all.at("statuses").at("error").to_number<int>(), 1);
    EXPECT_EQ(all.at("input_tokens").to_number<int>(), 1000);
    const JsonObject& model = row(all, "models", 0);
    EXPECT_EQ(model.at("model").as_string(), "gpt-5");
    EXPECT_EQ(model.at("calls").to_number<int>(), 100);
    EXPECT_EQ(model.at("errors").to_number<int>(), 0);
    EXPECT_NEAR(model.at("p50").to_number<double>(), 0.0505, 1e-9);
    EXPECT_NEAR(model.at("p95").to_number<double>(), 0.09505, 1e-9);
    EXPECT_NEAR(model.at("p99").to_number<double>(), 0.09901, 1e-9);
    EXPECT_NEAR(model.at("duration").to_number<double>(), 5.05, 1e-9);
    EXPECT_EQ(model.at("output_tokens").to_number<int>(), 200);
    EXPECT_EQ(model.at("cache_read_tokens").to_number<int>(), 500);
    EXPECT_NEAR(model.at("cost").to_number<double>(), 1.0, 1e-9);
    const JsonObject& tool = row(all, "tools", 0);
    EXPECT_EQ(tool.at("tool").as_string(), "bash");
    EXPECT_EQ(tool.at("errors").to_number<int>(), 1);
    EXPECT_EQ(tool.at("aborted").to_number<int>(), 1);
    EXPECT_TRUE(tool.at("cost").is_null()) << "an unknown cost is not 0";
}

TEST_F(TraceStatsCommand, McpRequest_IsPartOfItsToolCall) {
    TestSpan request = tool_span("03", "02", "search");
    request.name = "tools/call search";
    request.attributes["mcp.method.name"] = "tools/call";
    write("trace.jsonl",
          request.line() + tool_span("02", "01", "search").line() + agent_span("01").line());
    const JsonObject all = stats();
    ASSERT_EQ(all.at("tools").as_array().size(), 1U);
    EXPECT_EQ(row(all, "tools", 0).at("calls").to_number<int>(), 1);
}

TEST_F(TraceStatsCommand, SumsOfRuns_AreNotCountedTwice) {
    // A sub-agent below a tool: its run, the tool and the outer run repeat the sums of the calls.
    write("trace.jsonl", with_usage(chat_span("05", "04", "small"), 100, 10, 0.25).line() +
                             with_usage(agent_span("04", "03"), 100, 10, 0.25).line() +
                             with_usage(tool_span("03", "01", "subagent"), 100, 10, 0.25).line() +
                             with_usage(tool_span("06", "01", "paint"), 0, 0, 0.5).line() +
                             with_usage(chat_span("02", "01", "large"), 200, 20, 1).line() +
                             with_usage(agent_span("01"), 300, 30, 1.75).line());
    const JsonObject all = stats();
    EXPECT_EQ(all.at("input_tokens").to_number<int>(), 300);
    EXPECT_NEAR(all.at("cost").to_number<double>(), 1.75, 1e-9);
    const JsonArray& models = all.at("models").as_array();
    ASSERT_EQ(models.size(), 2U);
    EXPECT_EQ(models[0].at("model").as_string(), "large");
    EXPECT_NEAR(models[0].at("cost").to_number<double>(), 1, 1e-9);
    EXPECT_EQ(models[1].at("input_tokens").to_number<int>(), 100);
    const JsonArray& tools = all.at("tools").as_array();
    EXPECT_EQ(tools[0].at("tool").as_string(), "paint");
    EXPECT_NEAR(tools[0].at("cost").to_number<double>(), 0.5, 1e-9) << "its own";
    EXPECT_TRUE(tools[1].at("cost").is_null()) << "that of the model is in the model's row";
}

TEST_F(TraceStatsCommand, SpanInSeveralFiles_CountsOnce) {
    const std::string first = chat_span("02", "01", "m").line() + agent_span("01").line();
    write("copy.jsonl", first);
    write("2026-11-21/" + TestSpan().trace + ".jsonl", first);
    // A file that was rotated has other spans of the same trace.
    write("rotated.jsonl", chat_span("03", "01", "m").line());
    const JsonObject all = stats();
    EXPECT_EQ(row(all, "models", 0).at("calls").to_number<int>(), 2);
    arguments_.runs = {"0123", (temporary_.path() / "copy.jsonl").string(), "0123"};
    EXPECT_EQ(stats().at("traces").to_number<int>(), 1);
}

TEST_F(TraceStatsCommand, UnknownCost_IsNotFree) {
    write("trace.jsonl", with_usage(chat_span("02", "01", "m"), 1, 1, 0.5).line() +
                             with_usage(chat_span("03", "01", "m"), 1, 1, -1).line());
    EXPECT_EQ(row(stats(), "models", 0).at("calls_without_cost").to_number<int>(), 1);
    arguments_.json = false;
    EXPECT_EQ(show(What::stats), exit_ok);
    EXPECT_NE(out().find("$0.5000+"), std::string::npos) << out();
}

TEST_F(TraceStatsCommand, CallsWithoutName_AreARow) {
    TestSpan chat = chat_span("02", "01", "m");
    chat.attributes.erase("gen_ai.request.model");
    write("trace.jsonl", chat.line());
    EXPECT_TRUE(row(stats(), "models", 0).at("model").is_null());
    arguments_.json = false;
    show(What::stats);
    EXPECT_NE(out().find("(unknown)"), std::string::npos) << out();
}

TEST_F(TraceStatsCommand, Filters_SelectTracesAndCalls) {
    const std::string other(32, 'b');
    TestSpan agent = agent_span("01");
    agent.attributes["cubepi.session_id"] = "cli:plan";
    write("a.jsonl", chat_span("02", "01", "m").line() + tool_span("03", "01", "t").line() +
                         tool_span("04", "01", "u").line() + agent.line());
    TestSpan chat = chat_span("02", "", "n");
    chat.trace = other;
    chat.status = "ERROR";
    write("b.jsonl", lasting(chat, 2'000'000).line());
    const auto rows = [this](auto set) {
        const TraceArguments before = arguments_;
        set();
        const JsonObject all = stats();
        arguments_ = before;
        std::string names;
        for (const Json& one : all.at("models").as_array()) names += one.at("model").as_string();
        names += "/";
        for (const Json& one : all.at("tools").as_array()) names += one.at("tool").as_string();
        return names;
    };
    EXPECT_EQ(rows([] {}), "mn/tu");
    EXPECT_EQ(rows([this] { arguments_.session = "plan"; }), "m/tu");
    EXPECT_EQ(rows([this] { arguments_.error = true; }), "n/");
    EXPECT_EQ(rows([this] { arguments_.min_duration = "1s"; }), "n/");
    EXPECT_EQ(rows([this] { arguments_.tool = "t"; }), "/t");
    EXPECT_EQ(rows([this] { arguments_.model = "n"; }), "n/");
    arguments_.json = false;
    arguments_.by = "tool";
    EXPECT_EQ(show(What::stats), exit_ok);
    EXPECT_EQ(out().find("\nmodel"), std::string::npos) << out();
    EXPECT_NE(out().find("\ntool"), std::string::npos) << out();
    arguments_.session = "none";
    EXPECT_EQ(show(What::stats), exit_failed);
    EXPECT_NE(err().find("No traces match"), std::string::npos) << err();
    arguments_.runs = {"cccc"};
    EXPECT_THROW(show(What::stats), Error);
}

TEST_F(TraceStatsCommand, CutLinesAndMissingParents_AreCounted) {
    const std::string line = chat_span("02", "ee", "m").line();
    write("trace.jsonl", line + tool_span("03", "ff", "t").line() + line.substr(0, 50));
    const JsonObject all = stats();
    EXPECT_EQ(row(all, "models", 0).at("calls").to_number<int>(), 1);
    EXPECT_EQ(row(all, "tools", 0).at("calls").to_number<int>(), 1);
    EXPECT_EQ(all.at("statuses").at("incomplete").to_number<int>(), 1);
    EXPECT_EQ(err(), "cubepi: skipped 1 incomplete line at the end\n");
}

TEST_F(TraceStatsCommand, Tables_FitTheTerminalWithoutControlCharacters) {
    TestSpan chat = with_usage(chat_span("02", "01", "\x1b]0;a\x07" + std::string(80, 'm')),
                               1'234'567, 99'999, 12.5);
    chat.attributes["gen_ai.usage.cache_read.input_tokens"] = 1'000'000;
    chat.status = "ERROR";
    write("trace.jsonl", chat.line() + tool_span("03", "01", "\x1b[2Jtool").line());
    screen_.style.terminal = true;
    screen_.ascii = false;
    for (const int columns : {60, 80, 160}) {
        screen_.style.columns = columns;
        EXPECT_EQ(show(What::stats), exit_ok);
        EXPECT_EQ(out().find('\x1b'), std::string::npos);
        for (const std::string& line : lines())
            EXPECT_LE(display_width(line), static_cast<std::size_t>(columns)) << line;
        EXPECT_NE(out().find("p95"), std::string::npos) << out();
        EXPECT_NE(out().find("$12.50"), std::string::npos) << out();
    }
}

TEST(RecordedStats, RecordedTraces_MatchTheTablesOfCubePi) {
    std::size_t compared = 0;
    for (const auto& entry : std::filesystem::directory_iterator(recorded_traces())) {
        if (entry.path().extension() != ".json") continue;
        TraceArguments arguments;
        arguments.what = What::stats;
        arguments.json = true;
        const Json scenario = file_json(entry.path());
        for (const Json& trace : scenario.at("traces").as_array())
            arguments.runs.push_back(
                (recorded_traces() / std::string(trace.at("file").as_string())).string());
        std::ostringstream out;
        std::ostringstream err;
        ASSERT_EQ(show_traces(arguments, TraceScreen(), out, err), exit_ok) << err.str();
        const Json ours = boost::json::parse(out.str());
        std::filesystem::path text = entry.path();
        text.replace_extension(".stats.txt");
        std::size_t rows = 0;
        for (const std::vector<std::string>& theirs : their_rows(file_text(text))) {
            // Rows of models have two cells more.
            const bool is_model = theirs.size() == 8;
            const char* const table = is_model ? "models" : "tools";
            const JsonObject* found = nullptr;
            for (const Json& one : ours.at(table).as_array()) {
                if (one.at(is_model ? "model" : "tool").as_string() == theirs[0])
                    found = &one.get_object();
            }
            ASSERT_NE(found, nullptr) << text << " " << theirs[0];
            ++rows;
            const auto count = [found](const char* key) {
                const Json& value = found->at(key);
                return value.is_null() ? 0 : value.to_number<std::int64_t>();
            };
            EXPECT_EQ(std::to_string(count("calls")), theirs[1]) << text;
            EXPECT_NEAR(found->at("p50").to_number<double>() * 1000, std::stod(theirs[2]), 1);
            EXPECT_NEAR(found->at("p95").to_number<double>() * 1000, std::stod(theirs[3]), 1);
            EXPECT_EQ(std::to_string(count("errors") * 100 / count("calls")) + "%", theirs[4]);
            EXPECT_EQ(std::to_string(count(is_model ? "input_tokens" : "aborted")), theirs[5]);
            if (!is_model) continue;
            EXPECT_EQ(std::to_string(count("output_tokens")), theirs[6]);
            EXPECT_EQ(std::to_string(count("cache_read_tokens") + count("cache_write_tokens")),
                      theirs[7]);
        }
        EXPECT_EQ(rows, ours.at("models").as_array().size() + ours.at("tools").as_array().size());
        compared += rows;
    }
    EXPECT_GE(compared, 30U);
}

}  // namespace cubepi::app
