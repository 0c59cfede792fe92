// Notifications, the window's title and the theme, without a terminal.

#include <gtest/gtest.h>

#include <string>

#include "attention.hpp"
#include "keys.hpp"

namespace cubepi::app {
namespace {

class AttentionOfAChat : public ::testing::Test {
protected:
    AttentionOfAChat() : attention([this](TerminalView text) { written += text.str(); }) {}
    ~AttentionOfAChat() override { Style::set_light(false); }
    void begin(NotificationKind notifications) {
        TerminalSettings settings;
        settings.notifications = notifications;
        attention.begin(settings);
        written.clear();
    }
    static std::string yellow() {
        Style style;
        style.color = true;
        return std::string(style.yellow().str());
    }

    std::string written;
    Attention attention;
};

TEST_F(AttentionOfAChat, WindowInFront_IsNotNotified) {
    begin(NotificationKind::bell);
    attention.notify("an answer waits");
    EXPECT_EQ(written, "");
    attention.set_focus(false);
    attention.notify("an answer waits");
    EXPECT_EQ(written, "\x07");
    attention.set_focus(true);
    attention.notify("an answer waits");
    EXPECT_EQ(written, "\x07");
}

TEST_F(AttentionOfAChat, Osc9_HasTheText) {
    begin(NotificationKind::osc9);
    attention.set_focus(false);
    attention.notify("an answer waits");
    EXPECT_EQ(written, "\x1b]9;an answer waits\x07");
}

TEST_F(AttentionOfAChat, Title_IsSanitized) {
    begin(NotificationKind::off);
    attention.set_title(
        "a\x1b]0;b\x07"
        "c");
    EXPECT_EQ(written, "\x1b]2;cubepi · a^[]0;b^Gc\x07");
    written.clear();
    attention.end();
    EXPECT_EQ(written, "\x1b[23;2t");
    attention.set_title("late");
    EXPECT_EQ(written, "\x1b[23;2t");
}

TEST_F(AttentionOfAChat, Activity_IsInTheTitle) {
    begin(NotificationKind::off);
    attention.set_title("plan");
    written.clear();
    attention.set_working(true);
    EXPECT_EQ(written, "\x1b]2;* cubepi · plan\x07");
    written.clear();
    attention.set_asking(true);
    EXPECT_EQ(written, "\x1b]2;? cubepi · plan\x07");
    attention.set_asking(false);
    written.clear();
    attention.set_working(false);
    attention.set_working(false);
    EXPECT_EQ(written, "\x1b]2;cubepi · plan\x07");
}

TEST_F(AttentionOfAChat, AutomaticTheme_AsksTheTerminalAgain) {
    begin(NotificationKind::off);
    attention.set_theme(ThemeKind::light);
    EXPECT_EQ(written, "");
    EXPECT_EQ(yellow(), "\x1b[35m");
    attention.set_theme(ThemeKind::automatic);
    EXPECT_EQ(written, "\x1b]11;?\x1b\\");
    attention.take_report("11;rgb:0/0/0");
    EXPECT_EQ(yellow(), "\x1b[33m");
}

TEST_F(AttentionOfAChat, Background_ChoosesTheTheme) {
    const std::string dark = yellow();
    begin(NotificationKind::off);
    for (const char* report : {"11;rgb:ffff/ffff/ffff", "11;rgb:f/f/e"}) {
        Style::set_light(false);
        attention.take_report(report);
        EXPECT_NE(yellow(), dark) << report;
    }
    for (const char* report :
         {"11;rgb:0000/1111/2222", "11;rgb:x/f/f", "11;rgb:fffff/f/f", "10;rgb:f/f/f", ""}) {
        Style::set_light(false);
        attention.take_report(report);
        EXPECT_EQ(yellow(), dark) << report;
    }
}

TEST(Keys, ReportsOfTheWindow_AreKeys) {
    KeyDecoder decoder;
    const auto keys = decoder.feed("\x1b[I\x1b[Oa\x1b]11;rgb:ffff/ffff/ffff\x1b\\");
    ASSERT_EQ(keys.size(), 4u);
    EXPECT_EQ(keys[0].code, KeyCode::focus_in);
    EXPECT_EQ(keys[1].code, KeyCode::focus_out);
    EXPECT_EQ(keys[2].text, "a");
    EXPECT_EQ(keys[3].code, KeyCode::report);
    EXPECT_EQ(keys[3].text, "11;rgb:ffff/ffff/ffff");
    EXPECT_TRUE(decoder.feed("\x1b]52;c;" + std::string(300, 'x') + "\x07").empty())
        << "long reports are dropped";
    EXPECT_TRUE(decoder.feed("\x1bP11;rgb:f/f/f\x1b\\").empty()) << "not an OSC";
}

}  // namespace
}  // namespace cubepi::app
