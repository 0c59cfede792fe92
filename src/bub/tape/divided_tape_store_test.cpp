#include <bub/tape/divided_tape_store.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_store_conformance.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>

namespace bub {
namespace {

/// A database that is down, on request.
class FailingStore final : public FileTapeStore {
public:
    FailingStore(const FileTapeOptions& options, const bool& fails)
        : FileTapeStore(options), fails_(fails) {}

    Task<std::vector<ListedTape>> newest_tapes_after(std::optional<ListedTape> last,
                                                     std::size_t limit,
                                                     std::string prefix) override {
        check();
        co_return co_await FileTapeStore::newest_tapes_after(std::move(last), limit,
                                                             std::move(prefix));
    }
    Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) override {
        check();
        co_return co_await FileTapeStore::list_requests(std::move(query));
    }

private:
    void check() const {
        if (fails_) throw cubepi::CheckpointerError(cubepi::ErrorCode::connect, "it is down");
    }

    const bool& fails_;
};

/// Three directories of tapes in place of databases.
class Divided {
public:
    bool fails[3] = {};

    std::shared_ptr<DividedTapeStore> open() const {
        std::vector<std::shared_ptr<SessionTapeStore>> stores;
        for (const TestDirectory& directory : directories_)
            stores.push_back(
                std::make_shared<FailingStore>(directory.options(), fails[stores.size()]));
        DatabaseMap map({{"a", "0000-5554"}, {"b", "5555-aaa9"}, {"c", "aaaa-ffff"}});
        return std::make_shared<DividedTapeStore>(std::move(map), std::move(stores));
    }

private:
    TestDirectory directories_[3];
};

std::string tape_of(const std::string& session) {
    return "0123456789abcdef__" + cubepi::detail::sha256_hex(session).substr(0, 32);
}

void append_to(TapeStore& store, const std::string& tape) {
    std::vector<TapeEntry> entries(1, message_entry("user", "text"));
    TapeAppend how;
    (void)run(store.append(tape, std::move(entries), std::move(how)));
}

TEST(DividedTapes, D258_Store_PassesTheSuite) {
    std::unique_ptr<Divided> divided;
    TapeStoreUnderTest store;
    store.make = [&] {
        divided = std::make_unique<Divided>();
        return divided->open();
    };
    store.reopen = [&](std::shared_ptr<TapeStore> open) {
        open.reset();
        return divided->open();
    };
    store.share = [&](TapeStore&) { return divided->open(); };
    for (const TapeStoreFailure& failure : check_tape_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

TEST(DividedTapes, D258_Tape_IsWhereItsSessionIs) {
    const Divided divided;
    const auto store = divided.open();
    for (int i = 0; i < 30; ++i) {
        const std::string session = "http:" + std::to_string(i);
        append_to(*store, tape_of(session));
        for (std::size_t at = 0; at < store->map().size(); ++at) {
            const TapePosition end = run(store->at(at)->position(tape_of(session)));
            EXPECT_EQ(end.last_id > 0, at == store->map().of_session(session)) << session;
        }
        EXPECT_EQ(run(store->of_session(session)->position(tape_of(session))).last_id, 1);
    }
    const std::vector<ListedTape> all = run(store->newest_tapes());
    ASSERT_EQ(all.size(), 30U);
    const std::vector<ListedTape> page = run(store->newest_tapes_after(all[9], 5));
    ASSERT_EQ(page.size(), 5U);
    for (std::size_t at = 0; at < page.size(); ++at) EXPECT_EQ(page[at].name, all[10 + at].name);
    EXPECT_EQ(run(divided.open()->list_tapes()).size(), 30U);
}

TEST(DividedTapes, D258_TapeOfSubagent_IsFoundByLists) {
    const Divided divided;
    const auto store = divided.open();
    const std::string tape = tape_of("http:s1/agent/x");
    const std::size_t named = store->map().of_tape(tape);
    const std::size_t other = (named + 1) % store->map().size();
    append_to(*store->at(other), tape);
    EXPECT_EQ(run(store->position(tape)).last_id, 0);
    EXPECT_EQ(run(store->all_tapes()), std::vector<std::string>(1, tape));
    EXPECT_EQ(run(store->position(tape)).last_id, 1);
}

TEST(DividedTapes, D258_ListsDuringOutage_NameTheDatabase) {
    Divided divided;
    const auto store = divided.open();
    for (int i = 0; i < 30; ++i) append_to(*store, tape_of("http:" + std::to_string(i)));
    const std::size_t here = run(store->at(0)->newest_tapes()).size();
    divided.fails[1] = true;
    divided.fails[2] = true;
    const auto tapes = run(readable_tapes(store, std::nullopt, 100));
    EXPECT_EQ(tapes.list.size(), here);
    EXPECT_EQ(tapes.unread, (std::vector<std::string>{"b", "c"}));
    EXPECT_EQ(run(readable_requests(store, cubepi::QuestionQuery())).unread, tapes.unread);
    // Without their names a list is all of them, or fails; questions expire in time.
    EXPECT_THROW((void)run(store->newest_tapes()), cubepi::Error);
    EXPECT_TRUE(run(store->list_requests(cubepi::QuestionQuery())).entries.empty());
    divided.fails[0] = true;
    EXPECT_THROW((void)run(readable_tapes(store, std::nullopt, 100)), cubepi::Error);
    EXPECT_THROW((void)run(readable_requests(store, cubepi::QuestionQuery())), cubepi::Error);
}

TEST(DividedTapes, D258_Media_AreFoundWhereverTheyAre) {
    const Divided divided;
    const auto store = divided.open();
    for (std::size_t at = 0; at < store->map().size(); ++at) {
        const std::string name = run(store->at(at)->put_media("bytes " + std::to_string(at)));
        EXPECT_EQ(run(store->get_media(name)), "bytes " + std::to_string(at));
    }
    EXPECT_FALSE(run(store->get_media(std::string(64, '0'))));
}

}  // namespace
}  // namespace bub
