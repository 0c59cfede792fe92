#include "trace_follow.hpp"

#include <cubepi/core/error.hpp>

#include "trace_test_support.hpp"

namespace cubepi::app {
namespace {

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

TEST_F(TraceFollowTest, ReturnsSpansAsTheyAreWrittenUntilTheRootHasEnded) {
    FollowedTrace trace(directory(), "0123");
    EXPECT_TRUE(trace.poll().empty());
    EXPECT_FALSE(trace.found());
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

TEST_F(TraceFollowTest, EndsWithTheRunOfAHostWhoseSpanIsElsewhere) {
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

TEST_F(TraceFollowTest, WithoutANameTheFirstTraceThatGrowsIsFollowed) {
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

TEST_F(TraceFollowTest, TheDirectoryMayNotExistYet) {
    arguments_.directory += "/later";
    FollowedTrace trace(directory(), "");
    EXPECT_TRUE(trace.poll().empty());
    append(agent_span("01").line());
    EXPECT_EQ(names(trace.poll()), "01");
    EXPECT_TRUE(trace.ended());
}

TEST_F(TraceFollowTest, AFileThatWasReplacedIsReadAgain) {
    append(chat_span("03", "02", "m").line() + chat_span("04", "02", "m").line());
    FollowedTrace trace(directory(), id);
    EXPECT_EQ(names(trace.poll()), "03 04");
    std::filesystem::remove(directory() / file());
    EXPECT_EQ(names(trace.poll()), "");
    append(agent_span("01").line());
    EXPECT_EQ(names(trace.poll()), "01");
}

TEST_F(TraceFollowTest, LinesThatAreNotSpansAreSkipped) {
    append("garbage\n\n{}\n" + agent_span("01").line());
    FollowedTrace trace(directory(), id);
    EXPECT_EQ(names(trace.poll()), "01");
}

TEST_F(TraceFollowTest, AnAmbiguousNameIsRefused) {
    append(chat_span("03", "02", "m").line());
    append_to("2026-11-21/0123ffffffffffffffffffffffffffff.jsonl", agent_span("01").line());
    FollowedTrace trace(directory(), "0123");
    EXPECT_THROW((void)trace.poll(), Error);
}

TEST_F(TraceFollowTest, TheCommandPrintsSpansAndThenTheTree) {
    append(chat_span("03", "01", "m").line() + agent_span("01").line());
    arguments_.run = id;
    EXPECT_EQ(show(TraceArguments::What::follow), 0);
    EXPECT_NE(out().find("  chat m\n"), std::string::npos) << out();
    EXPECT_NE(out().find("`- chat m"), std::string::npos) << out();
}

TEST_F(TraceFollowTest, TheCommandEndsAfterTheIdleLimit) {
    append(chat_span("03", "01", "m").line());
    arguments_.run = id;
    arguments_.idle_limit = "1ms";
    EXPECT_EQ(show(TraceArguments::What::follow), 1);
    EXPECT_NE(err().find("no new span"), std::string::npos) << err();
}

}  // namespace
}  // namespace cubepi::app
