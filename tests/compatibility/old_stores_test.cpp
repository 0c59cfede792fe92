// Stores that an earlier version wrote (write_stores.cpp): each test continues a copy.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/channel/file_delivery_log.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>

#include "source_tree.hpp"

namespace cubepi {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class OldStores : public ::testing::Test {
protected:
    OldStores() {
        std::string name = (fs::temp_directory_path() / "cubepi-old-stores-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no directory for temporary files");
        directory = name;
        fs::copy(cubepi::testing::source_path("tests/compatibility/stores-0ec8b38a"), directory,
                 fs::copy_options::recursive);
    }
    ~OldStores() override {
        std::error_code ignored;
        fs::remove_all(directory, ignored);
    }

    std::shared_ptr<bub::FileTapeStore> tapes() const {
        bub::FileTapeOptions options;
        options.directory = directory / "tapes";
        options.sync = bub::TapeSync::never;
        return std::make_shared<bub::FileTapeStore>(std::move(options));
    }
    std::unique_ptr<bub::FileDeliveryLog> deliveries() const {
        bub::FileDeliveryLogOptions options;
        options.directory = directory / "deliveries";
        options.sync = bub::DeliverySync::never;
        return std::make_unique<bub::FileDeliveryLog>(std::move(options));
    }

    fs::path directory;
};

ClaimOwner continuer() {
    ClaimOwner owner;
    owner.owner_id = "continuer";
    return owner;
}

MessageList one(std::string text, const std::string& run_id) {
    MessageList list;
    list.push_back(user_message(std::move(text)).with_run_id(SharedString(run_id)));
    return list;
}

Texts listed_threads(ThreadStore& store) {
    Texts ids;
    for (const ThreadInfo& thread : run(store.list_threads())) {
        if (thread.message_count == 2 && (thread.thread_id == "asks" || thread.thread_id == "done"))
            ids.push_back(thread.thread_id);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
}

template <class Store>
void continue_conversation(Store& store) {
    EXPECT_EQ(listed_threads(store), (Texts{"asks", "done"}));
    const CheckpointData data = run(store.load("done")).value();
    ASSERT_EQ(data.messages.size(), 2U);
    EXPECT_EQ(data.messages[0].text(), "größe?");
    EXPECT_EQ(data.messages[1].text(), "42");
    EXPECT_EQ(data.extra.at("title"), "sizes");
    EXPECT_TRUE(run(store.is_run_complete("done", "run-1")));
    run(store.claim_run("done", "run-3", continuer(), ClaimKind::new_run));
    AppendOptions options =
        AppendOptions().expected_position(data.position).claim("run-3", "continuer");
    run(store.append("done", one("more", "run-3"), std::move(options)));
    run(store.complete_run("done", "run-3", "continuer"));
    EXPECT_EQ(run(store.load("done"))->messages.size(), 3U);
    EXPECT_EQ(run(store.snapshot("done", "run-1")).size(), 2U);
}

template <class Store>
void answer_question(Store& store) {
    const QuestionPage page = run(store.list_requests(QuestionQuery()));
    ASSERT_EQ(page.entries.size(), 1U);
    const QuestionEntry& entry = page.entries[0];
    EXPECT_EQ(entry.thread_id, "asks");
    EXPECT_EQ(entry.run_id, "run-2");
    ASSERT_TRUE(entry.request) << entry.damage;
    EXPECT_EQ(std::get<ApproveRequest>(entry.request->payload).args.at("path"), "a");
    AnswerRecord record;
    record.run_id = "run-2";
    record.question_id = "call-1";
    record.answer = true;
    record.answered_at = entry.created_at + 1;
    run(store.answer_request("asks", record));
    EXPECT_TRUE(run(store.list_requests(QuestionQuery())).entries.empty());
    EXPECT_EQ(run(store.load_hitl_answer("asks", "run-2", "call-1")), Json(true));
    run(store.claim_run("asks", "run-2", continuer(), ClaimKind::continue_run));
    AppendOptions options =
        AppendOptions().claim("run-2", "continuer").settle("run-2", Texts(1, "call-1"));
    run(store.append("asks", one("instead of the call", "run-2"), std::move(options)));
    EXPECT_FALSE(run(store.load_hitl_answer("asks", "run-2", "call-1")));
    run(store.complete_run("asks", "run-2", "continuer"));
    EXPECT_EQ(run(store.load_answer_records("asks")).size(), 1U);
}

bub::Envelope repeated(std::string id) {
    bub::Envelope message = bub::Envelope("again").on("chat", "1");
    message.inbound_id = std::move(id);
    return message;
}

/// The messages of a tape, and the status of its last turn.
std::string shape(const bub::Tape& tape) {
    std::string shape;
    for (const bub::TapeEntry& entry : run(tape.query(bub::TapeQuery()))) {
        if (entry.kind == "message")
            shape += std::string(entry.payload.at("content").as_string()) + "|";
        else if (bub::entry_name(entry) == "turn")
            shape += std::string(entry.payload.at("data").at("status").as_string()) + "|";
    }
    return shape;
}

TEST_F(OldStores, SqliteThreads_AreListedAndContinued) {
    SQLiteOptions options;
    options.path = (directory / "threads.sqlite").string();
    SQLiteCheckpointer store(options);
    continue_conversation(store);
}

TEST_F(OldStores, SqliteQuestion_IsAnsweredAndItsRunCompleted) {
    SQLiteOptions options;
    options.path = (directory / "threads.sqlite").string();
    SQLiteCheckpointer store(options);
    answer_question(store);
}

TEST_F(OldStores, TapeThreads_AreListedAndContinued) {
    bub::TapeCheckpointer store(tapes());
    continue_conversation(store);
}

TEST_F(OldStores, TapeQuestion_IsAnsweredAndItsRunCompleted) {
    bub::TapeCheckpointer store(tapes());
    answer_question(store);
}

TEST_F(OldStores, B9_OpenTurn_IsClosedAsInterrupted) {
    const bub::Tape tape(tapes(), "open");
    EXPECT_EQ(shape(tape), "first|second|unclosed|half an ans|interrupted|");
    EXPECT_FALSE(fs::exists(directory / "tapes" / "open.jsonl.turns"));
    run(tape.append(bub::message_entry("user", "next")));
    EXPECT_EQ(shape(bub::Tape(tapes(), "open")),
              "first|second|unclosed|half an ans|interrupted|next|");
}

TEST_F(OldStores, TornTapeLine_IsReplacedByTheNext) {
    const bub::Tape tape(tapes(), "torn");
    EXPECT_EQ(shape(tape), "first|");
    run(tape.append(bub::message_entry("user", "next")));
    EXPECT_EQ(shape(bub::Tape(tapes(), "torn")), "first|next|");
}

TEST_F(OldStores, B18_HeldDelivery_IsSettledAndMessagesFinished) {
    {
        const auto log = deliveries();
        const std::vector<bub::StoredInbound> inbounds = run(log->unfinished());
        ASSERT_EQ(inbounds.size(), 2U) << "the record of the third is torn";
        EXPECT_EQ(inbounds[0].message.content_text(), "one");
        EXPECT_EQ(inbounds[0].begun, 1U);
        EXPECT_TRUE(inbounds[0].answered);
        EXPECT_EQ(inbounds[1].message.content_text(), "two");
        EXPECT_EQ(inbounds[1].begun, 0U);
        const std::vector<bub::Delivery> held = run(log->unsettled());
        ASSERT_EQ(held.size(), 1U);
        EXPECT_EQ(held[0].message.content_text(), "re: one");
        EXPECT_FALSE(held[0].waits);
        run(log->resend(held[0].id));
        run(log->sent(held[0].id));
        run(log->finish(Texts{inbounds[0].id, inbounds[1].id}));
        EXPECT_FALSE(run(log->receive(repeated("u3")))) << "a finished message is known";
        EXPECT_TRUE(run(log->receive(repeated("u4")))) << "its torn record was not acknowledged";
    }
    const auto log = deliveries();
    EXPECT_EQ(run(log->unfinished()).size(), 1U);
    EXPECT_TRUE(run(log->unsettled()).empty());
}

}  // namespace
}  // namespace cubepi
