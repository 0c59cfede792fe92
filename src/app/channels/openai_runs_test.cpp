#include "openai_runs.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "openai_messages.hpp"

namespace cubepi::app {

namespace {

TEST(OpenAIResponseNames, D193_Id_IsReadByItsTokenOnly) {
    const OpenAIResponseNames names("0123456789abcdef");
    OpenAIResponseName name;
    name.message = "openai-1_x";
    name.session = "a session/with \xc3\xb6_ and %";
    name.created = 1'700'000'000;
    const std::string id = names.id_of(name);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz_"), std::string::npos);
    const auto read = names.read(id);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->message, name.message);
    EXPECT_EQ(read->session, name.session);
    EXPECT_EQ(read->created, name.created);
    EXPECT_FALSE(OpenAIResponseNames("another-token-of-16").read(id));
    // No other text is an id.
    for (std::size_t i = 0; i < id.size(); ++i) {
        std::string changed = id;
        changed[i] = changed[i] == '1' ? '2' : '1';
        EXPECT_FALSE(names.read(changed)) << changed;
        EXPECT_FALSE(names.read(id.substr(0, i)));
    }
    for (const char* const other : {"", "resp_", "resp__", "resp_1_2_3_4", "_____"})
        EXPECT_FALSE(names.read(other)) << other;
}

TEST(OpenAIResponseNames, D214_IdOfACall_IsNotAResponse) {
    const OpenAIResponseNames names("0123456789abcdef");
    const std::string id = names.call_id_of({"a session_", "3f09c2a71b"});
    const auto read = names.read_call(id);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->session, "a session_");
    EXPECT_EQ(read->question, "3f09c2a71b");
    EXPECT_FALSE(OpenAIResponseNames("another-token-of-16").read_call(id));
    EXPECT_FALSE(names.read(id));
    EXPECT_FALSE(names.read("resp_" + id.substr(5)));
    OpenAIResponseName name;
    name.message = "m";
    name.session = "s";
    EXPECT_FALSE(names.read_call("call_" + names.id_of(name).substr(5)));
    for (std::size_t i = 0; i < id.size(); ++i) EXPECT_FALSE(names.read_call(id.substr(0, i)));
}

std::shared_ptr<OpenAIRun> response_run() {
    const auto call_id = [](std::string_view question) { return std::string(question); };
    return std::make_shared<OpenAIResponseRun>(nullptr, call_id, detail::OpenAIAnswerHead(),
                                               JsonObject());
}

TEST(OpenAIRuns, RunWithoutReaders_IsForgotten) {
    OpenAIRuns runs;
    std::shared_ptr<OpenAIRun> run = response_run();
    runs.add("1", run, false);
    EXPECT_EQ(runs.find("1"), run);
    run = nullptr;
    EXPECT_FALSE(runs.find("1"));
}

TEST(OpenAIRuns, OldestRuns_AreForgotten) {
    OpenAIRuns runs;
    for (int i = 0; i < 300; ++i) {
        runs.add(std::to_string(i), response_run(), true);
    }
    EXPECT_FALSE(runs.find("0"));
    EXPECT_FALSE(runs.find("43"));
    EXPECT_TRUE(runs.find("44"));
    EXPECT_TRUE(runs.find("299"));
}

TEST(OpenAIRuns, RunOfTheSameMessage_ReplacesIt) {
    OpenAIRuns runs;
    runs.add("1", response_run(), true);
    runs.add("1", response_run(), true);
    for (int i = 2; i < 257; ++i) runs.add(std::to_string(i), response_run(), true);
    EXPECT_TRUE(runs.find("1"));
    EXPECT_TRUE(runs.find("256"));
}

TEST(OpenAIMessages, LastOfSeveralAnswers_HasTheKey) {
    OpenAISubmission submission;
    EXPECT_TRUE(message_requests(submission, {}, "k", {}).empty());
    submission.answers = {JsonObject{{"answer_to", "a"}}, JsonObject{{"answer_to", "b"}}};
    const std::vector<HttpServerRequest> made = message_requests(submission, {}, "k", {});
    ASSERT_EQ(made.size(), 2U);
    EXPECT_EQ(made[0].headers.get("idempotency-key"), "k-answer-0");
    EXPECT_EQ(made[1].headers.get("idempotency-key"), "k");
}

}  // namespace

}  // namespace cubepi::app
