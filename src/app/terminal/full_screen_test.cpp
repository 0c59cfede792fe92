#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/scoped_test_directory.hpp>

#include "full_screen.hpp"

// The list from which one row is picked, and the pager, without a terminal.

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

PagerItem item(TerminalView title, std::string text) {
    PagerItem made;
    made.title = title;
    made.text = std::move(text);
    return made;
}

std::string lines(int from, int to) {
    std::string text;
    for (int i = from; i <= to; ++i) text += "line " + std::to_string(i) + "\n";
    return text;
}

class PagerOnAScreen : public ::testing::Test {
protected:
    PagerOnAScreen() {
        items.add(item("first", lines(1, 30)));
        items.add(item("second", lines(101, 130)));
    }
    std::vector<std::string> screen(Pager& pager, std::size_t columns = 40) {
        std::vector<std::string> rows;
        for (const TerminalText& row : pager.screen(columns, 6)) rows.push_back(row.str());
        return rows;
    }

    PagerItems items;
};

TEST_F(PagerOnAScreen, FirstScreen_BeginsWithLastItem) {
    Pager pager(items.all(), Style());
    const std::vector<std::string> rows = screen(pager);
    ASSERT_EQ(rows.size(), 6u);
    EXPECT_EQ(rows[0], "second");
    EXPECT_EQ(rows[1], "  line 101");
    EXPECT_TRUE(rows[5].starts_with("2 of 2 · row 37 of 63")) << rows[5];
}

TEST_F(PagerOnAScreen, OutputInAFile_IsShownInFull) {
    const ScopedTestDirectory directory;
    const std::string path = directory.path() / "output.txt";
    std::ofstream(path) << lines(1, 500);
    PagerItem part = item("command", "line 1\n[... 9 bytes omitted ...]\nline 500\n");
    part.file = path;
    items.add(part);
    part.file = directory.path() / "removed.txt";
    items.add(part);
    const PagerItems whole = items.whole();
    ASSERT_EQ(whole.all().size(), 4u);
    EXPECT_EQ(whole.all()[2].text, lines(1, 500));
    EXPECT_EQ(whole.all()[3].text, part.text) << "a file that is gone";
    EXPECT_EQ(items.all()[2].text, part.text);
}

TEST_F(PagerOnAScreen, Prose_BreaksAtSpaces) {
    PagerItems texts;
    for (const bool is_prose : {false, true}) {
        PagerItem text = item("help", "/tasks what runs in the background commands");
        text.is_prose = is_prose;
        texts.add(std::move(text));
    }
    Pager code(texts.all(), Style(), PagerStart::first_item);
    const std::vector<std::string> rows = screen(code, 24);
    EXPECT_EQ(rows[1], "  /tasks what runs in t");
    EXPECT_EQ(rows[2], "  ┊ he background comma");
    EXPECT_TRUE(code.press(key(KeyCode::end)));
    const std::vector<std::string> prose = screen(code, 24);
    EXPECT_EQ(prose[2], "  /tasks what runs in");
    EXPECT_EQ(prose[3], "  the background");
    EXPECT_EQ(prose[4], "  commands");
}

TEST_F(PagerOnAScreen, Keys_ScrollAndGoFromItemToItem) {
    Pager pager(items.all(), Style());
    (void)screen(pager);
    EXPECT_TRUE(pager.press(key(KeyCode::down)));
    EXPECT_EQ(screen(pager)[0], "  line 101");
    EXPECT_TRUE(pager.press(key(KeyCode::left)));
    EXPECT_EQ(screen(pager)[0], "second") << "the beginning of the same item";
    EXPECT_TRUE(pager.press(key(KeyCode::left)));
    EXPECT_EQ(screen(pager)[0], "first");
    EXPECT_TRUE(pager.press(key(KeyCode::page_down)));
    EXPECT_EQ(screen(pager)[0], "  line 4");
    EXPECT_TRUE(pager.press(key(KeyCode::end)));
    EXPECT_EQ(screen(pager)[4], "  line 130");
    EXPECT_TRUE(pager.press(key(KeyCode::down)));
    EXPECT_EQ(screen(pager)[4], "  line 130");
    EXPECT_TRUE(pager.press(key(KeyCode::home)));
    EXPECT_TRUE(pager.press(key(KeyCode::up)));
    EXPECT_EQ(screen(pager)[0], "first");
}

TEST_F(PagerOnAScreen, Search_GoesToTheNextMatch) {
    Pager pager(items.all(), Style());
    (void)screen(pager);
    (void)pager.press(key(KeyCode::text, "/"));
    for (const char* letter : {"L", "I", "N", "E", " ", "1", "1"})
        (void)pager.press(key(KeyCode::text, letter));
    EXPECT_EQ(screen(pager)[5], "/LINE 11");
    (void)pager.press(key(KeyCode::enter));
    EXPECT_EQ(screen(pager)[0], "  line 110");
    (void)pager.press(key(KeyCode::text, "n"));
    EXPECT_EQ(screen(pager)[0], "  line 111");
    (void)pager.press(key(KeyCode::text, "/"));
    (void)pager.press(key(KeyCode::text, "x"));
    (void)pager.press(key(KeyCode::enter));
    EXPECT_NE(screen(pager)[5].find("not found"), std::string::npos);
}

TEST_F(PagerOnAScreen, SeveralKeys_Close) {
    for (const Key& closing : {key(KeyCode::text, "q"), key(KeyCode::escape),
                               key(KeyCode::interrupt), key(KeyCode::unfold)}) {
        Pager pager(items.all(), Style());
        (void)screen(pager);
        EXPECT_FALSE(pager.press(closing));
    }
}

TEST_F(PagerOnAScreen, NewWidth_StaysAtTheItem) {
    items.add(item("third", std::string(100, 'x')));
    Pager pager(items.all(), Style());
    (void)screen(pager);
    (void)pager.press(key(KeyCode::left));
    EXPECT_EQ(screen(pager)[0], "second");
    EXPECT_EQ(screen(pager, 20)[0], "second");
}

TEST_F(PagerOnAScreen, ControlCharacters_AreRemoved) {
    items.add(item("third", "a\x1b[2Jb\n" + std::string(5000, 'y')));
    Pager pager(items.all(), Style());
    for (const std::string& row : screen(pager))
        EXPECT_EQ(row.find("\x1b[2J"), std::string::npos) << row;
}

TEST(PagerItems, OldItems_AreDropped) {
    PagerItems items;
    for (int i = 0; i < 10; ++i)
        items.add(item("one", std::string(PagerItems::max_bytes / 4, static_cast<char>('a' + i))));
    ASSERT_EQ(items.all().size(), 4u);
    EXPECT_EQ(items.all().back().text.front(), 'j');
    items.add(item("long", "begin\n" + std::string(PagerItems::max_bytes, 'x') + "\nend"));
    EXPECT_LE(items.all().back().text.size(), PagerItems::max_bytes);
    EXPECT_TRUE(items.all().back().text.ends_with("\nend"));
}

}  // namespace

}  // namespace cubepi::app
