// `cubepi run` without a terminal: scripts, pipes, exit statuses.

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

#include "source_tree.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

constexpr const char* writes_a_file =
    R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
         "arguments": {"path": "new.txt", "content": "hello\n"}}]}, "Done."])";

TEST(Run, StandardOutput_ContainsOnlyTheAnswer) {
    const Home home;
    const Piped run =
        run_piped(home, {"run", "--script", home.script(R"(["Hello **you**."])"), "hi"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "Hello **you**.\n");
}

TEST(Run, Json_IsOneEventPerLine) {
    const Home home;
    const Piped run = run_piped(
        home, {"run", "--json", "--yes", "--script", home.script(writes_a_file), "write it"});
    EXPECT_EQ(run.status, 0) << run.err;
    std::vector<std::string> types;
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) {
        boost::system::error_code failed;
        const Json event = boost::json::parse(line, failed);
        ASSERT_FALSE(failed) << line;
        types.emplace_back(event.at("type").get_string());
        EXPECT_EQ(event.at("seq").to_number<std::size_t>(), types.size());
    }
    EXPECT_EQ(run.out.find("channel="), std::string::npos) << "the user has not written it";
    ASSERT_GT(types.size(), 8u);
    EXPECT_EQ(types.front(), "agent_start");
    EXPECT_EQ(types.back(), "agent_end");
    EXPECT_EQ(read_file(home.work() / "new.txt"), "hello\n");
}

TEST(Run, Json_HasToolOutputOnceAndFinalSums) {
    const Home home;
    write_file(home.work() / "a.txt", "a needle in the output\n");
    const std::string script = home.script(
        R"([{"stop_reason": "tool_use", "content":
             [{"type": "tool_call", "id": "c1", "name": "read", "arguments": {"path": "a.txt"}}]},
            "Read."])");
    const Piped run =
        run_piped(home, {"run", "--json", "--yes", "-s", "plan", "--script", script, "read it"});
    EXPECT_EQ(run.status, 0) << run.err;
    std::size_t needles = 0;
    JsonObject first;
    JsonObject last;
    std::string result_id;
    std::string named_by_turn;
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) {
        if (line.find("a needle in the output") != std::string::npos) ++needles;
        const Json event = boost::json::parse(line);
        if (first.empty()) first = event.get_object();
        last = event.get_object();
        if (event.at("type") == "message_end" && event.at("message").at("role") == "tool_result")
            result_id = event.at("message").at("id").get_string();
        if (event.at("type") == "turn_end" && !event.at("tool_result_ids").as_array().empty())
            named_by_turn = event.at("tool_result_ids").as_array()[0].get_string();
    }
    EXPECT_EQ(needles, 1u) << run.out;
    EXPECT_FALSE(result_id.empty());
    EXPECT_EQ(named_by_turn, result_id);
    EXPECT_EQ(first.at("type"), "agent_start");
    for (const JsonObject& line : {first, last}) {
        EXPECT_EQ(line.at("model"), "script");
        EXPECT_EQ(line.at("session"), "plan");
    }
    EXPECT_EQ(last.at("type"), "agent_end");
    EXPECT_EQ(last.at("status"), "completed");
    EXPECT_TRUE(last.at("error").is_null());
    EXPECT_TRUE(last.at("usage").as_object().contains("output_tokens"));
    EXPECT_TRUE(last.contains("cost"));
    EXPECT_EQ(last.at("message_ids").as_array().size(), 4u);
}

TEST(Run, JsonOfFailedRun_ReportsTheFailure) {
    const Home home;
    const std::string script = home.script(R"([{"error": "on fire"}])");
    const Piped run = run_piped(home, {"run", "--json", "--script", script, "hi"});
    EXPECT_EQ(run.status, 1) << run.err;
    const std::size_t end = run.out.find(R"("type":"agent_end")");
    ASSERT_NE(end, std::string::npos) << run.out;
    EXPECT_NE(run.out.find(R"("session":null,"status":"failed","error":"on fire")", end),
              std::string::npos)
        << run.out;
}

TEST(Run, OutputFormatJson_PrintsOneObject) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--output-format", "json", "--yes", "-s", "plan",
                                       "--script", home.script(writes_a_file), "write it"});
    EXPECT_EQ(run.status, 0) << run.err;
    const Json result = boost::json::parse(run.out);
    EXPECT_EQ(result.at("type"), "result");
    EXPECT_EQ(result.at("status"), "completed");
    EXPECT_EQ(result.at("exit_status"), 0);
    EXPECT_EQ(result.at("text"), "Done.");
    EXPECT_EQ(result.at("model"), "script");
    EXPECT_EQ(result.at("session"), "plan");
    EXPECT_EQ(result.at("model_calls"), 2);
    EXPECT_TRUE(result.at("error").is_null());
    EXPECT_TRUE(result.at("usage").as_object().contains("output_tokens"));
}

TEST(Run, OutputFormatJsonOfFailure_StatesItsError) {
    const Home home;
    const std::string script = home.script(R"([{"error": "on fire"}])");
    const Piped run = run_piped(home, {"run", "--output-format", "json", "--script", script, "hi"});
    EXPECT_EQ(run.status, 1) << run.err;
    const Json result = boost::json::parse(run.out);
    EXPECT_EQ(result.at("status"), "failed");
    EXPECT_EQ(result.at("exit_status"), 1);
    EXPECT_NE(result.at("error").as_string().find("on fire"), std::string::npos) << run.out;
}

TEST(Run, OutputFile_HasOnlyGoodAnswers) {
    const Home home;
    const std::string file = (home.work() / "answer.txt").string();
    const Piped run = run_piped(
        home, {"run", "-o", file, "--yes", "--script", home.script(writes_a_file), "write it"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(read_file(file), "Done.\n");
    const Piped failed = run_piped(
        home, {"run", "-o", file, "--script", home.script(R"([{"error": "on fire"}])"), "hi"});
    EXPECT_EQ(failed.status, 1);
    EXPECT_EQ(read_file(file), "Done.\n");
    const Piped elsewhere =
        run_piped(home, {"run", "-o", "no/such/place", "--offline", "hello there"});
    EXPECT_NE(elsewhere.status, 0);
    EXPECT_NE(elsewhere.err.find("cannot write"), std::string::npos) << elsewhere.err;
}

TEST(Run, OutputFileIsADirectory_AsksNoModel) {
    const Home home;
    for (const char* place : {".", "new/"}) {
        const Piped run = run_piped(home, {"run", "-o", place, "--offline", "hello there"});
        EXPECT_NE(run.status, 0);
        EXPECT_EQ(run.out, "");
        EXPECT_NE(run.err.find("Is a directory"), std::string::npos) << run.err;
    }
}

TEST(Run, D80_OutputSchema_MakesTheAnswerAValue) {
    const Home home;
    write_file(
        home.work() / "form.json",
        R"({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})");
    const auto answer = [](const char* id, const char* n) {
        return std::string(
                   R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": ")") +
               id + R"(", "name": "structured_output", "arguments": {"n": )" + n + "}}]}";
    };
    const std::vector<std::string> arguments = {
        "run",
        "--output-format",
        "json",
        "--output-schema",
        "form.json",
        "-o",
        "n.json",
        "--script",
        home.script("[" + answer("c1", "\"x\"") + "," + answer("c2", "7") + "]"),
        "count"};
    const Piped run = run_piped(home, arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    const Json result = boost::json::parse(run.out);
    EXPECT_EQ(result.at("value").at("n"), 7);
    EXPECT_EQ(result.at("text"), R"({"n":7})");
    EXPECT_EQ(read_file(home.work() / "n.json"), "{\"n\":7}\n");

    std::vector<std::string> plain = arguments;
    plain[2] = "text";
    EXPECT_EQ(run_piped(home, plain).out, "{\"n\":7}\n");
    std::vector<std::string> wrong = arguments;
    wrong[8] = home.script("[" + answer("c1", "\"x\"") + "," + answer("c2", "\"y\"") + "]");
    const Piped invalid = run_piped(home, wrong);
    EXPECT_EQ(invalid.status, 1) << invalid.out;
    EXPECT_EQ(boost::json::parse(invalid.out).as_object().count("value"), 0u) << invalid.out;
    plain[8] = home.script(R"(["Seven.", "Seven, really."])");
    const Piped text = run_piped(home, plain);
    EXPECT_EQ(text.status, 1) << text.out;
    EXPECT_EQ(text.out, "") << "the output is the value alone";
    EXPECT_NE(text.err.find("no answer fits --output-schema (2 attempts): the model answered with "
                            "text, which began: Seven, really.\n"),
              std::string::npos)
        << text.err;
    EXPECT_EQ(read_file(home.work() / "n.json"), "{\"n\":7}\n");
}

TEST(Run, D80_OutputSchemaWithText_PrintsTheValueOnly) {
    const Home home;
    write_file(home.work() / "form.json",
               R"({"type": "object", "required": ["n"], "properties": {"n": {}}})");
    const std::string script = home.script(
        R"([{"stop_reason": "tool_use", "content": [{"type": "text", "text": "I count."},
             {"type": "tool_call", "id": "c1", "name": "structured_output", "arguments": {"n": 7}}]}])");
    const Piped run =
        run_piped(home, {"run", "--output-schema", "form.json", "--script", script, "count"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "{\"n\":7}\n");
}

TEST(Run, WrongOutputSchema_IsAUsageError) {
    const Home home;
    write_file(home.work() / "form.json", "[]");
    for (const std::string file : {"form.json", "missing.json"}) {
        const Piped run = run_piped(home, {"run", "--output-schema", file, "--offline", "hello"});
        EXPECT_EQ(run.status, 2) << run.err;
        EXPECT_NE(run.err.find(file), std::string::npos) << run.err;
    }
}

TEST(Run, InputFormatStreamJson_AnswersEachMessage) {
    const Home home;
    const std::string script = home.script(R"(["First.", "Second."])");
    const std::string input =
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n\n"
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\","
        "\"text\":\"two\"}]}}";
    const Piped run = run_piped(
        home, {"run", "--input-format", "stream-json", "-s", "plan", "--script", script}, input);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "First.\nSecond.\n");
    for (const std::string line :
         {"{\"type\":\"x\"}", "no json", "{\"type\":\"user\",\"message\":{\"role\":\"user\"}}",
          "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}"
          "}"}) {
        const Piped refused = run_piped(
            home, {"run", "--input-format", "stream-json", "--script", script}, line + "\n");
        EXPECT_EQ(refused.status, 2) << line;
        EXPECT_NE(refused.err.find("line 1 of standard input"), std::string::npos) << refused.err;
    }
}

TEST(Run, Directory_IsWhereToolsWorkAndSessionsBelong) {
    const Home home;
    std::filesystem::create_directory(home.work() / "inner");
    const Piped run =
        run_piped(home, {"run", "-C", "inner", "-s", "plan", "-o", "answer.txt", "--yes",
                         "--script", home.script(writes_a_file), "write it"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(read_file(home.work() / "inner/new.txt"), "hello\n");
    EXPECT_EQ(read_file(home.work() / "answer.txt"), "Done.\n");
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).out.find("plan"), std::string::npos);
    EXPECT_NE(run_piped(home, {"sessions", "-C", "inner", "list"}).out.find("plan"),
              std::string::npos);
    // The commands that it prints work where it was started.
    const Piped waits = run_piped(home, {"run", "-C", "inner", "-s", "later", "--script",
                                         home.script(writes_a_file), "write it"});
    EXPECT_EQ(waits.status, 7) << waits.err;
    const std::string flag = " -C " + (home.work() / "inner").string();
    EXPECT_NE(waits.err.find("--session later" + flag), std::string::npos) << waits.err;
    EXPECT_EQ(run_piped(home, {"run", "-C", "nowhere", "--offline", "hello"}).status, 2);
}

TEST(Run, Image_AccompaniesThePrompt) {
    const Home home;
    const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0", 29);
    write_file(home.work() / "dot.png", png);
    write_file(home.work() / "text.txt", "no picture\n");
    const Piped run = run_piped(home, {"run", "--image", "dot.png", "-s", "plan", "--script",
                                       home.script(R"(["A dot."])"), "what is it?"});
    EXPECT_EQ(run.status, 0) << run.err;
    const Piped shown = run_piped(home, {"tape", "export", "--session", "plan"});
    EXPECT_NE(shown.out.find("image/png"), std::string::npos) << shown.out << shown.err;
    EXPECT_EQ(run_piped(home, {"run", "--image", "text.txt", "--offline", "hello"}).status, 2);
}

TEST(Run, PathOutside_IsTheErrorOfTheTool) {
    const Home home;
    const std::string script = home.script(
        R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
             "arguments": {"path": "/outside/x.txt", "content": "x"}}]}, "Done."])");
    for (const char* const flag : {"--yes", "--no-save"}) {
        const Piped run = run_piped(home, {"run", "--json", flag, "--script", script, "go"});
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_NE(run.out.find("/outside/x.txt"), std::string::npos) << run.out;
        EXPECT_EQ(run.out.find("Refused"), std::string::npos) << run.out;
    }
}

TEST(Run, SuspendedRun_HasOneFirstAnchor) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--script", home.script(writes_a_file), "make it"});
    EXPECT_EQ(run.status, 7) << run.err;
    const Piped tape = run_piped(home, {"tape", "export", "--session", "make-it"});
    EXPECT_NE(tape.out.find("session/start"), std::string::npos) << tape.out << tape.err;
    EXPECT_EQ(tape.out.find("Anchor created"), std::string::npos) << tape.out;
}

TEST(Run, StandardInput_AccompaniesThePrompt) {
    const Home home;
    const Piped run =
        run_piped(home, {"run", "--offline", "what", "failed?"}, "line 7: undefined\n");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find("You wrote: *what failed?"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("line 7: undefined"), std::string::npos) << run.out;
    EXPECT_EQ(run_piped(home, {"run", "--offline"}, "only this").status, 0);
}

TEST(Run, InvalidUtf8OnStandardInput_IsReplaced) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--offline", "what?"}, "caf\xe9 \xff\xfe end");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find("caf\xEF\xBF\xBD"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("end"), std::string::npos);
    EXPECT_EQ(run.out.find('\xff'), std::string::npos);
}

TEST(Run, StandardInput_IsLimited) {
    const Home home;
    const std::filesystem::path input = home.root() / "input";
    write_file(input, std::string(1024 * 1024, 'x'));
    const std::vector<std::string> command = {
        "run", "--script", home.script(R"(["Seen."])"), "--max-input", "1", "what?"};
    EXPECT_EQ(run_with_stdin(home, command, input).status, 0);
    write_file(input, std::string(1024 * 1024 + 1, 'x'));
    const Piped run = run_with_stdin(home, command, input);
    EXPECT_EQ(run.status, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_NE(run.err.find("standard input exceeds 1 MiB"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("--max-input"), std::string::npos) << run.err;
}

TEST(Run, EndlessStandardInput_EndsTheRun) {
    const Home home;
    Terminal shell(home, OtherProgram{"/bin/bash"},
                   {"-c", std::string("yes | ") + cubepi::testing::built_program("cubepi") +
                              " run --offline what?"});
    EXPECT_EQ(shell.wait(), 2);
    EXPECT_NE(shell.shown().find("standard input exceeds 64 MiB"), std::string::npos)
        << shell.shown().substr(0, 1000);
}

TEST(Run, BinaryStandardInput_IsRefusedWithTheRemedy) {
    const Home home;
    using namespace std::string_literals;
    for (const std::string& data :
         {"\x7f"
          "ELF\0\0\0"s,
          "\x89PNG\r\n\x1a\n..."s, "\xff\xd8\xff\xe0 JFIF"s, "%PDF-1.7"s}) {
        const Piped run = run_piped(home, {"run", "--offline", "describe"}, data);
        EXPECT_EQ(run.status, 2) << data;
        EXPECT_EQ(run.out, "");
        EXPECT_NE(run.err.find("standard input is binary data"), std::string::npos) << run.err;
        EXPECT_NE(run.err.find("name the path in the prompt"), std::string::npos) << run.err;
    }
}

TEST(Run, PromptWithoutCommandOrTerminal_IsARun) {
    const Home home;
    const Piped run = run_piped(home, {"--offline", "what failed?"}, "line 7: undefined\n");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find("line 7: undefined"), std::string::npos) << run.out;
    EXPECT_EQ(run_piped(home, {"sessions", "list", "--json"}).out, "[]\n") << "a run is not saved";
    EXPECT_EQ(run_piped(home, {}, "what failed?").status, 3) << "the text is a prompt";
    EXPECT_EQ(run_with_stdin(home, {}, "/dev/null").status, 2);
}

TEST(ManPage, Page_IsValidAndNamesExistingDocuments) {
    const Home home;
    write_file(home.work() / "cubepi.1", run_piped(home, {"__man"}).out);
    Terminal lint(home, OtherProgram{"/usr/bin/mandoc"}, {"-T", "lint", "-W", "error", "cubepi.1"});
    EXPECT_EQ(lint.wait(), 0) << lint.shown() << "\nmandoc is installed by tools/setup";
    for (const char* document : {"cli.md", "errors.md", "schema/agent-event.schema.json", "guides"})
        EXPECT_TRUE(std::filesystem::exists(
            std::filesystem::path(cubepi::testing::source_path("docs")) / document));
}

TEST(Run, UnsavedWriteWithoutTerminal_IsRefused) {
    const Home home;
    const Piped run =
        run_piped(home, {"run", "--no-save", "--script", home.script(writes_a_file), "write it"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.err.find("--yes"), std::string::npos) << run.err;
    EXPECT_FALSE(std::filesystem::exists(home.work() / "new.txt"));
}

/// The side state of the only tape.
std::filesystem::path state_file(const Home& home) {
    std::filesystem::path found;
    for (const auto& file : std::filesystem::directory_iterator(home.tapes())) {
        if (file.path().extension() == ".state") found = file.path();
    }
    return found;
}

TEST(Run, WriteWithoutTerminal_WaitsForItsAnswer) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--script", home.script(writes_a_file), "write it"});
    EXPECT_EQ(run.status, 7) << run.err;
    const std::size_t command = run.err.find("cubepi inbox approve ");
    ASSERT_NE(command, std::string::npos) << run.err;
    EXPECT_EQ(run.err.substr(command + 21, 31).find(" --session write-it"), 10u) << run.err;
    EXPECT_FALSE(std::filesystem::exists(home.work() / "new.txt"));
    const Piped listed = run_piped(home, {"inbox"});
    EXPECT_EQ(listed.status, 0) << listed.err;
    EXPECT_NE(listed.out.find("\twrite-it\tapprove\twrite creates new.txt, 1 line\n"),
              std::string::npos)
        << listed.out;
    EXPECT_NE(run_piped(home, {"inbox", "show", "c1"}).out.find("Session:  write-it"),
              std::string::npos);
    EXPECT_NE(run_piped(home, {"inbox", "--json"}).out.find("\"session\":\"write-it\""),
              std::string::npos);

    const Piped blocked = run_piped(home, {"run", "--continue", "--offline", "hello"});
    EXPECT_EQ(blocked.status, 7);
    EXPECT_NE(blocked.err.find("waits for an answer"), std::string::npos) << blocked.err;
    EXPECT_EQ(run_piped(home, {"inbox", "approve", "nosuch"}).status, 2);
    EXPECT_NE(run_piped(home, {"inbox", "approve", "c1"}).err.find(" --script FILE"),
              std::string::npos);
    EXPECT_EQ(run_piped(home, {"inbox", "answer", "c1", "yes"}).status, 1);
    const std::string rest = home.script("[\"Done.\"]");
    const Piped answered = run_piped(home, {"inbox", "approve", "c1", "--script", rest});
    EXPECT_EQ(answered.status, 0) << answered.err;
    EXPECT_NE(answered.out.find("Done."), std::string::npos) << answered.out;
    EXPECT_EQ(read_file(home.work() / "new.txt"), "hello\n");
    EXPECT_EQ(run_piped(home, {"inbox"}).out, "");
    EXPECT_EQ(run_piped(home, {"inbox", "approve", "c1"}).status, 1) << "it is answered";
    const std::string record = read_file(state_file(home));
    EXPECT_NE(record.find("\"channel\": \"cli:local\""), std::string::npos) << record;
    EXPECT_EQ(record.find("\"user\": \"\""), std::string::npos) << record;
}

TEST(Run, DenialOrCancellation_ClosesTheQuestionWithoutRunning) {
    const Home home;
    const std::string script = home.script(writes_a_file);
    EXPECT_EQ(run_piped(home, {"run", "--script", script, "--session", "s", "write it"}).status, 7);
    const std::string rest = home.script("[\"As you wish.\"]");
    const Piped denied = run_piped(home, {"inbox", "deny", "c1", "not now", "--script", rest});
    EXPECT_EQ(denied.status, 0) << denied.err;
    EXPECT_NE(denied.out.find("As you wish."), std::string::npos) << denied.out;
    EXPECT_EQ(run_piped(home, {"run", "--script", home.script(writes_a_file), "other"}).status, 7);
    EXPECT_EQ(run_piped(home, {"inbox", "cancel", "c1", "--offline"}).status, 0);
    EXPECT_EQ(run_piped(home, {"inbox"}).out, "");
    EXPECT_FALSE(std::filesystem::exists(home.work() / "new.txt"));
}

TEST(Run, DamagedQuestion_IsListedAndCancelled) {
    const Home home;
    const std::string script = home.script(writes_a_file);
    EXPECT_EQ(run_piped(home, {"run", "--script", script, "--session", "s", "write it"}).status, 7);
    std::string state = read_file(state_file(home));
    const std::size_t kind = state.find("\"kind\"");
    ASSERT_NE(kind, state.npos) << state;
    write_file(state_file(home), state.replace(kind, 6, "\"kin\""));
    const Piped listed = run_piped(home, {"inbox"});
    EXPECT_EQ(listed.status, 4);
    EXPECT_NE(listed.out.find("\ts\tdamaged\t"), std::string::npos) << listed.out;
    EXPECT_NE(listed.err.find("cubepi inbox cancel c1 --session s"), std::string::npos)
        << listed.err;
    EXPECT_NE(run_piped(home, {"inbox", "--json"}).out.find("\"damage\":"), std::string::npos);
    const std::string next = home.script("[\"And on.\"]");
    const Piped blocked = run_piped(home, {"run", "--script", next, "--session", "s", "continue"});
    EXPECT_EQ(blocked.status, 4);
    EXPECT_NE(blocked.err.find("cubepi inbox cancel"), std::string::npos) << blocked.err;
    EXPECT_EQ(run_piped(home, {"inbox", "approve", "c1", "--script", next}).status, 2);
    const Piped cancelled = run_piped(home, {"inbox", "cancel", "c1"});
    EXPECT_EQ(cancelled.status, 0) << cancelled.err;
    EXPECT_NE(cancelled.err.find("Discarded 1 question of session s."), std::string::npos)
        << cancelled.err;
    EXPECT_EQ(run_piped(home, {"inbox"}).out, "");
    const Piped after = run_piped(home, {"run", "--script", next, "--session", "s", "continue"});
    EXPECT_EQ(after.status, 0) << after.err;
    EXPECT_NE(after.out.find("And on."), std::string::npos) << after.out;
    EXPECT_FALSE(std::filesystem::exists(home.work() / "new.txt"));
}

TEST(Run, Yes_AllowsAWrite) {
    const Home home;
    const Piped run =
        run_piped(home, {"run", "--yes", "--script", home.script(writes_a_file), "write it"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(read_file(home.work() / "new.txt"), "hello\n");
}

TEST(Run, ConfiguredRule_AllowsAWrite) {
    const Home home;
    write_file(home.config(), "allow: [\"write: *\"]\n");
    const Piped run = run_piped(home, {"run", "--script", home.script(writes_a_file), "write it"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(read_file(home.work() / "new.txt"), "hello\n");
}

TEST(Run, Rule_AllowsItsCommandInItsDirectory) {
    const Home home;
    const std::string script = home.script(
        R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "shell",
             "arguments": {"command": "touch made"}}]}, "Done."])");
    const auto run = [&](const std::string& rule) {
        write_file(home.config(), "allow: [\"" + rule + "\"]\n");
        return run_piped(home, {"run", "--script", script, "go"});
    };
    const std::string work = std::filesystem::canonical(home.work()).string();
    const Piped earlier = run("shell: touch made");
    EXPECT_NE(earlier.err.find("The rule 'shell: touch made' in " + home.config().string() +
                               " has no effect: "),
              std::string::npos)
        << earlier.err;
    EXPECT_NE(earlier.err.find("shell: cd /DIRECTORY && touch made"), std::string::npos);
    for (const std::string& rule : {"shell: cd " + work + "/sub && touch made",
                                    "shell: cd " + work + " && touch made other"}) {
        (void)run(rule);
        EXPECT_FALSE(std::filesystem::exists(home.work() / "made")) << rule;
    }
    const Piped allowed = run("shell: cd " + work + " && touch made");
    EXPECT_TRUE(std::filesystem::exists(home.work() / "made")) << allowed.err;
}

TEST(Run, LinkToProtectedPath_NoRuleAllowsWrites) {
    const Home home;
    std::filesystem::create_directory(home.work() / ".git");
    write_file(home.work() / ".git" / "config", "");
    std::filesystem::create_symlink(".git/config", home.work() / "notes.md");
    write_file(home.config(), "allow: [\"write: *\"]\n");
    const std::string script = home.script(
        R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
             "arguments": {"path": "notes.md", "content": "[core]"}}]}, "Done."])");
    const Piped run = run_piped(home, {"run", "--no-save", "--script", script, "go"});
    EXPECT_NE(run.err.find("Refused"), std::string::npos) << run.err;
    EXPECT_EQ(read_file(home.work() / ".git" / "config"), "");
}

TEST(Run, InstructionFiles_AreNamed) {
    const Home home;
    const auto notices = [&home] {
        return run_piped(home, {"run", "--trust", "--offline", "hello"}).err;
    };
    EXPECT_EQ(notices().find("Loaded"), std::string::npos);
    write_file(home.work() / "AGENTS.md", "Tabs.\n");
    EXPECT_NE(notices().find("Loaded AGENTS.md (6 bytes)\n"), std::string::npos) << notices();
    std::filesystem::remove(home.work() / "AGENTS.md");
    std::filesystem::create_symlink("/proc/self/environ", home.work() / "AGENTS.md");
    EXPECT_EQ(notices().find("Loaded"), std::string::npos);
    EXPECT_NE(notices().find("AGENTS.md is not loaded: AGENTS.md is or contains a symbolic link"),
              std::string::npos)
        << notices();
}

TEST(Run, ClosedPipe_EndsTheRunQuietly) {
    const Home home;
    EXPECT_EQ(run_with_closed_output(home, {"run", "--offline", "hello"}), 141);
}

TEST(Run, ClosedPipe_LeavesNoCommandBehind) {
    const Home home;
    const std::string stays = home.script(
        R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "shell",
             "arguments": {"command": "echo $$ > pid; exec sleep 1000", "background": true}}]},
            {"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c2", "name": "shell",
             "arguments": {"command": "until [ -s pid ]; do :; done"}}]}, "Done."])");
    EXPECT_EQ(run_with_closed_output(home, {"run", "--yes", "--script", stays, "go"}), 141);
    const auto pid = static_cast<pid_t>(std::stol(read_file(home.work() / "pid")));
    EXPECT_EQ(kill(pid, 0), -1) << "the command still runs";
}

TEST(Run, UnwritableAnswer_IsAFailure) {
    const Home home;
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"run", "--offline", "hello"},
          std::vector<std::string>{"run", "--json", "--offline", "hello"},
          std::vector<std::string>{"--help"}, std::vector<std::string>{"--version"}}) {
        const Piped run = run_into(home, arguments, "/dev/full");
        EXPECT_EQ(run.status, 1) << arguments.back();
        EXPECT_NE(run.err.find("could not be written"), std::string::npos) << run.err;
    }
}

TEST(ExitStatus, FailureKind_DeterminesTheExitStatus) {
    const Home home;
    EXPECT_EQ(run_piped(home, {"run", "--nope", "x"}).status, 2);
    EXPECT_EQ(run_piped(home, {"fly"}).status, 2);
    const Piped silent = run_piped(home, {"run", "--offline"});
    EXPECT_EQ(silent.status, 2);
    EXPECT_NE(silent.err.find("the prompt is empty"), std::string::npos) << silent.err;
    const Piped failed =
        run_piped(home, {"run", "--script", home.script(R"([{"error": "on fire"}])"), "x"});
    EXPECT_EQ(failed.status, 1);
    EXPECT_NE(failed.err.find("on fire"), std::string::npos) << failed.err;
    EXPECT_EQ(run_piped(home, {"run", "--script", "/nowhere.json", "x"}).status, 2);
    EXPECT_EQ(run_piped(home, {"run", "--script", home.script("{nonsense"), "x"}).status, 2);
    EXPECT_EQ(run_piped(home, {"run", "--provider", "oracle", "x"}).status, 2);
    const Piped down =
        run_piped(home, {"run", "--base-url", "http://127.0.0.1:9/v1", "-m", "m", "x"});
    EXPECT_EQ(down.status, 1);
    EXPECT_NE(down.err.find("cubepi doctor"), std::string::npos) << down.err;
    EXPECT_EQ(run_piped(home, {"--version"}).status, 0);
    EXPECT_EQ(run_piped(home, {"--help"}).status, 0);
}

TEST(ExitStatus, Limit_IsFive) {
    const Home home;
    write_file(home.work() / "a.txt", "x\n");
    const std::string reads =
        R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c",
        "name": "read", "arguments": {"path": "a.txt"}}]})";
    const Piped run =
        run_piped(home, {"run", "--max-turns", "2", "--script",
                         home.script("[" + reads + "," + reads + "," + reads + "]"), "x"});
    EXPECT_EQ(run.status, 5) << run.err;
}

TEST(Configuration, InvalidFile_IsNamedWithItsLine) {
    const Home home;
    write_file(home.config(), "model: x\nmodle: y\n");
    const Piped run = run_piped(home, {"run", "--offline", "x"});
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.err.find("config.yaml:2: unknown key 'modle'"), std::string::npos) << run.err;
}

TEST(Models, Failures_NamePlaceAndRemedy) {
    Home home;
    const Piped down = run_piped(home, {"models", "--base-url", "http://127.0.0.1:9/v1"});
    EXPECT_EQ(down.status, 1);
    EXPECT_NE(down.err.find("cannot reach 127.0.0.1:9"), std::string::npos) << down.err;
    EXPECT_EQ(down.out, "");
    const Piped unknown = run_piped(home, {"models", "--provider", "oracle"});
    EXPECT_EQ(unknown.status, 2);
    EXPECT_NE(unknown.err.find("unknown provider 'oracle'"), std::string::npos) << unknown.err;
    const Piped keyless = run_piped(home, {"run", "--provider", "anthropic", "x"});
    EXPECT_EQ(keyless.status, 3);
    EXPECT_NE(keyless.err.find("export ANTHROPIC_API_KEY"), std::string::npos) << keyless.err;
    write_file(home.config(),
               "provider: work\nproviders:\n  work: {type: anthropic, base_url: "
               "\"http://127.0.0.1:9\", model: m, api_key: very-secret-key}\n");
    const Piped named = run_piped(home, {"run", "hello"});
    EXPECT_EQ(named.status, 1);
    EXPECT_NE(named.err.find("cannot reach m at 127.0.0.1:9"), std::string::npos) << named.err;
}

TEST(Doctor, AllProviders_AreKnown) {
    Home home;
    write_file(home.config(),
               "providers:\n  work: {type: anthropic, base_url: \"http://127.0.0.1:9\", "
               "api_key_env: WORK_KEY}\n");
    home.set("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/anthropic");
    home.set("ANTHROPIC_API_KEY", "very-secret-key");
    const Piped doctor = run_piped(home, {"doctor"});
    EXPECT_EQ(doctor.status, 3) << doctor.out;
    for (const char* text :
         {"ANTHROPIC_API_KEY is set", "ANTHROPIC_BASE_URL: 127.0.0.1:9",
          "provider work at 127.0.0.1:9", "names WORK_KEY for the key, and it is not set",
          "there is no key for work", "export WORK_KEY=...", "cannot reach 127.0.0.1:9"}) {
        EXPECT_NE(doctor.out.find(text), std::string::npos) << text << "\n" << doctor.out;
    }
    EXPECT_EQ(doctor.out.find("Check: cubepi doctor"), std::string::npos) << doctor.out;
    EXPECT_NE(doctor.out.find("Is the server running?"), std::string::npos) << doctor.out;
    EXPECT_EQ(doctor.out.find("very-secret"), std::string::npos);
}

TEST(Doctor, InvalidRule_IsReportedAndEndsAConversation) {
    const Home home;
    const std::string place = "'allow' in " + home.config().string() + ": ";
    for (const std::string rule : {"shell git", "edit: a.txt"}) {
        write_file(home.config(), "allow: [\"" + rule + "\"]\n");
        const Piped doctor = run_piped(home, {"doctor"});
        EXPECT_NE(doctor.out.find(place), std::string::npos) << doctor.out;
        EXPECT_NE(doctor.out.find("Correct it: "), std::string::npos) << doctor.out;
        const Piped run = run_piped(home, {"run", "--offline", "hi"});
        EXPECT_EQ(run.status, 2) << run.err;
        EXPECT_NE(run.err.find(place), std::string::npos) << run.err;
    }
}

TEST(Doctor, D142_HookThatMissesTools_IsReported) {
    const Home home;
    write_file(home.config(),
               "hooks: {PreToolUse: [{matcher: Bash, hooks: [{command: exit 2}]}]}\n");
    const std::string note =
        "The hook PreToolUse for 'Bash' misses calls: here the names of these tools are: shell.";
    const Piped doctor = run_piped(home, {"doctor"});
    EXPECT_NE(doctor.out.find(note), std::string::npos) << doctor.out;
    const Piped run = run_piped(home, {"run", "--offline", "hi"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.err.find(note), std::string::npos) << run.err;
}

TEST(Doctor, GatewayTokens_AreFoundInEnvironmentAndFile) {
    Home home;
    write_file(home.config(), "gateway: {http: {}, telegram: {users: [7]}}\n");
    const std::string missing = run_piped(home, {"doctor"}).out;
    EXPECT_NE(missing.find("CUBEPI_HTTP_TOKEN is not set"), std::string::npos) << missing;
    EXPECT_NE(missing.find("TELEGRAM_BOT_TOKEN is not set"), std::string::npos) << missing;
    home.set("CUBEPI_HTTP_TOKEN", "very-secret");
    write_file(home.config().parent_path() / "gateway.env",
               "# tokens\nTELEGRAM_BOT_TOKEN=42:very-secret\n");
    const std::string found = run_piped(home, {"doctor"}).out;
    EXPECT_EQ(found.find("_TOKEN is not set"), std::string::npos) << found;
    EXPECT_EQ(found.find("very-secret"), std::string::npos) << found;
}

TEST(GatewayToken, ShortToken_IsRefusedAndReported) {
    Home home;
    write_file(home.config(), "gateway: {http: {listen: \"127.0.0.1:0\"}}\n");
    home.set("CUBEPI_HTTP_TOKEN", "x");
    const char* const problem = "the token in CUBEPI_HTTP_TOKEN has fewer than 16 characters";
    const Piped gateway = run_piped(home, {"gateway", "--offline"});
    EXPECT_NE(gateway.status, 0);
    EXPECT_NE(gateway.err.find(problem), std::string::npos) << gateway.err;
    EXPECT_NE(gateway.err.find("openssl rand"), std::string::npos) << gateway.err;
    EXPECT_NE(run_piped(home, {"doctor", "--offline"}).out.find(problem), std::string::npos);
}

TEST(Doctor, RulesThatAllowNothing_AreReported) {
    const Home home;
    write_file(home.config(), "allow: [\"shell: make test\", \"shell: ls\", \"write: *\"]\n");
    const Piped doctor = run_piped(home, {"doctor"});
    EXPECT_NE(doctor.out.find("allow: 3 rules"), std::string::npos) << doctor.out;
    EXPECT_NE(doctor.out.find("'shell: make test' in"), std::string::npos) << doctor.out;
    EXPECT_EQ(doctor.out.find("'shell: ls' in"), std::string::npos) << doctor.out;
}

TEST(Doctor, Report_ShowsSettingsAndNeverTheKey) {
    Home home;
    write_file(home.config(),
               "model: m\nbase_url: http://127.0.0.1:9/v1\napi_key: very-secret-key\n"
               "compact_at: 0.5\ncompact_model: small\n");
    std::filesystem::permissions(home.config(), std::filesystem::perms(0644));
    home.set("PATH", home.root().string() + ":/usr/bin:/bin");
    write_file(home.root() / "cubepi", "#!/bin/sh\n");
    std::filesystem::permissions(home.root() / "cubepi", std::filesystem::perms(0755));
    const Piped doctor = run_piped(home, {"doctor"});
    EXPECT_EQ(doctor.status, 3) << doctor.out;
    for (const char* text :
         {"compact_at: 0.5", "compact_model: small", "another cubepi comes first on PATH",
          "chmod 600", "api_key: set", "OPENAI_API_KEY is not set", "cannot reach 127.0.0.1:9",
          "no configured model is available", "--offline"}) {
        EXPECT_NE(doctor.out.find(text), std::string::npos) << text << "\n" << doctor.out;
    }
    EXPECT_EQ(doctor.out.find("very-secret"), std::string::npos);
}

TEST(Chat, FileNullDeviceOrNoInput_IsRead) {
    const Home home;
    write_file(home.work() / "talk", "hello\n/quit\n");
    const Piped file = run_with_stdin(home, {"chat", "--offline"}, home.work() / "talk");
    EXPECT_EQ(file.status, 0) << file.err;
    EXPECT_EQ(file.out.find("You wrote: *hello*"), 0u) << file.out;
    EXPECT_EQ(run_with_stdin(home, {"chat", "--offline"}, "/dev/null").status, 0);
    EXPECT_EQ(run_with_stdin(home, {"chat", "--offline"}, {}).status, 0);
    EXPECT_EQ(run_with_stdin(home, {"run", "--offline", "hi"}, {}).status, 0);
}

}  // namespace
}  // namespace cubepi::terminal_tests
