#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/provider/faux.hpp>

// The pending requests of a directory of tapes: the marks of its index, and damaged side states. The conformance suite
// checks the rest (tape_checkpointer_test.cpp).

namespace bub {
namespace {

using namespace cubepi;

/// A directory of tapes with an inbox, as a process sees it.
class Inbox {
public:
    explicit Inbox(const TestDirectory& directory)
        : store_(std::make_shared<FileTapeStore>(directory.options())), memory_(store_) {}

    void ask(const std::string& tape, double created_at, double timeout = 0) {
        ConfirmRequest payload;
        payload.prompt = "Continue?";
        HitlRequest request;
        request.question_id = "q";
        request.thread_id = tape;
        request.payload = std::move(payload);
        request.created_at = created_at;
        if (timeout > 0) request.timeout_seconds = timeout;
        run(memory_.save_pending_request(tape, run_id, std::move(request)));
    }
    void answer(const std::string& tape, double answered_at = 0) {
        AnswerRecord record;
        record.answered_at = answered_at;
        record.run_id = run_id;
        record.question_id = "q";
        record.answer = true;
        run(memory_.answer_request(tape, std::move(record)));
    }
    QuestionPage page(std::size_t limit = 50, QuestionOrder order = QuestionOrder::age) {
        return run(memory_.list_requests(QuestionQuery().order(order).limit(limit)));
    }
    /// The tapes of the listed requests; damaged ones in parentheses.
    std::string listed(QuestionOrder order = QuestionOrder::age) {
        std::string text;
        for (const QuestionEntry& entry : page(50, order).entries)
            text += entry.request ? entry.thread_id + " " : "(" + entry.thread_id + ") ";
        return text;
    }
    FileTapeStore& store() { return *store_; }
    TapeCheckpointer& memory() { return memory_; }

    std::string run_id = "r";

private:
    std::shared_ptr<FileTapeStore> store_;
    TapeCheckpointer memory_;
};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << text;
    return at == text.npos ? text : text.replace(at, from.size(), to);
}

}  // namespace

TEST(TapeQuestions, Page_ReadsOnlySideStatesOfItsTapes) {
    const TestDirectory directory;
    Inbox inbox(directory);
    for (const char* tape : {"w__c", "w__a", "w__d", "w__b"}) inbox.ask(tape, tape[3] - 'a');
    EXPECT_EQ(inbox.listed(), "w__a w__b w__c w__d ");
    for (const char* tape : {"w__c", "w__d"})
        directory.write(tape + std::string(".jsonl.state"), "?");
    const QuestionPage page = inbox.page(1);
    ASSERT_EQ(page.entries.size(), 1u);
    EXPECT_EQ(page.entries.front().thread_id, "w__a");
    EXPECT_EQ(run(inbox.memory().expire_due(100, 10)).size(), 0u) << "none has a timeout";
}

TEST(TapeQuestions, Mark_ExistsWhileTheRequestIsPending) {
    const TestDirectory directory;
    Inbox inbox(directory);
    inbox.ask("w__a", 1);
    inbox.ask("w__b", 2, 5);
    inbox.ask("w__c", 3);
    EXPECT_EQ(directory.count("requests"), 3u);
    inbox.answer("w__a");
    (void)run(inbox.memory().expire_due(10, 10));
    run(inbox.store().remove_tape("w__c"));
    EXPECT_EQ(directory.count("requests"), 1u)
        << "only the file that says that the index is complete";
    EXPECT_EQ(inbox.listed(), "");
}

TEST(TapeQuestions, MissingIndex_IsBuiltFromTheSideStates) {
    const TestDirectory directory;
    Inbox inbox(directory);
    inbox.ask("w__b", 2, 5);
    inbox.ask("w__a", 1);
    std::filesystem::remove_all(directory.path() / "requests");
    inbox.ask("w__c", 3);
    EXPECT_EQ(Inbox(directory).listed(), "w__a w__b w__c ");
    EXPECT_EQ(directory.count("requests"), 4u);
    EXPECT_EQ(inbox.listed(QuestionOrder::deadline), "w__b w__a w__c ");
}

TEST(TapeQuestions, ReadingMissingDirectory_CreatesNothing) {
    const TestDirectory directory;
    FileTapeOptions options = directory.options();
    options.directory = directory.path() / "tapes";
    TapeCheckpointer memory(std::make_shared<FileTapeStore>(std::move(options)));
    QuestionQuery query;
    EXPECT_TRUE(run(memory.list_requests(std::move(query))).entries.empty());
    EXPECT_FALSE(directory.has("tapes"));
}

TEST(TapeQuestions, MarkWithoutRequest_IsRemoved) {
    const TestDirectory directory;
    Inbox inbox(directory);
    inbox.ask("w__a", 1);
    EXPECT_EQ(inbox.listed(), "w__a ");
    const std::string times = "3ff0000000000000-7ff0000000000000-";
    ASSERT_TRUE(directory.has("requests/" + times + "w__a"));
    directory.write("requests/" + times + "w__gone", "");
    directory.write("requests/0000000000000000-7ff0000000000000-w__a", "");
    directory.write("requests/" + times + ".hidden", "");
    directory.write("requests/7ff8000000000000-7ff8000000000000-w__nan", "");
    EXPECT_EQ(inbox.listed(), "w__a ");
    EXPECT_FALSE(directory.has("requests/" + times + "w__gone"));
    EXPECT_FALSE(directory.has("requests/0000000000000000-7ff0000000000000-w__a"));
    EXPECT_FALSE(directory.has("w__gone.jsonl.lock"));
}

TEST(TapeQuestions, RequestsInExternallyEditedSideState_AreFound) {
    const TestDirectory directory;
    Inbox inbox(directory);
    inbox.ask("w__a", 1);
    inbox.ask("w__b", 2);
    EXPECT_EQ(inbox.listed(), "w__a w__b ");
    const std::string state = directory.read("w__a.jsonl.state");
    directory.write("w__a.jsonl.state", replaced(state, "\"created_at\": 1", "\"created_at\": 7"));
    EXPECT_EQ(inbox.listed(), "w__b w__a ");
}

TEST(TapeQuestions, DamagedRequest_IsListedAndDoesNotExpire) {
    const TestDirectory directory;
    Inbox inbox(directory);
    inbox.ask("w__a", 1, 5);
    inbox.ask("w__b", 2, 5);
    const std::string state = directory.read("w__a.jsonl.state");
    directory.write("w__a.jsonl.state", replaced(state, "\"prompt\"", "\"pro\""));
    EXPECT_EQ(inbox.listed(), "(w__a) w__b ");
    const QuestionEntry damaged = inbox.page().entries.front();
    EXPECT_EQ(damaged.question_id, "q");
    EXPECT_EQ(damaged.damage, "human request key 'prompt': expected a string");
    EXPECT_EQ(run(inbox.memory().expire_due(100, 1)).size(), 1u);
    EXPECT_EQ(inbox.listed(), "(w__a) ");
    EXPECT_THROW(inbox.answer("w__a"), CheckpointCorruptionError);
}

TEST(TapeQuestions, RequestWithoutIdsOrTimes_IsListed) {
    const TestDirectory directory;
    Inbox inbox(directory);
    inbox.ask("w__b", 2);
    for (const char* pending : {"17", "{}", R"({"run_id": 1, "request": []})"}) {
        SCOPED_TRACE(pending);
        inbox.ask("w__a", 1);
        directory.write("w__a.jsonl.state", R"({"pending": [)" + std::string(pending) + "]}");
        EXPECT_EQ(inbox.listed(), "(w__a) w__b ");
        EXPECT_EQ(run(inbox.memory().discard_requests("w__a")), 1u);
        EXPECT_EQ(inbox.listed(), "w__b ");
    }
}

TEST(TapeQuestions, DamagedAnswerRecord_IsReturnedWithItsDamage) {
    const TestDirectory directory;
    Inbox inbox(directory);
    inbox.ask("w__a", 1);
    inbox.answer("w__a");
    const std::string state = directory.read("w__a.jsonl.state");
    directory.write("w__a.jsonl.state", replaced(state, "\"prompt\"", "\"pro\""));
    const std::vector<AnswerRecord> records = run(inbox.memory().load_answer_records("w__a", ""));
    ASSERT_EQ(records.size(), 1u);
    EXPECT_FALSE(records.front().request);
    EXPECT_EQ(records.front().damage, "human request key 'prompt': expected a string");
    EXPECT_EQ(records.front().question_id, "q");
    directory.write("w__a.jsonl.state", R"({"answered": [17, {"run_id": "r"}]})");
    for (const AnswerRecord& record : run(inbox.memory().load_answer_records("w__a", "")))
        EXPECT_NE(record.damage, "");
}

TEST(TapeQuestions, RecordsOfManyAnswers_LeaveTheSideState) {
    const TestDirectory directory;
    Inbox inbox(directory);
    const auto answer = [&](int time) {
        inbox.ask("w__a", 1);
        inbox.answer("w__a", time);
    };
    for (int time = 1; time <= 64; ++time) answer(time);
    const std::string before = directory.read("w__a.jsonl.state");
    answer(65);
    EXPECT_LT(directory.read("w__a.jsonl.state").size(), 1000u);
    // As a process leaves it that is killed before it has removed the records from the side state.
    directory.write("w__a.jsonl.state", before);
    for (int time = 66; time <= 200; ++time) answer(time);
    const std::vector<AnswerRecord> records = run(inbox.memory().load_answer_records("w__a", ""));
    ASSERT_EQ(records.size(), 200u);
    for (std::size_t i = 0; i < records.size(); ++i)
        EXPECT_EQ(records[i].answered_at, static_cast<double>(i + 1));
    // Those of the last run, of which most are in the sidecar.
    inbox.run_id = "s";
    for (int time = 201; time <= 270; ++time) answer(time);
    EXPECT_EQ(run(inbox.memory().load_answer_records("w__a", "s")).size(), 70u);
    EXPECT_EQ(run(inbox.memory().load_answer_records("w__a", "s")).front().answered_at, 201.0);
    EXPECT_EQ(run(inbox.memory().load_answer_records("w__a", "")).size(), 270u);
    MessageList messages;
    messages.push_back(user_message("hi"));
    (void)run(inbox.memory().append("w__a", std::move(messages), AppendOptions()));
    EXPECT_EQ(run(inbox.memory().list_threads()).size(), 1u) << "a sidecar is not a thread";
    run(inbox.memory().delete_thread("w__a"));
    EXPECT_TRUE(run(inbox.memory().load_answer_records("w__a", "")).empty());
    EXPECT_FALSE(directory.has("w__a__sidecar__answers.jsonl"));
}

TEST(TapeQuestions, UnreadableSideState_DoesNotHideOtherRequests) {
    const TestDirectory directory;
    Inbox inbox(directory);
    inbox.ask("w__a", 1);
    inbox.ask("w__b", 2);
    directory.write("w__a.jsonl.state", "?");
    EXPECT_EQ(inbox.listed(), "(w__a) w__b ");
    EXPECT_NE(inbox.page().entries.front().damage.find("w__a.jsonl.state"), std::string::npos);
    std::filesystem::remove_all(directory.path() / "requests");
    EXPECT_EQ(inbox.listed(), "(w__a) w__b ");
    std::filesystem::remove(directory.path() / "w__a.jsonl.state");
    EXPECT_EQ(inbox.listed(), "w__b ");
}

TEST(TapeQuestions, D60_DiscardedDamagedRequest_LetsTheThreadContinue) {
    const TestDirectory directory;
    Inbox inbox(directory);
    MessageList messages;
    messages.push_back(user_message("Remove /a."));
    messages.push_back(
        faux_assistant_message(faux_tool_call("rm", JsonObject(), "c1"), stop_reason::tool_use));
    (void)run(inbox.memory().append("w__a", std::move(messages), AppendOptions()));
    inbox.ask("w__a", 1);
    const std::string file = (directory.path() / "w__a.jsonl.state").string();
    directory.write("w__a.jsonl.state",
                    replaced(directory.read("w__a.jsonl.state"), "\"kind\"", "\"kin\""));
    FauxProvider faux;
    faux.set_responses({"done"});
    AgentOptions options;
    options.model = faux.model();
    options.checkpointer =
        std::make_shared<TapeCheckpointer>(std::make_shared<FileTapeStore>(directory.options()));
    options.thread_id = "w__a";
    Agent agent(std::move(options));
    try {
        (void)run(agent.prompt("And now?", PromptOptions().abandon_pending()));
        ADD_FAILURE() << "the damaged request is reported";
    } catch (const CheckpointCorruptionError& error) {
        EXPECT_EQ(error.path(), file);
        EXPECT_NE(std::string(error.what()).find("discard"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    }
    EXPECT_EQ(run(inbox.memory().discard_requests("w__a")), 1u);
    const RunResult result = run(agent.prompt("And now?", PromptOptions().abandon_pending()));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_TRUE(is_legal_transcript(run(inbox.memory().load("w__a"))->messages));
}

}  // namespace bub
