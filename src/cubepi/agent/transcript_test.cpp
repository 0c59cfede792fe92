#include <cubepi/agent/agent_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

Message result_of(std::string id, std::string text = "r") {
    ToolResultMessage result;
    result.tool_call_id = std::move(id);
    result.tool_name = "echo";
    result.content.emplace_back(TextContent{std::move(text)});
    return result;
}

Message caller(std::vector<std::string> ids) {
    std::vector<ToolCall> calls;
    for (std::string& id : ids) calls.push_back(echo_call("v", std::move(id)));
    return calling(std::move(calls));
}

TEST(Transcript, LegalHistoriesAreLeftAsTheyAre) {
    const MessageList list{user_message("a"), caller({"1", "2"}), result_of("2"), result_of("1"),
                           faux_assistant_message("b")};
    EXPECT_TRUE(is_legal_transcript(list));
    EXPECT_FALSE(repair_request(list).changed());
}

TEST(Transcript, D1_MissingResultsAreMadeUpAndStraysLeftOut) {
    const MessageList list{result_of("0"), caller({"1", "2"}), result_of("2"), user_message("a")};
    EXPECT_FALSE(is_legal_transcript(list));
    const RepairedTranscript repaired = repair_request(list);
    EXPECT_TRUE(is_legal_transcript(repaired.messages));
    EXPECT_EQ(repaired.repairs.added_results, 1u);
    EXPECT_EQ(repaired.repairs.left_out, 1u);
    EXPECT_EQ(repaired.messages.size(), 4u);
}

TEST(Transcript, D1_AResultBehindAUserMessageIsPutBackToItsCall) {
    const MessageList list{caller({"1"}), user_message("a"), result_of("1", "mine")};
    const RepairedTranscript repaired = repair_request(list);
    EXPECT_TRUE(is_legal_transcript(repaired.messages));
    EXPECT_TRUE(repaired.changed());
    EXPECT_EQ(repaired.repairs.moved_results, 1u);
    EXPECT_EQ(repaired.repairs.added_results, 0u);
    EXPECT_EQ(repaired.messages[1].text(), "mine");
}

TEST(Transcript, D1_OnlyResultsThatAreNotDirectlyAfterTheirCallsAreMoved) {
    const MessageList list{caller({"1", "2", "3"}),     result_of("1"),
                           user_message("a"),           result_of("3", "three"),
                           faux_assistant_message("b"), result_of("2", "two")};
    const RepairedTranscript repaired = repair_request(list);
    EXPECT_TRUE(is_legal_transcript(repaired.messages));
    EXPECT_EQ(repaired.repairs, (TranscriptRepairs{0, 2, 0}));
    EXPECT_EQ(texts(repaired.messages),
              (std::vector<std::string>{"", "r", "three", "two", "a", "b"}));
}

TEST(Transcript, D1_AResultAfterARepeatedCallIdBelongsToTheLaterCall) {
    const MessageList list{caller({"1"}), user_message("a"), caller({"1"}),
                           result_of("1", "second"), result_of("1", "duplicate")};
    const RepairedTranscript repaired = repair_request(list);
    EXPECT_TRUE(is_legal_transcript(repaired.messages));
    EXPECT_EQ(repaired.repairs, (TranscriptRepairs{1, 0, 1}));
    EXPECT_EQ(repaired.messages.back().text(), "second");
}

TEST(Transcript, D1_EqualIdsInLaterTurnsAnswerTheirOwnCall) {
    const MessageList list{caller({"1"}), result_of("1", "first"), caller({"1"}),
                           result_of("1", "second")};
    EXPECT_TRUE(is_legal_transcript(list));
}

TEST(Transcript, OpenCallsAreThoseOfTheLastAnswerWithoutResult) {
    EXPECT_EQ(open_tool_calls({user_message("a"), caller({"1", "2"}), result_of("1")}).size(), 1u);
    EXPECT_TRUE(open_tool_calls({caller({"1"}), result_of("1")}).empty());
    EXPECT_TRUE(open_tool_calls({caller({"1"}), user_message("a")}).empty());
    EXPECT_TRUE(open_tool_calls({}).empty());
}

}  // namespace
}  // namespace cubepi
