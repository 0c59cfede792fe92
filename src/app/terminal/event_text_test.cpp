#include "event_text.hpp"

#include <gtest/gtest.h>

namespace cubepi::app {
namespace {

std::string outcome(const char* tool, std::string text, Json details, bool is_error = false) {
    ToolExecutionEndEvent event;
    event.tool_name = tool;
    event.result = AgentToolResult(std::move(text));
    event.result.details = std::move(details);
    event.is_error = is_error;
    return outcome_text(event);
}

TEST(SubagentText, D186_Progress_NamesCallAndWork) {
    const Json progress =
        JsonObject{{"subagent",
                    JsonObject{{"turns", 1},
                               {"calls", 2},
                               {"input_tokens", 12000},
                               {"output_tokens", 340},
                               {"cost", 0.021},
                               {"call", JsonObject{{"tool", "write"},
                                                   {"arguments", JsonObject{{"path", "a\x1b[2J.md"},
                                                                            {"content", "x"}}}}}}}};
    const std::optional<SubagentWork> work = subagent_work(progress);
    ASSERT_TRUE(work);
    EXPECT_EQ(work_text(*work), "2 calls, 12.3k tokens, $0.02100");
    EXPECT_EQ(subagent_call(progress), "write a^[[2J.md");
    SubagentWork short_work;
    short_work.turns = 1;
    EXPECT_EQ(work_text(short_work), "1 turn");
    // A server or a stored session may have anything there.
    for (const Json& broken :
         {Json(), Json("x"), Json(JsonObject{{"subagent", 1}}),
          Json(JsonObject{{"subagent", JsonObject{{"call", "x"}}}}),
          Json(JsonObject{{"subagent", JsonObject{{"call", JsonObject{{"tool", 1}}}}}})})
        EXPECT_EQ(subagent_call(broken), "");
}

TEST(OutcomeText, Outcome_SaysWhatHappened) {
    EXPECT_EQ(outcome("read", "     1\t#include\n", JsonObject{{"lines", 7}}), "read 7 lines");
    EXPECT_EQ(outcome("read", "     1\tx\n", JsonObject{{"lines", 1}}), "read 1 line");
    EXPECT_EQ(outcome("grep", "a:1: x\n", JsonObject{{"matches", 3}, {"files", 2}}),
              "3 matches in 2 files");
    EXPECT_EQ(outcome("grep", "(no matches)\n", JsonObject{{"matches", 0}, {"files", 0}}),
              "no matches");
    EXPECT_EQ(outcome("list", "a\nb\n", JsonObject{{"entries", 2}}), "listed 2 entries");
    EXPECT_EQ(outcome("fetch", "HTTP 200, ...", JsonObject{{"status", 200}, {"bytes", 12345}}),
              "HTTP 200, 12,345 bytes");
    EXPECT_EQ(
        outcome(
            "write", "Created src/new.py (12 lines, 90 bytes).",
            JsonObject{
                {"change", "creates src/new.py"}, {"lines", 12}, {"added", 12}, {"removed", 0}}),
        "wrote 12 lines, creates src/new.py");
    EXPECT_EQ(outcome("write", "Replaced src/calc.py (5 lines, 90 bytes).",
                      JsonObject{{"change", "replaces 8 lines of src/calc.py"},
                                 {"lines", 5},
                                 {"added", 4},
                                 {"removed", 7}}),
              "wrote 5 lines, replaces 8 lines of src/calc.py (+4 -7)");
    EXPECT_EQ(outcome("edit", "Edited src/calc.py at line 3.",
                      JsonObject{{"change", "changes 2 lines of src/calc.py"},
                                 {"lines", 8},
                                 {"added", 2},
                                 {"removed", 2}}),
              "changes 2 lines of src/calc.py (+2 -2)");
}

TEST(OutcomeText, FinishedCommand_SaysHowItEnded) {
    EXPECT_EQ(outcome("shell", "(no output)", JsonObject{{"exit_code", 0}}), "exit status 0");
    EXPECT_EQ(outcome("shell", "a\nb\n", JsonObject{{"exit_code", 0}}),
              "exit status 0, 2 lines of output");
    EXPECT_EQ(outcome("shell", "a\n[... 90 bytes omitted ...]\nb\n",
                      JsonObject{{"exit_code", 0}, {"output_lines", 300}, {"output_file", "/x"}}),
              "exit status 0, 300 lines of output");
    EXPECT_EQ(outcome("shell", "(no output)\n[exit code 1]", JsonObject{{"exit_code", 1}}, true),
              "exit status 1");
    EXPECT_EQ(outcome("shell", "make: entering\nmake: *** [all] Error 2\n[exit code 2]",
                      JsonObject{{"exit_code", 2}}, true),
              "exit status 2: make: *** [all] Error 2");
    EXPECT_EQ(outcome("shell", "x\n[ended by signal 9]", JsonObject{{"signal", 9}}, true),
              "ended by signal 9: x");
}

TEST(AnswerText, Answers_AreTextWithTheirQuestions) {
    const Json option = JsonObject{{"label", "Red"}, {"value", "r"}};
    const Json color =
        JsonObject{{"key", "c"}, {"prompt", "Which\ncolors?"}, {"options", JsonArray{option}}};
    const Json name = JsonObject{{"key", "n"}, {"prompt", "Name?"}};
    const JsonObject call{{"questions", JsonArray{color, name, "not a question"}}};
    const auto details = [](JsonObject answers) {
        return Json(JsonObject{{"hitl", JsonObject{{"answers", std::move(answers)}}}});
    };
    EXPECT_EQ(answers_text(call, details({{"c", JsonArray{"r", "own"}}, {"n", "a\nb"}})),
              "Which colors? → Red, own\nName? → a\n  b\n");
    EXPECT_EQ(answers_text(call, details({{"c", "r"}})),
              "Which colors? → Red\nName? → (no answer)\n");
    EXPECT_EQ(answers_text({}, details({{"c", "r"}})), "c → r\n");
    EXPECT_EQ(answers_text(call, nullptr), "");
    EXPECT_EQ(questions_text(call), "Which colors? (Red)\nName?\n");
    EXPECT_EQ(questions_text({{"questions", 1}}), "");
}

TEST(OutcomeText, InvalidArguments_NameTheirFields) {
    EXPECT_EQ(outcome("read",
                      "Invalid arguments for tool 'read':\n- path: field required\n"
                      "- count: expected integer",
                      Json(), true),
              "path: field required; count: expected integer");
    EXPECT_EQ(outcome("read", "Invalid arguments for tool 'read':", Json(), true),
              "Invalid arguments for tool 'read':");
}

TEST(OutcomeText, OtherTools_AreSummarizedByTheirText) {
    EXPECT_EQ(outcome("ticket", "\n  opened ticket 4\nby a\n", Json()),
              "opened ticket 4 (+1 line)");
    EXPECT_EQ(outcome("ticket", "trying\nno such ticket\x1b[2J", Json(), true),
              "no such ticket^[[2J (+1 line)");
    EXPECT_EQ(outcome("ticket", "", Json()), "done");
    EXPECT_EQ(outcome("ticket", "", Json(), true), "failed");
    EXPECT_EQ(outcome("read", "text", JsonObject{{"lines", "many"}}), "text");
}

TEST(LastOutputLines, Tail_CountsEarlierLines) {
    const CommandOutput end = last_output_lines("1\n2\n\n3\n\n\n", 2);
    EXPECT_EQ(end.tail, "\n3\n");
    EXPECT_EQ(end.earlier, 2u);
    EXPECT_EQ(last_output_lines("1\n2", 2).earlier, 0u);
    EXPECT_EQ(last_output_lines("1\n2", 2).tail, "1\n2\n");
    EXPECT_EQ(last_output_lines("\n\n", 2).tail, "");
    EXPECT_EQ(last_output_lines("", 2).tail, "");
}

TEST(LastOutputLines, OverwrittenLine_ShowsItsLastState) {
    EXPECT_EQ(last_output_lines("10%\r20%\r30%\r\nx\r\n", 8).tail, "30%\nx\n");
}

TEST(CommandOutputText, Note_IsNotOutput) {
    ToolExecutionEndEvent event;
    event.result = AgentToolResult("a\nb\n[exit code 1]");
    event.result.details = JsonObject{{"exit_code", 1}};
    EXPECT_EQ(command_output(event, 8).tail, "a\nb\n");
    event.result = AgentToolResult("(no output)");
    event.result.details = JsonObject{{"exit_code", 0}};
    EXPECT_EQ(command_output(event, 8).tail, "");
    event.result = AgentToolResult("a");
    EXPECT_EQ(command_output(event, 8).tail, "") << "the tool ran no command";
}

}  // namespace
}  // namespace cubepi::app
