// A conversation that does not fit the model's window: what `cubepi run` and `cubepi chat` show of its compaction.

#include <gtest/gtest.h>

#include <string>

#include <boost/json.hpp>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

constexpr const char* before = "the conversation is too long for the model; compacting it ...";
constexpr const char* after = "compacted the conversation from about ";

/// The answers of a prompt whose request does not fit at first.
std::string overflow_script(const Home& home) {
    return home.script(
        R"([{"error": "the prompt is too long"}, "We chose Postgres.", "Postgres it is."])");
}

void start_session(const Home& home) {
    std::string prompt;
    for (int i = 0; i < 300; ++i) prompt += "Use Postgres. ";
    const Piped first =
        run_piped(home, {"run", "-s", "plan", "--script", home.script(R"(["Noted."])"), prompt});
    ASSERT_EQ(first.status, 0) << first.err;
}

TEST(ContextOverflow, D113_Run_ReportsTheCompaction) {
    const Home home;
    start_session(home);
    const Piped run =
        run_piped(home, {"run", "-s", "plan", "--script", overflow_script(home), "What now?"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "Postgres it is.\n");
    const std::size_t first = run.err.find(before);
    ASSERT_NE(first, std::string::npos) << run.err;
    EXPECT_NE(run.err.find(after, first), std::string::npos) << run.err;
    const Piped tape = run_piped(home, {"tape", "show", "-n", "0", "--session", "plan"});
    EXPECT_NE(tape.out.find("Use Postgres."), std::string::npos) << tape.out;
    const Piped again = run_piped(
        home, {"run", "-s", "plan", "--script", home.script(R"(["Still Postgres."])"), "Sure?"});
    EXPECT_EQ(again.out, "Still Postgres.\n") << again.err;
}

TEST(ContextOverflow, D113_RunInJson_PrintsTheCompactionAsNotices) {
    const Home home;
    start_session(home);
    const Piped run = run_piped(
        home, {"run", "--json", "-s", "plan", "--script", overflow_script(home), "What now?"});
    EXPECT_EQ(run.status, 0) << run.err;
    std::vector<std::string> codes;
    for (std::size_t at = 0; at < run.out.size();) {
        const std::size_t end = run.out.find('\n', at);
        const boost::json::value line = boost::json::parse(run.out.substr(at, end - at));
        if (line.at("type") == "notice") {
            codes.emplace_back(line.at("code").as_string());
        }
        at = end + 1;
    }
    EXPECT_EQ(codes, (std::vector<std::string>{"context_overflow", "compaction"}));
}

TEST(ContextOverflow, D113_FailedSummaryInRun_IsReported) {
    const Home home;
    start_session(home);
    const std::string script = home.script(
        R"([{"error": "the prompt is too long"}, {"error": "on fire"}, "Postgres it is."])");
    const Piped run = run_piped(home, {"run", "-s", "plan", "--script", script, "What now?"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "Postgres it is.\n");
    EXPECT_NE(run.err.find("an outline stands for "), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("no summary of the model: on fire"), std::string::npos) << run.err;
}

TEST(ContextOverflow, D113_Chat_ReportsTheCompaction) {
    const Home home;
    start_session(home);
    Terminal chat(home, {"chat", "-s", "plan", "--script", overflow_script(home)}, 200);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "What now?\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Postgres it is.")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen(before)) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen(after)) << chat.screen().text();
}

TEST(ContextOverflow, D113_CompactInChat_SummarizesOnDemand) {
    const Home home;
    start_session(home);
    start_session(home);
    const std::string script = home.script(R"(["We chose Postgres.", "Postgres it is."])");
    Terminal chat(home, {"chat", "-s", "plan", "--script", script}, 200);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "/compact the database\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen(after)) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("the argument undo", "/compact undo\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("has the whole conversation", "What now?\r"))
        << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("Postgres it is.")) << chat.screen().text();
}

TEST(ContextOverflow, D7_EscDuringSummary_EndsOnlyTheTurn) {
    const Home home;
    start_session(home);
    std::string words;
    for (int i = 0; i < 300; ++i) words += "w" + std::to_string(i) + " ";
    const std::string script = home.script(
        R"({"tokens_per_second": 20, "answers": [{"error": "the prompt is too long"}, ")" + words +
        R"(", {"error": "the prompt is too long"}, "Short.", "Fine."]})");
    Terminal chat(home, {"chat", "-s", "plan", "--script", script}, 200);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "What now?\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("compacting the conversation", "\x1b"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("stopped.", "And now?\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Fine.")) << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("w1 w2"), std::string::npos) << chat.screen().text();
}

}  // namespace
}  // namespace cubepi::terminal_tests
