#include "fifth_database.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace cubepi::fifth {
namespace {

/// A database in memory, which lasts as long as the object.
class FifthDatabase : public ::testing::Test {
protected:
    FifthDatabase() { start_again(); }
    void start_again() {
        static int databases = 0;
        options.connection = "file:/fifth" + std::to_string(++databases) + "?vfs=memdb";
        options.runtime = {};
        // The engine forgets a database that no session uses.
        anchor_ = fifth_driver(options)->connection();
        run(anchor_->connect({}));
        run(apply_fifth_schema(options));
    }
    std::shared_ptr<FifthCheckpointer> open(std::shared_ptr<Fault> fault = {}) const {
        return std::make_shared<FifthCheckpointer>(options, std::move(fault));
    }

    SqlOptions options;

private:
    std::unique_ptr<detail::SqlConnection> anchor_;
};

MessageList one(std::string text, const std::string& run_id) {
    MessageList list;
    list.push_back(user_message(std::move(text)).with_run_id(SharedString(run_id)));
    return list;
}

ClaimOwner owner() {
    ClaimOwner owner;
    owner.owner_id = "me";
    owner.host = "here";
    return owner;
}

TEST_F(FifthDatabase, D210_Store_PassesTheSuite) {
    const auto clock = std::make_shared<cubepi::testing::ManualClock>();
    testing::StoreUnderTest store;
    store.make = [&]() -> std::shared_ptr<Checkpointer> {
        start_again();
        options.lease_clock = clock;
        return open();
    };
    store.reopen = [&](std::shared_ptr<Checkpointer> closed) -> std::shared_ptr<Checkpointer> {
        closed.reset();
        return open();
    };
    store.advance = [&](std::chrono::seconds time) { clock->advance(time); };
    for (const testing::StoreFailure& failure : testing::check_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

TEST_F(FifthDatabase, D210_MissingTables_AreReportedWithTheRemedy) {
    options.connection = "file:/empty?vfs=memdb";
    try {
        run(open()->load("t"));
        ADD_FAILURE() << "nothing was thrown";
    } catch (const CheckpointerError& error) {
        EXPECT_EQ(error.code(), ErrorCode::schema_mismatch) << error.what();
    }
}

/// Claims a run, appends a message and completes the run, and loses the session at the statement with that number. Returns false if there
/// are not that many.
bool run_with_loss(FifthCheckpointer& store, Fault& fault, int at, bool answered) {
    fault.answered = answered;
    fault.statements = 0;
    fault.at = at;
    run(store.claim_run("t", "r", owner(), ClaimKind::new_run));
    AppendOptions options = AppendOptions().expected_position(0).claim("r", "me");
    EXPECT_EQ(run(store.append("t", one("once", "r"), std::move(options))), 1);
    run(store.complete_run("t", "r", "me"));
    fault.at = 0;
    return fault.statements >= at;
}

/// A session that is lost at any statement, before it or in place of its answer, costs no write and repeats none. COMMIT is one of the
/// statements: its fate is looked up.
TEST_F(FifthDatabase, D210_SessionLostAnywhere_CostsNothing) {
    for (const bool answered : {true, false}) {
        int at = 1;
        for (bool lost = true; lost; ++at) {
            start_again();
            const auto fault = std::make_shared<Fault>();
            const auto store = open(fault);
            lost = run_with_loss(*store, *fault, at, answered);
            const auto other = open();
            EXPECT_EQ(run(other->load("t"))->messages.size(), 1U) << at;
            EXPECT_TRUE(run(other->is_run_complete("t", "r"))) << at;
            if (HasFailure()) return;
        }
        EXPECT_GT(at, 20);
    }
}

TEST_F(FifthDatabase, D210_LockedDatabase_IsALockTimeoutWithoutLoss) {
    options.lock_timeout = std::chrono::milliseconds(10);
    const auto store = open();
    run(store->append("t", one("first", ""), AppendOptions()));
    const std::unique_ptr<detail::SqlConnection> session = fifth_driver(options)->connection();
    run(session->connect({}));
    detail::SqlBatch begin;
    begin.add("BEGIN IMMEDIATE");
    (void)run(session->exchange(std::move(begin)));
    EXPECT_THROW(run(store->append("t", one("second", ""), AppendOptions())),
                 CheckpointerLockTimeoutError);
    detail::SqlBatch end;
    end.add("ROLLBACK");
    (void)run(session->exchange(std::move(end)));
    run(store->append("t", one("third", ""), AppendOptions()));
    EXPECT_EQ(run(store->load("t"))->messages.size(), 2U);
}

}  // namespace
}  // namespace cubepi::fifth
