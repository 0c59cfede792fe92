#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include <cubepi/core/error.hpp>

#include "failure.hpp"
#include "terminal/text_layout.hpp"
#include "trace_test_support.hpp"

namespace cubepi::app {
namespace {

using What = TraceArguments::What;

const std::string id_a(32, 'a');
const std::string id_b(32, 'b');

class TraceList : public TraceCommandTest {
protected:
    /// Two traces of two days: a run that failed in a tool, and one of another session.
    void fill() {
        TestSpan tool = tool_span("03", "01", "bash");
        tool.trace = id_a;
        tool.status = "ERROR";
        TestSpan chat = chat_span("02", "01", "gpt-5");
        chat.trace = id_a;
        chat.attributes["gen_ai.usage.input_tokens"] = 100;
        chat.attributes["gen_ai.usage.output_tokens"] = 20;
        chat.attributes["gen_ai.usage.cache_read.input_tokens"] = 60;
        chat.attributes["cubepi.usage.cost"] = 0.25;
        TestSpan agent = agent_span("01");
        agent.trace = id_a;
        agent.end = 3'000'000;
        agent.attributes["cubepi.session_id"] = "cli:plan";
        agent.attributes["cubepi.metadata.user"] = 7;
        agent.attributes["cubepi.metadata.team"] = "red";
        // The sums of a run repeat what its calls have.
        agent.attributes["gen_ai.usage.input_tokens"] = 100;
        agent.attributes["gen_ai.usage.output_tokens"] = 20;
        agent.attributes["cubepi.usage.cost"] = 0.25;
        agent.attributes["gen_ai.input.messages"] =
            R"([{"role":"user","parts":[{"type":"text","content":"Fix\tthe \u001b[31mbuild"}]}])";
        write("2026-11-21/" + id_a + ".jsonl", chat.line() + tool.line() + agent.line());
        TestSpan other = agent_span("01");
        other.trace = id_b;
        other.start = 1'000'000;
        other.end = 1'500'000;
        other.attributes["cubepi.thread_id"] = "t-1";
        write("2026-11-22/" + id_b + ".jsonl", other.line());
    }
};

}  // namespace

TEST_F(TraceList, List_ShowsNewestFirstWithTabsForScripts) {
    fill();
    EXPECT_EQ(show(What::list), exit_ok) << err();
    ASSERT_EQ(lines().size(), 2U) << out();
    EXPECT_NE(lines()[0].find("\t" + id_b + "\t1 span\tok\t500ms\t-\t-\tt-1\t-"), std::string::npos)
        << out();
    EXPECT_NE(
        lines()[1].find("\t" + id_a + "\t3 spans\terror\t3.00s\t100/20\t$0.2500\tcli:plan\tFix "),
        std::string::npos)
        << out();
    EXPECT_EQ(out().find('\x1b'), std::string::npos);
}

TEST_F(TraceList, MetadataColumns_AreShown) {
    fill();
    arguments_.metadata_columns = {"user", "team", "none"};
    EXPECT_EQ(show(What::list), exit_ok);
    EXPECT_NE(lines()[1].find("\tcli:plan\t7\tred\t-\tFix"), std::string::npos) << out();
}

TEST_F(TraceList, Filters_SelectTraces) {
    fill();
    const auto matches = [this](auto set) {
        TraceArguments before = arguments_;
        set();
        show(What::list);
        arguments_ = std::move(before);
        return (out().find(id_a) == std::string::npos ? "" : "a") +
               std::string(out().find(id_b) == std::string::npos ? "" : "b");
    };
    EXPECT_EQ(matches([] {}), "ab");
    EXPECT_EQ(matches([this] { arguments_.error = true; }), "a");
    EXPECT_EQ(matches([this] { arguments_.tool = "bash"; }), "a");
    EXPECT_EQ(matches([this] { arguments_.tool = "grep"; }), "");
    EXPECT_EQ(matches([this] { arguments_.model = "gpt-5"; }), "a");
    EXPECT_EQ(matches([this] { arguments_.session = "plan"; }), "a") << "a session by its name";
    EXPECT_EQ(matches([this] { arguments_.session = "cli:plan"; }), "a");
    EXPECT_EQ(matches([this] { arguments_.session = "t-1"; }), "b") << "a thread";
    EXPECT_EQ(matches([this] { arguments_.min_duration = "501ms"; }), "a");
    EXPECT_EQ(matches([this] { arguments_.min_duration = "0.5"; }), "ab");
    EXPECT_EQ(matches([this] { arguments_.metadata = {"user=7"}; }), "a");
    EXPECT_EQ(matches([this] { arguments_.metadata = {"user=7", "team=red"}; }), "a");
    EXPECT_EQ(matches([this] { arguments_.metadata = {"user=7", "team=blue"}; }), "");
    EXPECT_EQ(matches([this] { arguments_.since = "2026-11-21T10:00:00.5Z"; }), "b");
    EXPECT_EQ(matches([this] { arguments_.since = "2027-01-01"; }), "");
    EXPECT_EQ(matches([this] { arguments_.limit = 1; }), "b");
    EXPECT_THROW(matches([this] { arguments_.metadata = {"user"}; }), Error);
    EXPECT_THROW(matches([this] { arguments_.min_duration = "soon"; }), Error);
    EXPECT_THROW(matches([this] { arguments_.since = "soon"; }), Error);
}

TEST_F(TraceList, JsonOption_PrintsTheTracesAsJson) {
    fill();
    arguments_.json = true;
    EXPECT_EQ(show(What::list), exit_ok);
    const Json list = boost::json::parse(out());
    ASSERT_EQ(list.as_array().size(), 2U);
    const JsonObject& trace = list.at(1).as_object();
    EXPECT_EQ(trace.at("trace_id").as_string(), id_a);
    EXPECT_EQ(trace.at("status").as_string(), "error");
    EXPECT_EQ(trace.at("spans").to_number<int>(), 3);
    EXPECT_DOUBLE_EQ(trace.at("duration").to_number<double>(), 3.0);
    EXPECT_EQ(trace.at("input_tokens").to_number<int>(), 100);
    EXPECT_EQ(trace.at("cache_read_tokens").to_number<int>(), 60);
    EXPECT_DOUBLE_EQ(trace.at("cost").to_number<double>(), 0.25);
    EXPECT_EQ(trace.at("metadata").at("team").as_string(), "red");
    EXPECT_EQ(trace.at("input").as_string(), "Fix\tthe \x1b[31mbuild");
    EXPECT_TRUE(list.at(0).at("cost").is_null()) << "an unknown cost is not 0";
    arguments_.session = "none";
    EXPECT_EQ(show(What::list), exit_failed);
    EXPECT_EQ(out(), "[]\n");
}

TEST_F(TraceList, NoMatchingTraces_IsAFailure) {
    EXPECT_EQ(show(What::list), exit_failed);
    EXPECT_NE(err().find("No traces match"), std::string::npos) << err();
    arguments_.directory += "/none";
    EXPECT_THROW(show(What::list), Error);
}

TEST_F(TraceList, TraceAcrossMidnight_IsOneTrace) {
    TestSpan chat = chat_span("02", "01", "m");
    chat.trace = id_a;
    TestSpan agent = agent_span("01");
    agent.trace = id_a;
    write("2026-11-21/" + id_a + ".jsonl", agent.line());
    write("2026-11-22/" + id_a + ".jsonl", chat.line());
    EXPECT_EQ(show(What::list), exit_ok);
    ASSERT_EQ(lines().size(), 1U) << out();
    EXPECT_NE(out().find("2 spans\tok"), std::string::npos) << out();
    arguments_.run = "aa";
    EXPECT_EQ(show(What::view), exit_ok);
    EXPECT_NE(out().find("`- chat m"), std::string::npos) << out();
}

TEST_F(TraceList, Table_FitsTheTerminal) {
    fill();
    screen_.style.terminal = true;
    screen_.ascii = false;
    for (const int columns : {80, 120, 200}) {
        screen_.style.columns = columns;
        EXPECT_EQ(show(What::list), exit_ok);
        ASSERT_EQ(lines().size(), 3U);
        for (const std::string& line : lines())
            EXPECT_LE(display_width(line), static_cast<std::size_t>(columns)) << line;
    }
}

class TraceView : public TraceCommandTest {
protected:
    int view(const std::string& text) {
        arguments_.run = write("trace.jsonl", text).string();
        return show(What::view);
    }
};

TEST_F(TraceView, IdPrefixPathOrNothing_SelectsTheTrace) {
    for (const std::string& id : {id_a, id_b}) {
        TestSpan agent = agent_span("01");
        agent.trace = id;
        agent.name = "run of " + id.substr(0, 1);
        agent.start = id == id_a ? 0 : 10;
        write("2026-11-21/" + id + ".jsonl", agent.line());
    }
    const auto shown = [this](const std::string& run) {
        arguments_.run = run;
        EXPECT_EQ(show(What::view), exit_ok) << run << err();
        return out().find("run of a") != std::string::npos ? 'a' : 'b';
    };
    EXPECT_EQ(shown(id_a), 'a');
    EXPECT_EQ(shown("bb"), 'b');
    EXPECT_EQ(shown("0xaaa"), 'a');
    EXPECT_EQ(shown((temporary_.path() / "2026-11-21" / (id_a + ".jsonl")).string()), 'a');
    EXPECT_EQ(shown(""), 'b') << "the newest";
    write("2026-11-21/" + std::string(31, 'a') + "c.jsonl", "");
    arguments_.run = "aaaa";
    try {
        show(What::view);
        ADD_FAILURE() << "the prefix is ambiguous";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what()).find(id_a), std::string::npos) << error.what();
    }
    arguments_.run = "cccc";
    EXPECT_THROW(show(What::view), Error);
}

TEST_F(TraceView, FileOfAnotherName_ShowsItsTraces) {
    TestSpan one = agent_span("01");
    one.trace = id_a;
    TestSpan two = agent_span("01");
    two.trace = id_b;
    EXPECT_EQ(view(one.line() + two.line()), exit_ok);
    EXPECT_NE(out().find("trace " + id_a), std::string::npos) << out();
    EXPECT_NE(out().find("trace " + id_b), std::string::npos) << out();
    arguments_.run = "bbb";
    EXPECT_EQ(show(What::view), exit_ok);
    EXPECT_EQ(out().find("trace " + id_a), std::string::npos) << out();
    EXPECT_NE(out().find("trace " + id_b), std::string::npos) << out();
}

TEST_F(TraceView, OrphansCyclesAndSelfParents_AreRoots) {
    TestSpan child = chat_span("02", "ff", "m");
    TestSpan below = tool_span("03", "02", "t");
    below.start = 1;
    TestSpan self = agent_span("04", "04");
    self.start = 2;
    TestSpan left = agent_span("05", "06");
    left.start = 3;
    TestSpan right = agent_span("06", "05");
    right.start = 4;
    TestSpan hangs = chat_span("07", "06", "n");
    hangs.start = 1;
    EXPECT_EQ(
        view(child.line() + below.line() + self.line() + left.line() + right.line() + hangs.line()),
        exit_ok);
    EXPECT_NE(out().find("\nchat m orphan"), std::string::npos) << out();
    EXPECT_NE(out().find("\n`- execute_tool t"), std::string::npos) << out();
    EXPECT_EQ(occurrences(out(), " cycle"), 2U) << out();
    EXPECT_EQ(occurrences(out(), "invoke_agent"), 3U) << out();
    EXPECT_NE(out().find("6 spans"), std::string::npos) << out();
    EXPECT_NE(out().find("- chat n"), std::string::npos) << out();
    EXPECT_TRUE(lines().front().ends_with("incomplete")) << out();
}

TEST_F(TraceView, RunBelowHostSpan_IsComplete) {
    EXPECT_EQ(view(chat_span("02", "01", "m").line() + agent_span("01", "ee").line()), exit_ok);
    EXPECT_TRUE(lines().front().ends_with("  ok")) << out();
}

TEST_F(TraceView, CutLinesAndGarbage_AreSkippedAndCounted) {
    const std::string good = agent_span("01").line();
    EXPECT_EQ(view("\n{}\n\x01\x02\xff\xfe\n[1]\n" + good + good.substr(0, 40)), exit_ok);
    EXPECT_NE(out().find("invoke_agent"), std::string::npos);
    EXPECT_EQ(err(), "cubepi: skipped 3 lines that are not spans, 1 incomplete line at the end\n");
    EXPECT_EQ(view(good.substr(0, good.size() - 1)), exit_ok) << "only the line feed is missing";
    EXPECT_EQ(err(), "");
    EXPECT_EQ(view(good + good), exit_ok);
    EXPECT_EQ(err(), "cubepi: 1 span occurs more than once\n");
    EXPECT_EQ(view(""), exit_failed);
    EXPECT_EQ(view(std::string(100'000, '\0')), exit_failed);
    EXPECT_NE(err().find("1 incomplete line"), std::string::npos) << err();
}

TEST_F(TraceView, InterleavedWriters_LoseOnlyTheMixedLines) {
    // Two processes append to one file; a part of a line got into another one.
    const std::string one = agent_span("01").line();
    const std::string two = chat_span("02", "01", "m").line();
    const std::string three = chat_span("03", "01", "n").line();
    EXPECT_EQ(view(two.substr(0, 50) + one + two.substr(50) + three), exit_ok);
    EXPECT_NE(out().find("chat n"), std::string::npos) << out();
    EXPECT_EQ(err(), "cubepi: skipped 2 lines that are not spans\n");
}

TEST_F(TraceView, ControlCharacters_AreNotObeyedByTheTerminal) {
    const std::string evil = "\x1b]0;owned\x07\x1b[2J\r\nnew\tline \xe2\x80\xae";
    TestSpan span = chat_span("01", "", evil);
    span.name = evil;
    span.status = "ERROR";
    span.trace = evil;
    span.attributes["gen_ai.tool.name"] = evil;
    span.attributes["error.type"] = evil;
    span.attributes["cubepi.session_id"] = evil;
    span.attributes["cubepi.metadata." + evil] = evil;
    span.attributes["gen_ai.input.messages"] = boost::json::serialize(Json{
        JsonObject{{"role", evil}, {"parts", {JsonObject{{"type", "text"}, {"content", evil}}}}}});
    arguments_.content = true;
    arguments_.verbose = true;
    for (const bool terminal : {false, true}) {
        screen_.style.terminal = terminal;
        EXPECT_EQ(view(span.line()), exit_ok);
        EXPECT_EQ(out().find_first_of("\x1b\x07\r"), std::string::npos) << out();
        EXPECT_EQ(out().find("\xe2\x80\xae"), std::string::npos);
        EXPECT_NE(out().find("owned"), std::string::npos);
        EXPECT_EQ(show(What::list), exit_ok);
        EXPECT_EQ(out().find_first_of("\x1b\x07\r"), std::string::npos) << out();
    }
}

TEST_F(TraceView, MissingContent_SaysHowToRecordIt) {
    constexpr std::string_view remedy = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true";
    TestSpan span = chat_span("01", "", "m");
    EXPECT_EQ(view(span.line()), exit_ok);
    EXPECT_EQ(out().find(remedy), std::string::npos) << out();
    arguments_.content = true;
    EXPECT_EQ(view(span.line()), exit_ok);
    EXPECT_NE(out().find(remedy), std::string::npos) << out();
    span.attributes["gen_ai.output.messages"] =
        R"([{"role":"assistant","parts":[{"type":"text","content":"hi"}]}])";
    EXPECT_EQ(view(span.line()), exit_ok);
    EXPECT_EQ(out().find(remedy), std::string::npos) << out();
}

TEST_F(TraceView, Filter_ShowsMatchingSpansAndTheirAncestors) {
    const std::string text = agent_span("01").line() + chat_span("02", "01", "m").line() +
                             tool_span("03", "01", "bash").line() +
                             tool_span("04", "03", "other").line() +
                             tool_span("05", "03", "bash").line();
    arguments_.tool = "bash";
    EXPECT_EQ(view(text), exit_ok);
    EXPECT_NE(out().find("invoke_agent"), std::string::npos) << out();
    EXPECT_EQ(occurrences(out(), "execute_tool bash"), 2U) << out();
    EXPECT_EQ(out().find("chat m"), std::string::npos) << out();
    EXPECT_NE(out().find("2 spans are not shown"), std::string::npos) << out();
    EXPECT_NE(out().find("   `- execute_tool bash"), std::string::npos) << out();
}

TEST_F(TraceView, FailedSpan_ShowsItsError) {
    TestSpan tool = tool_span("02", "01", "bash");
    tool.status = "ERROR";
    tool.attributes["gen_ai.tool.call.result"] =
        R"({"content":[{"type":"text","text":"exit status 1\nno such file"}]})";
    EXPECT_EQ(view(agent_span("01").line() + tool.line()), exit_ok);
    EXPECT_NE(out().find("execute_tool bash ERROR"), std::string::npos) << out();
    EXPECT_NE(out().find("error: exit status 1\n"), std::string::npos) << out();
    EXPECT_NE(out().find("no such file\n"), std::string::npos) << out();
}

TEST_F(TraceView, CubeLoopNames_AreUnderstood) {
    TestSpan turn;
    turn.name = "cubeloop.turn";
    turn.id = "02";
    turn.parent = "01";
    turn.attributes["cubeloop.aborted"] = true;
    TestSpan agent = agent_span("01");
    agent.attributes["cubeloop.run.outcome"] = "suspended";
    agent.attributes["cubeloop.metadata.user"] = "me";
    EXPECT_EQ(view(turn.line() + agent.line()), exit_ok);
    EXPECT_NE(out().find("cubeloop.turn aborted"), std::string::npos) << out();
    EXPECT_NE(out().find("invoke_agent suspended"), std::string::npos) << out();
    EXPECT_NE(out().find("user=me"), std::string::npos) << out();
}

TEST_F(TraceView, Rows_FitTheTerminal) {
    std::string text = agent_span("01").line();
    for (int i = 2; i < 40; ++i)
        text += tool_span(std::to_string(10 + i), i == 2 ? "01" : std::to_string(9 + i),
                          "a-tool-with-a-long-name-漢字")
                    .line();
    screen_.style.terminal = true;
    screen_.ascii = false;
    for (const int columns : {20, 40, 60, 80, 120, 200}) {
        screen_.style.columns = columns;
        EXPECT_EQ(view(text), exit_ok);
        for (const std::string& line : lines())
            EXPECT_LE(display_width(line), static_cast<std::size_t>(columns)) << line;
    }
    EXPECT_NE(out().find("█"), std::string::npos);
}

TEST_F(TraceView, ManySpansAndDeepChain_AreShown) {
    std::string text;
    for (int i = 0; i < 20'000; ++i) {
        const std::string id = std::to_string(100'000 + i);
        text += tool_span(id, i == 0 ? "" : std::to_string(100'000 + i - 1), "t").line();
        text += tool_span("x" + id, "100000", "u").line();
    }
    EXPECT_EQ(view(text), exit_ok);
    EXPECT_NE(out().find("40000 spans"), std::string::npos);
    EXPECT_EQ(occurrences(out(), "execute_tool"), 40'000U);
}

}  // namespace cubepi::app
