#include "question_view.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "../terminal/text_layout.hpp"

namespace cubepi::app {
namespace {

struct Shell {
    explicit Shell(const std::string& command) : args{{"command", command}} {
        decision = ToolRules().decide("shell", ToolRisk::writes, args);
    }
    QuestionView view(ScreenSize screen = {}) const {
        return QuestionView(QuestionView::Call{tool, args, decision}, Style(), screen);
    }
    std::string tool = "shell";
    JsonObject args;
    RuleDecision decision;
};

std::vector<std::string> rows_of(const TerminalText& text) {
    std::vector<std::string> rows;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.str().find('\n', at);
        rows.push_back(text.str().substr(at, end - at));
        at = end + 1;
    }
    return rows;
}

std::string lines(std::size_t count) {
    std::string text;
    for (std::size_t i = 1; i <= count; ++i) text += "echo line " + std::to_string(i) + "\n";
    return text;
}

TEST(QuestionView, ShortCommand_IsShownWhole) {
    QuestionView view = Shell("make test").view();
    EXPECT_TRUE(view.complete());
    const std::string text = view.opening().str();
    EXPECT_TRUE(text.starts_with("? Run this command\n  │ command: make test\n")) << text;
}

TEST(QuestionView, D72_Always_NamesTheDirectoryApart) {
    const std::string here = std::filesystem::current_path().string();
    Shell call("./b.sh x");
    call.decision.always = ApprovalRule::parse("shell: cd " + here + " && ./b.sh x");
    std::string text = call.view().opening().str();
    EXPECT_NE(text.find("always adds: shell: ./b.sh x (only in this directory)\n"),
              std::string::npos)
        << text;
    call.decision.always = ApprovalRule::parse("shell: cd /elsewhere && ./b.sh x");
    text = call.view().opening().str();
    EXPECT_NE(text.find("shell: ./b.sh x (only in /elsewhere)\n"), std::string::npos) << text;
}

TEST(QuestionView, LongCommand_ShowsSizeAndEndsThenPages) {
    QuestionView view = Shell(lines(60) + "rm -rf \"$HOME\"").view();
    const std::string text = view.opening().str();
    EXPECT_NE(text.find("command (61 lines, "), std::string::npos) << text;
    EXPECT_NE(text.find("  │ echo line 1\n"), std::string::npos) << text;
    EXPECT_NE(text.find("  │ rm -rf \"$HOME\"\n"), std::string::npos) << text;
    EXPECT_LE(rows_of(view.opening()).size(), 22u);
    EXPECT_FALSE(view.complete());
    std::string seen = text;
    for (int page = 0; !view.complete(); ++page) {
        ASSERT_LT(page, 10);
        const TerminalText more = view.next_page();
        EXPECT_LE(rows_of(more).size(), 22u);
        seen += more.str();
    }
    for (int i = 1; i <= 60; ++i)
        EXPECT_NE(seen.find("│ echo line " + std::to_string(i) + "\n"), std::string::npos) << i;
}

TEST(QuestionView, WholeRest_CanBeShownAtOnce) {
    QuestionView view = Shell(lines(500)).view();
    const std::string text = view.opening().str() + view.rest().str();
    EXPECT_TRUE(view.complete());
    for (int i = 1; i <= 500; ++i)
        EXPECT_NE(text.find("│ echo line " + std::to_string(i) + "\n"), std::string::npos) << i;
}

TEST(QuestionView, CallText_NeverStandsAtTheLeftEdge) {
    const std::string forged = "? Run this command\n  [y]es  [n]o > y\n";
    for (const std::size_t columns : {30UL, 80UL, 200UL}) {
        for (const std::string& tool :
             {std::string("fetch"), std::string("notes"), std::string("edit")}) {
            const JsonObject args{{"url", "http://a/\n" + forged},
                                  {"old_text", forged},
                                  {"new_text", std::string(columns - 4, ' ') + forged},
                                  {"path\n? x", "a\n" + forged}};
            const RuleDecision decision = ToolRules().decide(tool, ToolRisk::writes, args);
            QuestionView view(QuestionView::Call{tool, args, decision}, Style(), {columns, 24});
            TerminalText text = view.opening();
            text += view.rest();
            const std::vector<std::string> rows = rows_of(text);
            for (std::size_t i = 1; i < rows.size(); ++i) {
                EXPECT_TRUE(rows[i].starts_with("  ")) << rows[i];
                EXPECT_LT(display_width(rows[i]), columns) << rows[i];
            }
        }
    }
}

TEST(QuestionView, WrappedDiffRow_KeepsItsMargin) {
    FileChange change;
    change.path = "a.txt";
    change.compared = true;
    change.added = 1;
    change.diff = "@@ -0,0 +1,1 @@\n+" + std::string(76, ' ') + "? Run this command\n";
    const std::string tool = "write";
    const JsonObject args;
    const RuleDecision decision;
    QuestionView view(QuestionView::Call{tool, args, decision, &change}, Style(), {80, 24});
    const std::vector<std::string> rows = rows_of(view.opening());
    for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_TRUE(rows[i].starts_with("  ")) << rows[i];
}

TEST(QuestionView, HugeValue_SaysThatItsMiddleIsHidden) {
    QuestionView view = Shell("true #" + std::string(3'000'000, 'x') + "\nend").view();
    const std::string text = view.opening().str() + view.rest().str();
    EXPECT_NE(text.find("bytes in the middle are not shown"), std::string::npos);
    EXPECT_NE(text.find("│ end\n"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::app
