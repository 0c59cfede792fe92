// A suspended agent whose stored request in SQLite is damaged.
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>

namespace cubepi {
namespace {

using namespace hitl_test;

using Words = std::vector<std::string>;

struct SQLiteSuspension : ::testing::Test {
    TempDirectory directory;
    std::string path = directory.file("sessions.db");
    std::shared_ptr<SQLiteCheckpointer> store = std::make_shared<SQLiteCheckpointer>(path);
    FauxProvider faux;
    Words effects;

    /// Suspends a run with two gated calls, and damages the request of one.
    void suspend_and_damage(const std::string& question_id) {
        faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), "done", "done"});
        Process first(store, faux, effects);
        EXPECT_EQ(first.prompt_and_detach(2).outcome, RunOutcome::suspended);
        RawDatabase(path).query(
            "UPDATE cubepi_native_pending SET request_json = '{' WHERE question_id = '" +
            question_id + "'");
    }
    void expect_damaged(Task<RunResult> task, Process& process) {
        try {
            (void)process.run_with(std::move(task), {});
            ADD_FAILURE() << "nothing was thrown";
        } catch (const CheckpointCorruptionError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("cubepi_native_pending.id="), std::string::npos) << text;
            EXPECT_NE(text.find("discard_requests"), std::string::npos) << text;
        }
        EXPECT_TRUE(effects.empty());
    }
    MessageList history() { return run(store->load("t"))->messages; }
};

TEST_F(SQLiteSuspension, D62_ADamagedRequestIsReportedAndLeavesTheThreadAsItIs) {
    for (const char* question : {"c1", "c2"}) {
        suspend_and_damage(question);
        const MessageList before = history();
        Process second(store, faux, effects);
        expect_damaged(second.agent->prompt("hi"), second);
        PromptOptions abandoning = PromptOptions().abandon_pending();
        expect_damaged(second.agent->prompt("hi", std::move(abandoning)), second);
        expect_damaged(second.agent->respond("c1", approve()), second);
        expect_damaged(second.agent->resume(), second);
        EXPECT_TRUE(history() == before);
        run(store->delete_thread("t"));
    }
}

TEST_F(SQLiteSuspension, D1_AfterItsRequestsWereDiscardedTheThreadIsUsable) {
    for (const bool resumes : {false, true}) {
        suspend_and_damage("c1");
        EXPECT_EQ(run(store->discard_requests("t")), 2u);
        Process second(store, faux, effects);
        const RunResult result =
            resumes ? second.run_with(second.agent->resume(), {}) : second.prompt();
        EXPECT_EQ(result.outcome, RunOutcome::completed);
        EXPECT_EQ(result.text(), "done");
        EXPECT_TRUE(effects.empty()) << "no effect without its approval";
        EXPECT_TRUE(is_legal_transcript(history())) << "the calls were interrupted";
        run(store->delete_thread("t"));
    }
}

TEST_F(SQLiteSuspension, D17_AnAnswerToAnUnreadableRequestIsNotUsed) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done", "done"});
    Process first(store, faux, effects);
    const RunResult suspended = first.prompt_and_detach();
    AnswerRecord record;
    record.run_id = suspended.run_id;
    record.question_id = "c1";
    record.answer = approve();
    run(store->answer_request("t", std::move(record)));
    RawDatabase(path).query("UPDATE cubepi_native_answers SET request_json = '{'");
    Process second(store, faux, effects);
    int asked = 0;
    (void)second.run_with(second.agent->resume(), [&](const HitlRequest& request) {
        ++asked;
        second.answer(request.question_id, deny("no"));
    });
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(effects.empty());
}

}  // namespace
}  // namespace cubepi
