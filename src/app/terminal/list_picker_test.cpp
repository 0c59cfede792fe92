// A list from which one row is picked, without a terminal.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "full_screen.hpp"

namespace cubepi::app {
namespace {

Key key(KeyCode code, std::string text = {}) {
    Key made;
    made.code = code;
    made.text = std::move(text);
    return made;
}

PickList models(std::size_t count) {
    PickList list;
    list.heading = "Models";
    for (std::size_t i = 0; i < count; ++i) {
        PickList::Row row;
        row.text = "model-" + std::to_string(i);
        row.is_current = i == 2;
        list.rows.push_back(std::move(row));
    }
    return list;
}

std::string screen(ListPicker& picker, std::size_t rows = 12) {
    std::string text;
    for (const TerminalText& row : picker.screen(40, rows, {})) text += row.str() + "\n";
    return text;
}

TEST(ListPicker, Beginning_MarksTheCurrentRow) {
    ListPicker picker(models(5), Style());
    const std::string text = screen(picker);
    EXPECT_NE(text.find("❯ model-2  current"), std::string::npos) << text;
    EXPECT_FALSE(picker.press(key(KeyCode::enter)));
    EXPECT_EQ(picker.picked(), 2u);
}

TEST(ListPicker, TypedText_FiltersAndEscClears) {
    ListPicker picker(models(30), Style());
    for (const char c : std::string("ml17")) (void)picker.press(key(KeyCode::text, {c}));
    EXPECT_NE(screen(picker).find("❯ model-17"), std::string::npos) << screen(picker);
    EXPECT_EQ(screen(picker).find("model-2"), std::string::npos) << screen(picker);
    EXPECT_TRUE(picker.press(key(KeyCode::escape)));
    EXPECT_NE(screen(picker).find("model-2"), std::string::npos) << screen(picker);
    EXPECT_FALSE(picker.press(key(KeyCode::escape)));
    EXPECT_FALSE(picker.picked().has_value());
}

TEST(ListPicker, LongList_ScrollsWithTheMark) {
    ListPicker picker(models(30), Style());
    (void)screen(picker);
    (void)picker.press(key(KeyCode::end));
    EXPECT_NE(screen(picker).find("❯ model-29"), std::string::npos) << screen(picker);
    (void)picker.press(key(KeyCode::page_up));
    (void)picker.press(key(KeyCode::up));
    const std::string text = screen(picker);
    EXPECT_NE(text.find("❯ model-20"), std::string::npos) << text;
}

TEST(ListPicker, NoMatch_PicksNothing) {
    ListPicker picker(models(3), Style());
    (void)picker.press(key(KeyCode::paste, "other\nlines"));
    EXPECT_NE(screen(picker).find("Nothing has this text."), std::string::npos) << screen(picker);
    EXPECT_NE(screen(picker).find("> other\n"), std::string::npos) << screen(picker);
    EXPECT_TRUE(picker.press(key(KeyCode::enter)));
    (void)picker.press(key(KeyCode::down));
    EXPECT_FALSE(picker.picked().has_value());
}

TEST(ListPicker, TinyScreen_HasTheMarkedRow) {
    ListPicker picker(models(3), Style());
    EXPECT_NE(screen(picker, 4).find("❯ model-2"), std::string::npos) << screen(picker, 4);
}

}  // namespace
}  // namespace cubepi::app
