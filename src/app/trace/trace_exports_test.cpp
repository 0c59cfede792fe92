#include "trace_views.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

#include "failure.hpp"
#include "terminal/terminal_text.hpp"
#include "trace_test_support.hpp"

namespace cubepi::app {
namespace {

/// Ends script elements, begins elements, and looks like a handler.
constexpr const char* hostile =
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<!-- ' \" ` ${1}";

class TracePageTest : public TraceCommandTest {
protected:
    std::filesystem::path write_page() {
        TestSpan chat = chat_span("03", "02", "m");
        chat.attributes["gen_ai.output.messages"] =
            R"([{"role":"assistant","parts":[{"type":"text","content":"A needle in the answer"}]}])";
        chat.attributes["evil"] = hostile;
        TestSpan tool = tool_span("04", "02", hostile);
        tool.status = "ERROR";
        TestSpan turn = agent_span("02", "01");
        turn.name = "cubepi.turn";
        write("t.jsonl", chat.line() + tool.line() + turn.line() + agent_span("01").line());
        arguments_.run = (temporary_.path() / "t.jsonl").string();
        arguments_.html = true;
        arguments_.output = (temporary_.path() / "page.html").string();
        EXPECT_EQ(show(TraceArguments::What::view), 0) << err();
        return arguments_.output;
    }

    /// The document after the page's script has run in a browser without a network.
    static std::string dom(const std::filesystem::path& page, const std::string& search = {},
                           const std::string& settings = {}) {
        const std::string command =
            "chromium-headless-shell --no-sandbox --disable-gpu --disable-dev-shm-usage "
            "--host-resolver-rules='MAP * ~NOTFOUND' " +
            settings + " --user-data-dir='" + page.parent_path().string() +
            "/browser' --dump-dom 'file://" + page.string() +
            (search.empty() ? "" : "#search=" + search) + "' 2>/dev/null";
        const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
        std::string text;
        std::array<char, 4096> buffer = {};
        while (pipe && fgets(buffer.data(), buffer.size(), pipe.get())) text += buffer.data();
        return text;
    }

    /// The text that a script of the test writes into the page, as its user's clicks would change it.
    std::string result_of(const std::filesystem::path& page, const std::string& script,
                          const std::string& settings = {}) {
        std::string text = file_text(page);
        // The page's policy allows no script but its own.
        const std::size_t policy = text.find("Content-Security-Policy");
        EXPECT_NE(policy, std::string::npos);
        text.replace(policy, std::string_view("Content-Security-Policy").size(), "x-none");
        const std::size_t end = text.find("</body>");
        EXPECT_NE(end, std::string::npos);
        text.insert(end,
                    "<script>document.title = '[' + (() => {" + script + "})() + ']';</script>");
        const std::string document = dom(write("scripted.html", text), {}, settings);
        const std::size_t begin = document.find("<title>[");
        const std::size_t close = document.find("]</title>");
        if (begin == std::string::npos || close == std::string::npos) return document;
        return document.substr(begin + 8, close - begin - 8);
    }
};

using What = TraceArguments::What;

/// The attributes of the last call of a model in a recorded trace.
JsonObject last_call(const std::string& file) {
    const TraceSet set = read_traces({recorded_traces() / file});
    return set.line_of(*model_calls(set.traces.at(0), {}).back()).at("attributes").as_object();
}

TestSpan recorded_chat(std::string id, const std::string& provider, const Json& body) {
    TestSpan span = chat_span(std::move(id), "01", "some-model");
    span.attributes["gen_ai.provider.name"] = provider;
    span.attributes["cubepi.llm.raw_request"] = boost::json::serialize(body);
    return span;
}

class TraceConvert : public TraceCommandTest {
protected:
    /// The body that curl would send.
    Json body(const std::string& run) {
        arguments_.run = run;
        EXPECT_EQ(show(What::convert), exit_ok) << err();
        constexpr std::string_view begin = "<<'END'\n";
        const std::size_t at = out().find(begin) + begin.size();
        return boost::json::parse(out().substr(at, out().rfind("\nEND\n") - at));
    }
    std::string recorded(const char* file) { return (recorded_traces() / file).string(); }
    std::string error_of(const std::string& run) {
        arguments_.run = run;
        try {
            show(What::convert);
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    /// The arguments and the input of the program curl when a shell runs the command that was printed.
    struct Called {
        std::string arguments = {};
        std::string input = {};
    };
    Called run_curl() {
        const std::filesystem::path bin = temporary_.path() / "bin";
        const std::string arguments = (bin / "arguments").string();
        const std::string input = (bin / "input").string();
        const std::filesystem::path program =
            write("bin/curl", "#!/bin/sh\nprintf '%s\\n' \"$@\" > '" + arguments + "'\ncat > '" +
                                  input + "'\n");
        std::filesystem::permissions(program, std::filesystem::perms::owner_all);
        const std::filesystem::path command = write("bin/command", out());
        const std::string shell = "cd '" + bin.string() + "' && PATH='" + bin.string() +
                                  "':$PATH OPENAI_API_KEY=k-openai ANTHROPIC_API_KEY=k-anthropic "
                                  "GEMINI_API_KEY=k-gemini ANTHROPIC_BASE_URL= OPENAI_BASE_URL= "
                                  "GEMINI_BASE_URL= sh -eu '" +
                                  command.string() + "'";
        EXPECT_EQ(std::system(shell.c_str()), 0) << out();
        return {file_text(arguments), file_text(input)};
    }
};

}  // namespace

TEST_F(TracePageTest, Page_IsOneFileForItsOwnerOnly) {
    const std::filesystem::path page = write_page();
    const std::string text = file_text(page);
    EXPECT_EQ(text.find("http:"), std::string::npos);
    EXPECT_EQ(text.find("https:"), std::string::npos);
    EXPECT_EQ(text.find("<script>document"), std::string::npos);
    EXPECT_NE(text.find("default-src 'none'"), std::string::npos);
    struct stat info = {};
    ASSERT_EQ(stat(page.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_THROW((void)show(TraceArguments::What::view), Error) << "it is not replaced";
}

TEST_F(TracePageTest, Browser_ShowsTheSpans) {
    const std::string document = dom(write_page());
    EXPECT_EQ(occurrences(document, "class=\"row "), 5u) << document;  // with the heading
    EXPECT_NE(document.find("chat m"), std::string::npos);
    EXPECT_NE(document.find("<title>trace 0123456789"), std::string::npos) << document;
    EXPECT_EQ(document.find("owned</title>"), std::string::npos);
    EXPECT_EQ(document.find("<img"), std::string::npos);
}

TEST_F(TracePageTest, Click_TogglesTheMessagesOfASpan) {
    const std::string script = R"(
        const row = document.querySelector('.row.chat');
        const texts = () => [...document.querySelectorAll('.details')].map((one) => one.textContent);
        const before = texts().length;
        row.click();
        const shown = texts();
        row.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
        return [before, shown.length, shown[0].includes('A needle in the answer'), texts().length,
                row.getAttribute('aria-expanded')].join(' ');)";
    EXPECT_EQ(result_of(write_page(), script), "0 1 true 0 false");
}

TEST_F(TracePageTest, FoldedSpan_HidesItsDescendants) {
    const std::string script = R"(
        const visible = () => [...document.querySelectorAll('#rows .row')]
            .filter((row) => row.offsetHeight > 0).length;
        const all = visible();
        document.getElementById('close').click();
        const folded = visible();
        document.getElementById('open').click();
        return [all, folded, visible()].join(' ');)";
    EXPECT_EQ(result_of(write_page(), script), "4 1 4");
}

TEST_F(TracePageTest, Bars_ShowStartAndDurationOfSpans) {
    TestSpan first = chat_span("02", "01", "early");
    first.end = 500;
    TestSpan second = chat_span("03", "01", "late");
    second.start = 500;
    second.end = 750;
    write("t.jsonl", first.line() + second.line() + agent_span("01").line());
    arguments_.run = (temporary_.path() / "t.jsonl").string();
    arguments_.html = true;
    arguments_.output = (temporary_.path() / "page.html").string();
    ASSERT_EQ(show(TraceArguments::What::view), 0) << err();
    const std::string script = R"(
        return [...document.querySelectorAll('#rows .row')].map((row) => {
            const track = row.querySelector('.track').getBoundingClientRect();
            const bar = row.querySelector('i').getBoundingClientRect();
            const share = (x) => Math.round(100 * x / track.width);
            return share(bar.left - track.left) + '+' + share(bar.width);
        }).join(' ');)";
    EXPECT_EQ(result_of(arguments_.output, script, "--window-size=1600,900"), "0+100 0+50 50+25");
}

TEST_F(TracePageTest, ColorScheme_FollowsTheBrowser) {
    const std::string script = R"(
        const style = getComputedStyle(document.body);
        return style.backgroundColor + ' ' + style.color;)";
    const std::filesystem::path page = write_page();
    EXPECT_EQ(result_of(page, script, "--blink-settings=preferredColorScheme=1"),
              "rgb(255, 255, 255) rgb(29, 33, 41)");
    EXPECT_EQ(result_of(page, script, "--blink-settings=preferredColorScheme=0"),
              "rgb(22, 24, 29) rgb(230, 232, 236)");
}

TEST_F(TracePageTest, Search_ShowsMatchesAndTheirAncestors) {
    const std::string document = dom(write_page(), "needle");
    EXPECT_NE(document.find("1 span found"), std::string::npos) << document;
    EXPECT_EQ(occurrences(document, "style=\"display: none"), 1u) << document;  // the tool
}

TEST_F(TraceConvert, RecordedBody_IsPrintedExactly) {
    for (const char* file : {"anthropic.jsonl", "openai-chat.jsonl", "openai-responses.jsonl"}) {
        const Json printed = body(recorded(file));
        EXPECT_EQ(printed,
                  boost::json::parse(last_call(file).at("cubepi.llm.raw_request").as_string()));
        EXPECT_EQ(occurrences(err(), "\n"), 1U) << err();
        EXPECT_NE(err().find("the last of 2 calls"), std::string::npos) << err();
    }
}

TEST_F(TraceConvert, ScriptedModelRequest_IsRefused) {
    EXPECT_NE(error_of(recorded("tool-turn-content.jsonl")).find("scripted model"),
              std::string::npos);
}

TEST_F(TraceConvert, Curl_SendsBodyWithKeyOfEnvironment) {
    setenv("OPENAI_API_KEY", "sk-secret-of-this-process", 1);
    arguments_.run = recorded("openai-responses.jsonl");
    EXPECT_EQ(show(What::convert), exit_ok);
    EXPECT_EQ(out().find("sk-secret"), std::string::npos);
    unsetenv("OPENAI_API_KEY");
    const Called openai = run_curl();
    EXPECT_NE(openai.arguments.find("https://api.openai.com/v1/responses\n"), std::string::npos);
    EXPECT_NE(openai.arguments.find("Authorization: Bearer k-openai\n"), std::string::npos);
    EXPECT_EQ(boost::json::parse(openai.input),
              boost::json::parse(
                  last_call("openai-responses.jsonl").at("cubepi.llm.raw_request").as_string()));

    arguments_.run = recorded("anthropic.jsonl");
    EXPECT_EQ(show(What::convert), exit_ok);
    const Called anthropic = run_curl();
    EXPECT_NE(anthropic.arguments.find("https://api.anthropic.com/v1/messages\n"),
              std::string::npos);
    EXPECT_NE(anthropic.arguments.find("x-api-key: k-anthropic\n"), std::string::npos);
    EXPECT_NE(anthropic.arguments.find("anthropic-version: 2023-06-01\n"), std::string::npos);
}

TEST_F(TraceConvert, HostileText_IsDataOfTheCommand) {
    const std::string evil =
        "'\"; touch owned; $(touch owned) `touch owned`\nEND\ntouch owned\n\x1b[2J\x07";
    const Json sent = {
        {"model", evil}, {"messages", {{{"role", "user"}, {"content", evil}}}}, {evil, evil}};
    TestSpan span = recorded_chat("02", "unknown:" + evil, sent);
    write("trace.jsonl", span.line());
    screen_.style.terminal = true;
    arguments_.run = "0123";
    EXPECT_EQ(show(What::convert), exit_ok);
    EXPECT_EQ(out().find_first_of("\x1b\x07"), std::string::npos);
    EXPECT_EQ(err().find_first_of("\x1b\x07"), std::string::npos);
    setenv("BASE_URL", "http://127.0.0.1:1", 1);
    setenv("API_KEY", "k-any", 1);
    const Called called = run_curl();
    unsetenv("BASE_URL");
    unsetenv("API_KEY");
    EXPECT_EQ(boost::json::parse(called.input), sent);
    EXPECT_FALSE(std::filesystem::exists(temporary_.path() / "bin" / "owned"));
}

TEST_F(TraceConvert, GeminiCall_NamesItsModelInTheAddress) {
    const Json sent = {{"contents", JsonArray()}};
    TestSpan span = recorded_chat("02", "gcp.gemini", sent);
    span.attributes["gen_ai.request.model"] = "gemini-3.8-flash$(touch owned)";
    write("trace.jsonl", span.line());
    arguments_.run = "0123";
    EXPECT_EQ(show(What::convert), exit_ok) << err();
    const Called called = run_curl();
    EXPECT_EQ(boost::json::parse(called.input), sent);
    EXPECT_NE(called.arguments.find("https://generativelanguage.googleapis.com/v1beta/models/"
                                    "gemini-3.8-flash%24%28touch%20owned%29:streamGenerateContent"),
              std::string::npos)
        << called.arguments;
    EXPECT_NE(called.arguments.find("x-goog-api-key: k-gemini"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(temporary_.path() / "bin" / "owned"));
}

TEST_F(TraceConvert, CallHeaders_AreNotPrinted) {
    const Json sent = {{"model", "m"},
                       {"messages", JsonArray()},
                       {"extra_headers", {{"Authorization", "Bearer sk-secret"}}},
                       {"extra_body", {{"top_k", 5}}},
                       {"timeout", 3}};
    write("trace.jsonl", recorded_chat("02", "openai", sent).line());
    const Json printed = body("0123");
    EXPECT_EQ(printed, (Json{{"model", "m"}, {"messages", JsonArray()}, {"top_k", 5}}));
}

TEST_F(TraceConvert, SpanOrNumber_SelectsTheCall) {
    std::string text;
    for (int i = 1; i <= 3; ++i) {
        TestSpan span = recorded_chat("c" + std::to_string(i), "openai",
                                      Json{{"messages", JsonArray()}, {"number", i}});
        span.parent = "t" + std::to_string(i);
        span.start = i * 1000;
        span.end = span.start + 1;
        TestSpan turn;
        turn.name = "cubepi.turn";
        turn.id = span.parent;
        turn.parent = "01";
        text += span.line() + turn.line();
    }
    write("2026-11-21/" + TestSpan().trace + ".jsonl",
          text + tool_span("d1", "01", "t").line() + agent_span("01").line());
    const auto number = [this](const std::string& run) {
        return body(run).at("number").to_number<int>();
    };
    EXPECT_EQ(number("0123"), 3) << "the last";
    EXPECT_EQ(number(""), 3) << "of the newest trace";
    EXPECT_EQ(number("0xc1"), 1) << "a span of any trace";
    EXPECT_EQ(number("t2"), 2) << "the call below a turn";
    arguments_.span = "0xt1";
    EXPECT_EQ(number("0123"), 1);
    arguments_.span.clear();
    arguments_.call = 2;
    EXPECT_EQ(number("0123"), 2);
    EXPECT_EQ(err().find("the last of"), std::string::npos) << err();
    arguments_.call = 4;
    EXPECT_NE(error_of("0123").find("has 3 calls of models"), std::string::npos);
    arguments_.call = 0;
    EXPECT_NE(error_of("d1").find("has no call of a model"), std::string::npos);
    EXPECT_NE(error_of("c").find("several spans begin with 'c'"), std::string::npos);
    EXPECT_NE(error_of("ffff").find("no trace and no span"), std::string::npos);
}

TEST_F(TraceConvert, UnrecordedBody_IsAnError) {
    write("trace.jsonl", chat_span("02", "01", "m").line());
    EXPECT_NE(error_of("0123").find("was not recorded"), std::string::npos);
    EXPECT_NE(error_of("0123").find("record_content"), std::string::npos);
    TestSpan redacted = recorded_chat("02", "openai", Json{{"messages", JsonArray()}});
    redacted.attributes["gen_ai.input.messages"] = "[secret]";
    write("trace.jsonl", redacted.line());
    EXPECT_EQ(body("0123"), (Json{{"messages", JsonArray()}}));
    redacted.attributes["cubepi.llm.raw_request"] = "[secret]";
    write("trace.jsonl", redacted.line());
    EXPECT_NE(error_of("0123").find("redacted"), std::string::npos);
}

TEST_F(TraceConvert, CutLinesAndMissingParents_DoNotMatter) {
    const std::string line =
        recorded_chat("02", "openai", Json{{"messages", JsonArray()}, {"number", 7}}).line();
    write("trace.jsonl", line + line.substr(0, line.size() / 2));
    EXPECT_EQ(body("0123").at("number").to_number<int>(), 7);
    EXPECT_NE(err().find("1 incomplete line"), std::string::npos) << err();
}

TEST(SafeJsonLines, Indentation_KeepsTheJsonValue) {
    const Json value = {{"a", JsonArray()},
                        {"b", {1, {{"c", "x{\"\\\","}}, JsonObject()}},
                        {"d", "\x1b\n\xe2\x80\xae"}};
    const std::string text = safe_json_lines(value);
    EXPECT_EQ(boost::json::parse(text), value);
    EXPECT_EQ(text,
              "{\n  \"a\": [],\n  \"b\": [\n    1,\n    {\n      \"c\": \"x{\\\"\\\\\\\",\"\n    "
              "},\n    {}\n  ],\n  \"d\": \"\\u001b\\n\\u202e\"\n}");
    EXPECT_EQ(safe_json_lines("x"), "\"x\"");
    EXPECT_EQ(safe_json(Json(0.25)), "0.25") << "for readers, not 2.5E-1";
}

}  // namespace cubepi::app
