#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "openai_interface.hpp"
#include "openai_runs.hpp"

namespace cubepi::app {

namespace {

using bub::HttpReplyPart;
using detail::OpenAIResponseStatus;

/// Writes down what it receives: "text|" for a message, "[tool]" for an approval.
class Recorder final : public OpenAIReplySink {
public:
    explicit Recorder(bool has_approvals) : has_approvals_(has_approvals) {}
    void text(std::string_view text) override { received += text; }
    void end_message() override { received += '|'; }
    bool question(const JsonObject& request) override {
        const Json& tool = request.at("payload").at("tool_name");
        if (has_approvals_)
            received += "[" + std::string(tool.as_string()) + " " +
                        std::string(request.at("request_id").as_string()) + "]";
        return has_approvals_;
    }
    void call(std::string_view question, const bub::ClientCall& call) override {
        received += "[" + call.name + " " + std::string(question) + " " +
                    boost::json::serialize(call.arguments) + "]";
    }
    void end(const OpenAIReplyEnd& end) override { ended = end; }
    void postponed() override { received += "postponed"; }

    std::string received;
    OpenAIReplyEnd ended;

private:
    bool has_approvals_;
};

class OpenAIReplyTest : public ::testing::Test {
protected:
    void take(HttpReplyPart::Kind kind, std::string text, JsonObject value) {
        HttpReplyPart part;
        part.kind = kind;
        part.text = std::move(text);
        part.value = std::move(value);
        answer.take(part, sink);
    }
    void stream(const std::string& text) { take(HttpReplyPart::Kind::text, text, {}); }
    void output(const std::string& text, const std::string& kind = "normal") {
        take(HttpReplyPart::Kind::output, {}, {{"kind", kind}, {"text", text}});
    }
    void end(JsonObject reply = {{"ok", true}}) {
        take(HttpReplyPart::Kind::done, {}, std::move(reply));
    }

    OpenAIReply answer;
    Recorder sink{true};
};

TEST_F(OpenAIReplyTest, OutputThatWasStreamed_IsNotRepeated) {
    stream("Two ");
    stream("tickets.");
    output("Two tickets.");
    end();
    EXPECT_EQ(sink.received, "Two tickets.|");
    EXPECT_EQ(sink.ended.status, OpenAIResponseStatus::completed);
    EXPECT_TRUE(answer.ended());
}

TEST_F(OpenAIReplyTest, OutputOfSlowClient_CompletesTheText) {
    stream("Two ");
    output("Two tickets.");
    EXPECT_EQ(sink.received, "Two tickets.|");
}

TEST_F(OpenAIReplyTest, TextBeforeACall_IsNotRepeated) {
    stream("Let me see.");
    stream("Two tickets.");
    output("Two tickets.");
    EXPECT_EQ(sink.received, "Let me see.Two tickets.|");
}

TEST_F(OpenAIReplyTest, OtherOutput_IsAMessageOfItsOwn) {
    stream("Let me see.");
    output("Two tickets.");
    output("And one more.");
    EXPECT_EQ(sink.received, "Let me see.|Two tickets.|And one more.|");
}

TEST_F(OpenAIReplyTest, TurnThatIsTriedAgain_BeginsAnotherMessage) {
    stream("Two ti");
    take(HttpReplyPart::Kind::restart, {}, {});
    stream("Two tickets.");
    output("Two tickets.");
    EXPECT_EQ(sink.received, "Two ti|Two tickets.|");
}

TEST_F(OpenAIReplyTest, Failure_HasItsTextOnce) {
    output("failed (3f09)", "error");
    end({{"ok", false}, {"error", JsonObject{{"message", "failed (3f09)"}}}});
    EXPECT_EQ(sink.received, "");
    EXPECT_EQ(sink.ended.status, OpenAIResponseStatus::failed);
    EXPECT_EQ(sink.ended.reason, "failed (3f09)");
}

TEST_F(OpenAIReplyTest, NoticeOfACompleteTurn_IsAMessage) {
    output("The session waits for an answer.", "error");
    end();
    EXPECT_EQ(sink.received, "The session waits for an answer.|");
}

TEST_F(OpenAIReplyTest, StoppedTurn_IsCancelled) {
    end({{"ok", false}, {"error", JsonObject{{"message", bub::stopped_text}}}});
    EXPECT_EQ(sink.ended.status, OpenAIResponseStatus::cancelled);
}

TEST_F(OpenAIReplyTest, IncompleteAnswer_HasItsReason) {
    output("Two ti");
    output("cut off", "error");
    end({{"ok", true}, {"finish", "cut_off"}});
    EXPECT_EQ(sink.received, "Two ti|");
    EXPECT_EQ(sink.ended.status, OpenAIResponseStatus::incomplete);
    EXPECT_EQ(sink.ended.finish, "length");
    OpenAIReply other;
    other.take_reply({{"ok", true}, {"finish", "refused"}}, sink);
    EXPECT_EQ(sink.ended.finish, "content_filter");
}

TEST_F(OpenAIReplyTest, Approval_IsTextWithoutAForm) {
    const JsonObject question{
        {"request_id", "3f09c2a71b"},
        {"payload",
         JsonObject{{"kind", "approve"}, {"tool_name", "shell"}, {"args", JsonObject()}}}};
    const JsonObject reply{
        {"ok", true},
        {"outputs", JsonArray({JsonObject{
                        {"kind", "question"}, {"text", "Run it?"}, {"question", question}}})}};
    answer.take_reply(reply, sink);
    EXPECT_EQ(sink.received, "[shell 3f09c2a71b]");
    Recorder plain(false);
    OpenAIReply other;
    other.take_reply(reply, plain);
    EXPECT_EQ(plain.received, "Run it?|");
}

TEST_F(OpenAIReplyTest, D214_CallOfTheClient_EndsTheAnswer) {
    const JsonObject call{{"name", "clock"}, {"arguments", JsonObject{{"zone", "UTC"}}}};
    const JsonObject question{{"request_id", "3f09c2a71b"},
                              {"payload", JsonObject{{"kind", "ask"}, {"client_call", call}}}};
    stream("Let me see.");
    take(HttpReplyPart::Kind::output, {},
         {{"kind", "question"}, {"text", "What is the output?"}, {"question", question}});
    end({{"ok", true}, {"usage", JsonObject{{"input", 7}, {"cached", 2}, {"output", 3}}}});
    EXPECT_EQ(sink.received, R"(Let me see.|[clock 3f09c2a71b {"zone":"UTC"}])");
    EXPECT_EQ(sink.ended.finish, "tool_calls");
    ASSERT_TRUE(sink.ended.usage);
    EXPECT_EQ(sink.ended.usage->input, 7);
    EXPECT_EQ(sink.ended.usage->reasoning, 0);
}

TEST_F(OpenAIReplyTest, TurnThatIsTriedAgain_ForgetsItsCalls) {
    const JsonObject call{{"name", "clock"}, {"arguments", JsonObject()}};
    const JsonObject question{{"request_id", "3f09c2a71b"},
                              {"payload", JsonObject{{"kind", "ask"}, {"client_call", call}}}};
    take(HttpReplyPart::Kind::output, {},
         {{"kind", "question"}, {"text", "What is the output?"}, {"question", question}});
    take(HttpReplyPart::Kind::restart, {}, {});
    end();
    EXPECT_EQ(sink.ended.finish, "stop");
}

TEST_F(OpenAIReplyTest, TurnOfTheNextProcess_IsPostponed) {
    take(HttpReplyPart::Kind::pending, {}, {});
    EXPECT_EQ(sink.received, "postponed");
    EXPECT_TRUE(answer.ended());
}

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
    return std::make_shared<OpenAIResponseRun>(nullptr, call_id, detail::OpenAIReplyHead(),
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

TEST(OpenAIMessages, LastOfSeveralAnswers_HasTheId) {
    OpenAISubmission submission;
    EXPECT_TRUE(message_requests(submission, {}, "k", {}).empty());
    submission.answers = {JsonObject{{"answer_to", "a"}}, JsonObject{{"answer_to", "b"}}};
    const std::vector<HttpServerRequest> made = message_requests(submission, {}, "k", {});
    ASSERT_EQ(made.size(), 2U);
    EXPECT_EQ(made[0].parameter("id"), "k-answer-0");
    EXPECT_EQ(made[1].parameter("id"), "k");
}

}  // namespace

}  // namespace cubepi::app
