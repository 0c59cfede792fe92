// The details of saved sessions, their titles, and the search of their messages.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "sessions.hpp"

namespace cubepi::app {
namespace {

class ListedSessions : public ::testing::Test {
protected:
    ListedSessions() {
        std::filesystem::create_directories(root_ / "work");
        std::filesystem::create_directories(root_ / "other");
    }
    SavedSessions in_directory(const std::string& name) const {
        return SavedSessions(root_ / "tapes", root_ / "sessions.db", root_ / name);
    }
    void add(const SavedSessions& saved, const std::string& directory, const std::string& name,
             std::vector<std::string> texts) const {
        bub::TapeSession session;
        session.id = session_id_of(name);
        session.workspace = (root_ / directory).string();
        std::function<Json(JsonObject&)> note = [session](JsonObject& state) {
            bub::note_session(state, session);
            return Json();
        };
        run(saved.tapes()->edit_state(saved.tape_of(name), std::move(note)));
        std::vector<bub::TapeEntry> entries;
        for (std::size_t i = 0; i < texts.size(); ++i)
            entries.push_back(bub::message_entry(i % 2 == 0 ? "user" : "assistant", texts[i]));
        run(saved.tapes()->append(saved.tape_of(name), std::move(entries), bub::TapeAppend()));
    }
    ListedSession details(const SavedSessions& saved, const std::string& name) const {
        ListedSession one;
        one.tape = saved.tape_of(name);
        return run(load_details(saved.tapes(), std::move(one)));
    }
    static std::optional<std::string> search(const SavedSessions& saved, const std::string& name,
                                             const std::string& pattern, bool stopped = false) {
        auto search = std::make_shared<MessageSearch>();
        search->pattern = pattern;
        search->stopped = stopped;
        return run(search_messages(saved.tapes(), saved.tape_of(name), std::move(search)));
    }

    ScopedTestDirectory temporary_;
    const std::filesystem::path& root_ = temporary_.path();
};

TEST_F(ListedSessions, List_ReadsNoSession) {
    const SavedSessions saved = in_directory("work");
    add(saved, "work", "plan", {"first line\nsecond", "answer"});
    const SavedSessions other = in_directory("other");
    add(other, "other", "else", {"hello"});
    const std::vector<ListedSession> sessions = run(list_sessions(saved));
    ASSERT_EQ(sessions.size(), 2u);
    for (const ListedSession& one : sessions) EXPECT_FALSE(one.is_loaded);
    EXPECT_NE(sessions[0].is_here, sessions[1].is_here);
}

TEST_F(ListedSessions, Details_AreTitleFirstLineAndCount) {
    const SavedSessions saved = in_directory("work");
    add(saved, "work", "plan", {"first line\nsecond", "answer"});
    ListedSession one = details(saved, "plan");
    EXPECT_EQ(one.name, "plan");
    EXPECT_EQ(one.messages, 2);
    EXPECT_EQ(one.heading(), "first line");
    run(set_session_title(saved.tapes(), saved.tape_of("plan"), "  The \x1b[31mplan\nagain "));
    one = details(saved, "plan");
    EXPECT_EQ(one.title, "The ^[[31mplan again");
    EXPECT_EQ(one.heading(), one.title);
    run(set_session_title(saved.tapes(), saved.tape_of("plan"), " "));
    EXPECT_EQ(details(saved, "plan").heading(), "first line");
}

TEST_F(ListedSessions, Fork_NamesItsSource) {
    const SavedSessions saved = in_directory("work");
    add(saved, "work", "plan-2", {"first line"});
    EXPECT_EQ(details(saved, "plan-2").forked_from, "");
    run(note_fork(saved.tapes(), saved.tape_of("plan-2"), "plan"));
    EXPECT_EQ(details(saved, "plan-2").forked_from, "plan");
}

TEST_F(ListedSessions, OtherTape_HasNoName) {
    const SavedSessions saved = in_directory("work");
    run(saved.tapes()->append("a__b", {bub::message_entry("user", "hi")}, bub::TapeAppend()));
    ListedSession one;
    one.tape = "a__b";
    EXPECT_EQ(run(load_details(saved.tapes(), std::move(one))).name, "");
}

TEST_F(ListedSessions, Search_FindsWordsInMessages) {
    const SavedSessions saved = in_directory("work");
    add(saved, "work", "plan", {"go", "The Uploader retries\nfive times \xC3\xA4."});
    EXPECT_EQ(search(saved, "plan", "uploader"), "The Uploader retries five times \xC3\xA4.");
    EXPECT_EQ(search(saved, "plan", "download"), std::nullopt);
    EXPECT_EQ(search(saved, "plan", "role"), std::nullopt) << "not a word of a message";
}

TEST_F(ListedSessions, StoppedSearch_FindsNothing) {
    const SavedSessions saved = in_directory("work");
    add(saved, "work", "plan", {"go", "uploader"});
    EXPECT_EQ(search(saved, "plan", "uploader", true), std::nullopt);
}

TEST_F(ListedSessions, Wanted_IsNameOrTitle) {
    const SavedSessions saved = in_directory("work");
    add(saved, "work", "plan", {"go"});
    add(saved, "work", "notes", {"go"});
    run(set_session_title(saved.tapes(), saved.tape_of("plan"), "The big plan"));
    EXPECT_EQ(run(find_session_named(saved, "plan")), "plan");
    EXPECT_EQ(run(find_session_named(saved, "the BIG plan")), "plan");
    try {
        (void)run(find_session_named(saved, "plam"));
        ADD_FAILURE() << "found";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::not_found);
        EXPECT_NE(std::string(error.what()).find("did you mean 'plan'?"), std::string::npos);
    }
    run(set_session_title(saved.tapes(), saved.tape_of("notes"), "The big plan"));
    EXPECT_THROW((void)run(find_session_named(saved, "The big plan")), Error);
}

}  // namespace
}  // namespace cubepi::app
