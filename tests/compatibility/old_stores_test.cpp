// Stores that an earlier version wrote (write_stores.cpp): each test continues a copy.

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
#include <bub/tape/tape_check.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/checkpoint/store_check_test.hpp>

#include "old_stores_test.hpp"
#include "source_tree.hpp"

namespace cubepi {
namespace {

namespace fs = std::filesystem;

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

bub::Envelope repeated(std::string id) {
    bub::Envelope message = bub::Envelope("again").on("chat", "1");
    message.inbound_id = std::move(id);
    return message;
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

TEST_F(OldStores, D209_Check_FindsThemSound) {
    const StoreReport threads = run(check_sqlite((directory / "threads.sqlite").string()));
    EXPECT_EQ(damage_in(threads) + repairs_in(threads), "");
    const StoreReport files = bub::check_tape_files(directory / "tapes");
    EXPECT_EQ(damage_in(files), "");
    EXPECT_NE(repairs_in(files).find("tape 'open': the process of turn 't1' has ended"),
              std::string::npos)
        << repairs_in(files);
    EXPECT_NE(repairs_in(files).find("tape 'torn', line 2: the line is not an entry"),
              std::string::npos)
        << repairs_in(files);
    const StoreReport messages = bub::check_delivery_log(directory / "deliveries");
    EXPECT_EQ(damage_in(messages), "");
    EXPECT_EQ(messages.repairs(), 1U) << repairs_in(messages);
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
