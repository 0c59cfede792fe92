// The list of sessions without a terminal.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "session_picker.hpp"

namespace cubepi::app {
namespace {

using Kind = SessionPicker::Wanted::Kind;

Key key(KeyCode code, std::string text = {}) {
    Key made;
    made.code = code;
    made.text = std::move(text);
    return made;
}

class Picker : public ::testing::Test {
protected:
    static ListedSession listed(std::string tape, bool here = true) {
        ListedSession one;
        one.tape = std::move(tape);
        one.used_at = 1000;
        one.is_here = here;
        return one;
    }
    static std::vector<ListedSession> sessions(std::size_t count) {
        std::vector<ListedSession> made;
        for (std::size_t i = 0; i < count; ++i) made.push_back(listed(std::to_string(i)));
        return made;
    }
    /// Reads what the picker wants, until it wants messages or nothing. Returns the number of sessions that were read.
    static std::size_t read(SessionPicker& picker) {
        std::size_t count = 0;
        for (;; ++count) {
            SessionPicker::Wanted wanted = picker.wanted();
            if (wanted.kind != Kind::details) return count;
            ListedSession loaded = std::move(wanted.session);
            loaded.is_loaded = true;
            loaded.name = "name-" + loaded.tape;
            loaded.first_line = "first line " + loaded.tape;
            loaded.messages = 2;
            picker.set_details(wanted.index, std::move(loaded));
        }
    }
    static void set_fork(SessionPicker& picker) {
        SessionPicker::Wanted wanted = picker.wanted();
        ListedSession loaded = std::move(wanted.session);
        loaded.is_loaded = true;
        loaded.name = "plan-2";
        loaded.first_line = "make a plan";
        loaded.forked_from = "plan";
        picker.set_details(wanted.index, std::move(loaded));
    }
    static std::string screen(SessionPicker& picker, std::size_t columns = 80,
                              std::size_t rows = 24) {
        std::string text;
        for (const TerminalText& row : picker.screen(columns, rows, {})) text += row.str() + "\n";
        return text;
    }
    static void type(SessionPicker& picker, const std::string& text) {
        for (const char c : text) (void)picker.press(key(KeyCode::text, std::string(1, c)));
    }
    static bool has(const std::string& text, const std::string& part) {
        return text.find(part) != std::string::npos;
    }
};

TEST_F(Picker, Fork_ShowsItsNameAndSource) {
    SessionPicker picker(sessions(1), Style(), {.now = 1000});
    set_fork(picker);
    const std::string text = screen(picker);
    EXPECT_TRUE(has(text, "❯ make a plan")) << text;
    EXPECT_TRUE(has(text, "plan-2, fork of plan")) << text;
}

TEST_F(Picker, ManySessions_OnlyThoseOnScreenAreRead) {
    SessionPicker picker(sessions(10'000), Style(), {.now = 4600});
    (void)screen(picker);
    EXPECT_LE(read(picker), 12u);
    const std::string text = screen(picker);
    EXPECT_TRUE(has(text, "❯ first line 0\n    1 hour ago · 2 messages\n")) << text;
    EXPECT_TRUE(has(text, "Enter opens · Esc closes")) << text;
    for (int i = 0; i < 30; ++i) (void)picker.press(key(KeyCode::down));
    (void)screen(picker);
    EXPECT_LE(read(picker), 12u);
    EXPECT_TRUE(has(screen(picker), "❯ first line 30")) << screen(picker);
}

TEST_F(Picker, Enter_OpensTheMarkedSession) {
    SessionPicker picker(sessions(3), Style(), {.now = 4600});
    (void)screen(picker);
    (void)read(picker);
    EXPECT_TRUE(picker.press(key(KeyCode::down)));
    EXPECT_FALSE(picker.press(key(KeyCode::enter)));
    ASSERT_TRUE(picker.chosen());
    EXPECT_EQ(picker.chosen()->name, "name-1");
}

TEST_F(Picker, EnterBeforeDetailsAreRead_OpensNothing) {
    SessionPicker picker(sessions(3), Style(), {.now = 4600});
    EXPECT_TRUE(picker.press(key(KeyCode::enter)));
    EXPECT_FALSE(picker.chosen());
}

TEST_F(Picker, Filter_ShowsHeadingsThenMessages) {
    SessionPicker picker(sessions(3), Style(), {.now = 4600});
    (void)screen(picker);
    (void)read(picker);
    type(picker, "LINE 2");
    EXPECT_TRUE(has(screen(picker), "❯ first line 2")) << screen(picker);
    EXPECT_FALSE(has(screen(picker), "first line 1")) << screen(picker);
    SessionPicker::Wanted wanted = picker.wanted();
    ASSERT_EQ(wanted.kind, Kind::messages);
    EXPECT_EQ(wanted.index, 0u);
    picker.set_match(0, *wanted.search, "a line 2 of the answer");
    EXPECT_TRUE(has(screen(picker), "a line 2 of the answer")) << screen(picker);
    EXPECT_EQ(picker.wanted().index, 1u);
}

TEST_F(Picker, ChangedFilter_StopsTheSearch) {
    SessionPicker picker(sessions(2), Style(), {.now = 4600});
    (void)screen(picker);
    (void)read(picker);
    type(picker, "xy");
    const SessionPicker::Wanted first = picker.wanted();
    ASSERT_EQ(first.kind, Kind::messages);
    picker.set_match(first.index, *first.search, {});
    const SessionPicker::Wanted second = picker.wanted();
    ASSERT_EQ(second.index, 1u);
    type(picker, "z");
    EXPECT_TRUE(second.search->stopped);
    EXPECT_EQ(picker.wanted().index, 1u) << "a session without xy has no xyz";
    picker.closed();
    EXPECT_TRUE(picker.is_closed());
}

TEST_F(Picker, OtherDirectories_AreShownByTab) {
    std::vector<ListedSession> all = sessions(1);
    all.push_back(listed("far", false));
    SessionPicker picker(std::move(all), Style(), {.now = 4600});
    (void)screen(picker);
    (void)read(picker);
    EXPECT_FALSE(has(screen(picker), "first line far")) << screen(picker);
    (void)picker.press(key(KeyCode::tab));
    (void)read(picker);
    EXPECT_TRUE(has(screen(picker), "first line far")) << screen(picker);
}

TEST_F(Picker, Deletion_AsksFirst) {
    SessionPicker picker(sessions(2), Style(), {.now = 4600});
    (void)screen(picker);
    (void)read(picker);
    (void)picker.press(key(KeyCode::erase));
    EXPECT_TRUE(has(screen(picker), "y deletes · 'first line 0' (2 messages)")) << screen(picker);
    (void)picker.press(key(KeyCode::enter));
    EXPECT_TRUE(has(screen(picker), "not deleted")) << screen(picker);
    EXPECT_EQ(picker.wanted().kind, Kind::nothing);
    EXPECT_FALSE(picker.chosen());
    (void)picker.press(key(KeyCode::end_of_input));
    (void)picker.press(key(KeyCode::text, "y"));
    const SessionPicker::Wanted wanted = picker.wanted();
    ASSERT_EQ(wanted.kind, Kind::removal);
    EXPECT_EQ(wanted.session.name, "name-0");
    EXPECT_EQ(picker.wanted().kind, Kind::nothing) << "once";
    picker.set_removed(wanted.index, "the disk is full");
    EXPECT_TRUE(has(screen(picker), "❯ first line 0")) << screen(picker);
    EXPECT_TRUE(has(screen(picker), "the disk is full")) << screen(picker);
    picker.set_removed(wanted.index, {});
    EXPECT_FALSE(has(screen(picker), "first line 0")) << screen(picker);
    EXPECT_TRUE(has(screen(picker), "❯ first line 1")) << screen(picker);
}

TEST_F(Picker, OpenSession_IsNotDeleted) {
    SessionPicker picker(sessions(1), Style(), {.now = 4600, .current = "0"});
    (void)screen(picker);
    (void)read(picker);
    (void)picker.press(key(KeyCode::erase));
    (void)picker.press(key(KeyCode::text, "y"));
    EXPECT_EQ(picker.wanted().kind, Kind::nothing) << "the letter is the filter";
}

TEST_F(Picker, Title_IsEditedAndStored) {
    SessionPicker picker(sessions(2), Style(), {.now = 4600});
    (void)screen(picker);
    (void)read(picker);
    (void)picker.press(key(KeyCode::search));
    type(picker, "The new pla");
    (void)picker.press(key(KeyCode::text, "n"));
    EXPECT_TRUE(has(screen(picker), "title > The new plan")) << screen(picker);
    (void)picker.press(key(KeyCode::enter));
    const SessionPicker::Wanted wanted = picker.wanted();
    ASSERT_EQ(wanted.kind, Kind::title);
    EXPECT_EQ(wanted.title, "The new plan");
    picker.set_title(wanted.index, wanted.title, {});
    EXPECT_TRUE(has(screen(picker), "❯ The new plan")) << screen(picker);
    (void)picker.press(key(KeyCode::search));
    (void)picker.press(key(KeyCode::escape));
    EXPECT_EQ(picker.wanted().kind, Kind::nothing);
    EXPECT_TRUE(has(screen(picker), "❯ The new plan")) << screen(picker);
}

TEST_F(Picker, Escape_ClearsTheFilterThenCloses) {
    SessionPicker picker(sessions(1), Style(), {.now = 4600});
    type(picker, "no such");
    EXPECT_TRUE(picker.press(key(KeyCode::escape)));
    EXPECT_FALSE(picker.press(key(KeyCode::escape)));
    EXPECT_FALSE(picker.chosen());
}

TEST_F(Picker, SmallScreen_HasOneRowPerSession) {
    SessionPicker picker(sessions(30), Style(), {.now = 4600});
    (void)screen(picker, 40, 12);
    (void)read(picker);
    const std::vector<TerminalText> rows = picker.screen(40, 12, {});
    ASSERT_EQ(rows.size(), 12u);
    EXPECT_EQ(rows[3].str(), "❯ first line 0  1 hour ago · 2 messages");
}

}  // namespace
}  // namespace cubepi::app
