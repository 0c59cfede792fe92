#include "trace_convert.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include <cubepi/core/error.hpp>

#include "exit_code.hpp"
#include "terminal/safe_json.hpp"
#include "trace_test_support.hpp"

namespace cubepi::app {
namespace {

using What = TraceArguments::What;

/// The attributes of the last call of a model in a recorded trace.
JsonObject last_call(const std::string& file) {
    const TraceSet set = read_traces({recorded_traces() / file});
    const TraceTree tree(set.traces.at(0));
    return set.line_of(*model_calls(tree, {}).back()).at("attributes").as_object();
}

TestSpan recorded_chat(std::string id, const std::string& provider, const Json& body) {
    TestSpan span = chat_span(std::move(id), "01", "some-model");
    span.attributes["gen_ai.provider.name"] = provider;
    span.attributes["cubepi.llm.raw_request"] = boost::json::serialize(body);
    return span;
}

class TraceConvert : public TraceCommandTest {
protected:
    Json body(const std::string& run, const std::string& form) {
        arguments_.run = run;
        arguments_.form = form;
        EXPECT_EQ(show(What::convert), exit_ok) << err();
        return boost::json::parse(out());
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
                                  "ANTHROPIC_BASE_URL= OPENAI_BASE_URL= sh -eu '" +
                                  command.string() + "'";
        EXPECT_EQ(std::system(shell.c_str()), 0) << out();
        return {file_text(arguments), file_text(input)};
    }
};

}  // namespace

TEST_F(TraceConvert, TheRecordedBodyIsPrintedExactly) {
    const std::map<std::string, std::string> forms = {{"anthropic.jsonl", "anthropic"},
                                                      {"openai-chat.jsonl", "openai"},
                                                      {"openai-responses.jsonl", "responses"}};
    for (const auto& [file, form] : forms) {
        const Json printed = body(recorded(file.c_str()), form);
        EXPECT_EQ(printed,
                  boost::json::parse(last_call(file).at("cubepi.llm.raw_request").as_string()));
        EXPECT_EQ(occurrences(err(), "\n"), 1U) << err();
        EXPECT_NE(err().find("the last of 2 calls"), std::string::npos) << err();
    }
}

TEST_F(TraceConvert, AnotherApiIsEncodedFromTheMessages) {
    const Json chat = body(recorded("anthropic.jsonl"), "openai");
    EXPECT_NE(err().find("encoded from the recorded messages"), std::string::npos) << err();
    EXPECT_NE(err().find("1 of type 'reasoning'"), std::string::npos) << err();
    EXPECT_NE(err().find("'claude-sonnet-4-5' is of another API"), std::string::npos) << err();
    const JsonArray& messages = chat.at("messages").as_array();
    ASSERT_EQ(messages.size(), 4U) << out();
    EXPECT_EQ(messages[0].at("content").as_string(), "Be brief.");
    EXPECT_EQ(messages[1].at("role").as_string(), "user");
    const Json& call = messages[2].at("tool_calls").at(0);
    EXPECT_EQ(call.at("function").at("name").as_string(), "add");
    EXPECT_EQ(boost::json::parse(call.at("function").at("arguments").as_string()),
              (Json{{"a", 1}, {"b", 2}}));
    EXPECT_EQ(messages[3].at("tool_call_id").as_string(), "toolu_01");
    EXPECT_EQ(chat.at("tools").at(0).at("function").at("name").as_string(), "add");
    EXPECT_DOUBLE_EQ(chat.at("temperature").to_number<double>(), 0.2);

    const Json anthropic = body(recorded("openai-chat.jsonl"), "anthropic");
    EXPECT_EQ(anthropic.at("messages").at(2).at("content").at(0).at("type").as_string(),
              "tool_result");
    EXPECT_NE(boost::json::serialize(anthropic.at("system")).find("Be brief."), std::string::npos);
    EXPECT_EQ(anthropic.at("tools").at(0).at("name").as_string(), "add");

    const Json responses = body(recorded("anthropic.jsonl"), "responses");
    EXPECT_NE(boost::json::serialize(responses.at("input")).find("function_call_output"),
              std::string::npos)
        << out();
}

TEST_F(TraceConvert, AScriptedModelHasTheMessagesOnly) {
    const Json chat = body(recorded("tool-turn-content.jsonl"), "openai");
    EXPECT_EQ(chat.at("model").as_string(), "faux-1");
    arguments_.form = "curl";
    EXPECT_EQ(show(What::convert), exit_ok);
    EXPECT_TRUE(out().starts_with("curl -sS --no-buffer \"${BASE_URL:?}/chat/completions\""))
        << out();
    EXPECT_NE(err().find("set BASE_URL"), std::string::npos) << err();
}

TEST_F(TraceConvert, CurlSendsTheBodyWithTheKeyOfTheEnvironment) {
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

TEST_F(TraceConvert, HostileTextIsDataOfTheCommand) {
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

TEST_F(TraceConvert, HeadersOfTheCallAreNotPrinted) {
    const Json sent = {{"model", "m"},
                       {"messages", JsonArray()},
                       {"extra_headers", {{"Authorization", "Bearer sk-secret"}}},
                       {"extra_body", {{"top_k", 5}}},
                       {"timeout", 3}};
    write("trace.jsonl", recorded_chat("02", "openai", sent).line());
    const Json printed = body("0123", "openai");
    EXPECT_EQ(printed, (Json{{"model", "m"}, {"messages", JsonArray()}, {"top_k", 5}}));
}

TEST_F(TraceConvert, ACallIsChosenBySpanOrNumber) {
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
        return body(run, "openai").at("number").to_number<int>();
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
    EXPECT_EQ(err(), "");
    arguments_.call = 4;
    EXPECT_NE(error_of("0123").find("has 3 calls of models"), std::string::npos);
    arguments_.call = 0;
    EXPECT_NE(error_of("d1").find("has no call of a model"), std::string::npos);
    EXPECT_NE(error_of("c").find("several spans begin with 'c'"), std::string::npos);
    EXPECT_NE(error_of("ffff").find("no trace and no span"), std::string::npos);
}

TEST_F(TraceConvert, WhatWasNotRecordedIsAnError) {
    write("trace.jsonl", chat_span("02", "01", "m").line());
    EXPECT_NE(error_of("0123").find("was not recorded"), std::string::npos);
    EXPECT_NE(error_of("0123").find("record_content"), std::string::npos);
    TestSpan redacted = recorded_chat("02", "openai", Json{{"messages", JsonArray()}});
    redacted.attributes["gen_ai.input.messages"] = "[secret]";
    write("trace.jsonl", redacted.line());
    EXPECT_EQ(body("0123", "openai"), (Json{{"messages", JsonArray()}}));
    arguments_.form = "anthropic";
    EXPECT_NE(error_of("0123").find("redacted"), std::string::npos);
    redacted.attributes["cubepi.llm.raw_request"] = "[secret]";
    write("trace.jsonl", redacted.line());
    EXPECT_NE(error_of("0123").find("redacted"), std::string::npos);
}

TEST_F(TraceConvert, CutLinesAndMissingParentsDoNotMatter) {
    const std::string line =
        recorded_chat("02", "openai", Json{{"messages", JsonArray()}, {"number", 7}}).line();
    write("trace.jsonl", line + line.substr(0, line.size() / 2));
    EXPECT_EQ(body("0123", "openai").at("number").to_number<int>(), 7);
    EXPECT_NE(err().find("1 incomplete line"), std::string::npos) << err();
}

TEST(SafeJsonLines, IsTheSameJsonIndented) {
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
