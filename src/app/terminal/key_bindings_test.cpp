// Keys that the user has changed.

#include <gtest/gtest.h>

#include <string>

#include <cubepi/core/error.hpp>

#include "key_bindings.hpp"

namespace cubepi::app {
namespace {

TEST(KeyBindings, D211_ChangedKeys_AreDecoded) {
    KeyBindings bindings;
    bindings.set("f5", "/status");
    bindings.set("alt-e", "editor");
    bindings.set("ctrl-o", "none");
    bindings.set("f1", "pager");
    const std::string bytes =
        "a\x1b[15~\x1b"
        "e\x0f\x1bOPb\x05";
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
        KeyDecoder decoder;
        decoder.set_bindings(&bindings);
        std::vector<Key> keys = decoder.feed(bytes.substr(0, cut));
        for (Key& key : decoder.feed(bytes.substr(cut))) keys.push_back(std::move(key));
        ASSERT_EQ(keys.size(), 6u) << "cut at " << cut;
        EXPECT_EQ(keys[1].code, KeyCode::command);
        EXPECT_EQ(keys[1].text, "/status");
        EXPECT_EQ(keys[2].code, KeyCode::cancel);
        EXPECT_EQ(keys[3].code, KeyCode::unfold);
        EXPECT_EQ(keys[5].code, KeyCode::end);
    }
}

TEST(KeyBindings, D211_KeysThatStop_CannotBeChanged) {
    KeyBindings bindings;
    for (const char* key : {"ctrl-c", "ctrl-d", "ctrl-m", "enter", "esc", "a", "alt-[", "Ctrl-E",
                            "ctrl-ee", "f13", "f0", ""}) {
        EXPECT_THROW(bindings.set(key, "editor"), Error) << key;
    }
    for (const char* action : {"edit", "", "/", "/a\nb", "//x"})
        EXPECT_THROW(bindings.set("f5", action), Error) << action;
    EXPECT_EQ(bindings, KeyBindings());
}

TEST(KeyBindings, D211_AltLetters_AreNotThoseOfVi) {
    KeyBindings bindings;
    bindings.set("alt-e", "editor");
    KeyDecoder decoder;
    decoder.set_bindings(&bindings);
    decoder.set_alt_letters(false);
    const std::vector<Key> keys = decoder.feed(
        "\x1b"
        "e");
    ASSERT_EQ(keys.size(), 2u);
    EXPECT_EQ(keys[0].code, KeyCode::escape);
    EXPECT_EQ(keys[1].text, "e");
}

TEST(KeyBindings, Help_NamesTheKeyInUse) {
    KeyBindings bindings;
    EXPECT_EQ(bindings.key_of(KeyCode::unfold).str(), "Ctrl-O");
    bindings.set("ctrl-o", "editor");
    EXPECT_EQ(bindings.key_of(KeyCode::unfold).str(), "");
    EXPECT_EQ(bindings.key_of(KeyCode::cancel).str(), "Ctrl-O");
    bindings.set("f2", "pager");
    bindings.set("f3", "/cost");
    const std::string help = bindings.help();
    EXPECT_NE(help.find("  F2                results"), std::string::npos) << help;
    EXPECT_NE(help.find("  F3                /cost\n"), std::string::npos) << help;
    EXPECT_NE(help.find("  Editing: Ctrl-A line-start, "), std::string::npos) << help;
}

}  // namespace
}  // namespace cubepi::app
