#include <bub/tape/copy_tape.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/tape_test_support.hpp>
#include <bub/tape/turn_lease.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/core/error.hpp>

namespace bub {
namespace {

constexpr const char* tape = "w__s";

/// Its process ends before one of its writes.
class InterruptedStore : public FileTapeStore {
public:
    InterruptedStore(const FileTapeOptions& options, int writes)
        : FileTapeStore(options), writes_(writes) {}

    Task<TapePosition> append(std::string name, std::vector<TapeEntry> entries,
                              TapeAppend options) override {
        use();
        return FileTapeStore::append(std::move(name), std::move(entries), std::move(options));
    }
    Task<Json> edit_state(std::string name, std::function<Json(JsonObject& state)> edit) override {
        use();
        return FileTapeStore::edit_state(std::move(name), std::move(edit));
    }

private:
    void use() {
        if (writes_-- == 0) throw std::runtime_error("killed");
    }

    int writes_;
};

/// Writes the entries and the state only together.
class JoiningStore final : public InterruptedStore, public AppendsWithState {
public:
    explicit JoiningStore(const FileTapeOptions& options) : InterruptedStore(options, 0) {}

    Task<TapePosition> append_and_edit(std::string name, std::vector<TapeEntry> entries,
                                       TapeAppend options,
                                       std::function<void(JsonObject& state)> edit) override {
        std::function<Json(JsonObject&)> both = [edit](JsonObject& state) {
            edit(state);
            return Json();
        };
        (void)co_await FileTapeStore::edit_state(name, std::move(both));
        co_return co_await FileTapeStore::append(std::move(name), std::move(entries),
                                                 std::move(options));
    }
};

class CopyTape : public ::testing::Test {
protected:
    using Store = std::shared_ptr<SessionTapeStore>;

    static void add(const Store& store, const std::string& text) {
        std::vector<TapeEntry> one;
        one.push_back(message_entry("user", text));
        run(store->append(tape, std::move(one), TapeAppend()));
    }
    static void set_state(const Store& store, const std::string& value) {
        run(store->edit_state(tape, [value](JsonObject& state) {
            state["key"] = value;
            return Json();
        }));
    }
    static std::vector<std::string> lines(const Store& store) {
        std::vector<std::string> found;
        for (const TapeEntry& entry : run(store->fetch(tape, TapeQuery())))
            found.push_back(tape_line(entry));
        return found;
    }
    std::string refusal(bool replace = false) const {
        try {
            (void)run(copy_tape(from, to, tape, replace));
        } catch (const cubepi::Error& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::invalid_state) << error.what();
            return error.what();
        }
        return {};
    }

    TestDirectory first;
    TestDirectory second;
    Store from = std::make_shared<FileTapeStore>(first.options());
    Store to = std::make_shared<FileTapeStore>(second.options());
};

TEST_F(CopyTape, Copy_IncludesEntriesStateAndMedia) {
    add(from, "a");
    const std::string image = run(from->put_media("bytes"));
    add(from, "see " + image);
    set_state(from, "value");
    const CopiedTape copied = run(copy_tape(from, to, tape));
    EXPECT_EQ(copied.entries, 2U);
    EXPECT_TRUE(copied.state);
    EXPECT_EQ(copied.media, 1U);
    EXPECT_EQ(lines(to), lines(from));
    EXPECT_EQ(run(to->read_state(tape)), run(from->read_state(tape)));
    EXPECT_EQ(run(to->get_media(image)), "bytes");
}

TEST_F(CopyTape, RepeatedCopy_AddsWhatIsNew) {
    add(from, "a");
    (void)run(copy_tape(from, to, tape));
    EXPECT_EQ(run(copy_tape(from, to, tape)).entries, 0U);
    add(from, "b");
    set_state(from, "later");
    EXPECT_EQ(run(copy_tape(from, to, tape)).entries, 1U);
    EXPECT_EQ(lines(to), lines(from));
    EXPECT_EQ(run(to->read_state(tape)), run(from->read_state(tape)));
}

TEST_F(CopyTape, StateThatIsEmptyNow_IsRemoved) {
    add(from, "a");
    set_state(from, "value");
    (void)run(copy_tape(from, to, tape));
    add(from, "b");
    run(from->edit_state(tape, [](JsonObject& state) {
        state.clear();
        return Json();
    }));
    EXPECT_TRUE(run(copy_tape(from, to, tape)).state);
    EXPECT_TRUE(run(to->read_state(tape)).empty());
}

TEST_F(CopyTape, InterruptedCopy_IsCompleted) {
    add(from, "a");
    set_state(from, "value");
    for (int writes = 0; writes < 2; ++writes) {
        const TestDirectory third;
        const Store killed = std::make_shared<InterruptedStore>(third.options(), writes);
        EXPECT_THROW((void)run(copy_tape(from, killed, tape)), std::runtime_error);
        const Store next = std::make_shared<FileTapeStore>(third.options());
        (void)run(copy_tape(from, next, tape));
        EXPECT_EQ(lines(next), lines(from));
        EXPECT_EQ(run(next->read_state(tape)), run(from->read_state(tape)));
    }
    const Store joining = std::make_shared<JoiningStore>(second.options());
    (void)run(copy_tape(from, joining, tape));
    EXPECT_EQ(lines(to), lines(from));
    EXPECT_EQ(run(to->read_state(tape)), run(from->read_state(tape)));
}

/// As an earlier version left it, which stored the state last.
TEST_F(CopyTape, CopyWithoutState_IsCompletedAndReplacesNone) {
    add(from, "a");
    (void)run(copy_tape(from, to, tape));
    set_state(from, "value");
    const JsonObject state = run(from->read_state(tape));
    EXPECT_FALSE(run(copy_tape(to, from, tape)).state);
    EXPECT_EQ(run(from->read_state(tape)), state);
    EXPECT_TRUE(run(copy_tape(from, to, tape)).state);
    EXPECT_EQ(run(to->read_state(tape)), state);
    set_state(to, "another");
    EXPECT_NE(refusal().find("another side state"), std::string::npos) << refusal();
}

TEST_F(CopyTape, LongerOrDifferentTape_IsRefused) {
    add(from, "a");
    set_state(from, "value");
    (void)run(copy_tape(from, to, tape));
    add(to, "b");
    EXPECT_NE(refusal().find("is longer (2 entries, not 1)"), std::string::npos) << refusal();
    add(from, "c");
    EXPECT_NE(refusal().find("differs from entry 2 on"), std::string::npos) << refusal();
    EXPECT_EQ(lines(to).size(), 2U);
    EXPECT_EQ(refusal(true), "");
    EXPECT_EQ(lines(to), lines(from));
    set_state(to, "another");
    EXPECT_NE(refusal().find("another side state"), std::string::npos) << refusal();
}

TEST_F(CopyTape, TapeWithOpenTurn_IsRefused) {
    add(from, "a");
    TurnTransactionOptions turn;
    turn.turn_id = "t1";
    TurnTransaction fork(from, tape, turn);
    std::vector<TapeEntry> one;
    one.push_back(message_entry("user", "b"));
    run(fork.append(tape, std::move(one), TapeAppend()));
    EXPECT_THROW((void)run(copy_tape(from, to, tape)), cubepi::CheckpointerLockTimeoutError);
    EXPECT_TRUE(lines(to).empty());
    run(fork.merge());
    EXPECT_EQ(run(copy_tape(from, to, tape)).entries, 3U);
}

TEST_F(CopyTape, IdsWithGaps_AreRetained) {
    first.write("w__s.jsonl",
                "{\"id\": 3, \"kind\": \"message\", \"payload\": {\"role\": \"user\", \"content\": "
                "\"a\"}, \"meta\": {}, \"date\": \"2026-03-01T12:00:00+00:00\"}\n"
                "{\"id\": 9, \"kind\": \"event\", \"payload\": {\"name\": \"x\"}, \"meta\": {}, "
                "\"date\": \"2026-03-01T12:00:01+00:00\"}\n");
    EXPECT_EQ(run(copy_tape(from, to, tape)).entries, 2U);
    EXPECT_EQ(lines(to), lines(from));
    EXPECT_EQ(run(copy_tape(from, to, tape)).entries, 0U);
}

TEST_F(CopyTape, MissingTape_IsReported) {
    EXPECT_THROW((void)run(copy_tape(from, to, tape)), cubepi::Error);
    EXPECT_FALSE(second.has("w__s.jsonl"));
}

}  // namespace
}  // namespace bub
