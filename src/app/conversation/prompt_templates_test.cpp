// Prompts that slash commands stand for.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <cubepi/core/scoped_test_directory.hpp>

#include "../chat_commands.hpp"
#include "prompt_templates.hpp"

namespace cubepi::app {
namespace {

PromptTemplate with_text(std::string text) {
    PromptTemplate made;
    made.text = std::move(text);
    return made;
}

TEST(PromptTemplate, Placeholders_AreReplacedOnce) {
    EXPECT_EQ(with_text("a $ARGUMENTS b").expanded(" x  y "), "a x  y b");
    EXPECT_EQ(with_text("$2-$1-$3.").expanded("'one two' $1"), "$1-one two-.");
    EXPECT_EQ(with_text("$ARGUMENTS").expanded("$1 $ARGUMENTS"), "$1 $ARGUMENTS");
    EXPECT_EQ(with_text("cost: $0, $10").expanded("5"), "cost: $0, 50");
    EXPECT_EQ(with_text("text").expanded("more"), "text\n\nmore");
    EXPECT_EQ(with_text("text").expanded(""), "text");
}

class TemplateFiles : public ::testing::Test {
protected:
    TemplateFiles() { std::filesystem::create_directories(directory()); }
    std::filesystem::path directory() const { return root_ / ".cubepi" / "prompts"; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(directory() / name) << text;
    }
    void add(std::string name, std::string text) {
        prompts_.push_back({std::move(name), std::move(text)});
    }

    std::vector<ProjectPrompt> prompts_;  ///< of the project
    ScopedTestDirectory temporary_;
    const std::filesystem::path& root_ = temporary_.path();
};

TEST_F(TemplateFiles, FrontMatter_DescribesThePrompt) {
    add("fix-it", "---\ndescription: \"Fixes \x1b[31mit\"\nargument-hint: ISSUE\n---\nFix $1.\n");
    add("plain", "# Just do\nthis.");
    const PromptTemplates found = project_templates(prompts_);
    ASSERT_EQ(found.all.size(), 2u);
    EXPECT_EQ(found.all[0].name, "fix-it");
    EXPECT_EQ(found.all[0].description, "Fixes ^[[31mit");
    EXPECT_EQ(found.all[0].argument_hint, "ISSUE");
    EXPECT_EQ(found.all[0].text, "Fix $1.");
    EXPECT_EQ(found.all[0].source, PromptTemplate::Source::project);
    EXPECT_EQ(found.all[1].text, "# Just do\nthis.");
    EXPECT_EQ(found.all[1].description, "Just do");
    EXPECT_EQ(found.problems, std::vector<std::string>());
}

TEST_F(TemplateFiles, UnusableFiles_AreNamed) {
    write("Big Name.md", "x");
    write("huge.md", std::string(70'000, 'x'));
    write("broken.md", "\xff");
    std::ofstream(root_ / "secret") << "key";
    std::filesystem::create_symlink(root_ / "secret", directory() / "link.md");
    std::filesystem::create_directory(directory() / "dir.md");
    const PromptTemplates found = user_templates(root_ / ".cubepi");
    EXPECT_TRUE(found.all.empty());
    EXPECT_EQ(found.problems.size(), 5u);
}

TEST_F(TemplateFiles, Project_ReplacesNoPrompt) {
    add("review", "harmless?");
    PromptTemplates all = shipped_templates();
    all.add(project_templates(prompts_));
    EXPECT_NE(all.find("review")->text, "harmless?");
    ASSERT_EQ(all.problems.size(), 1u);
    write("review.md", "harmless?");
    write("own.md", "mine");
    PromptTemplates user = user_templates(root_ / ".cubepi");
    user.add(shipped_templates());
    EXPECT_EQ(user.find("review")->text, "harmless?");
    EXPECT_EQ(user.problems, std::vector<std::string>());
}

TEST_F(TemplateFiles, Input_BecomesThePrompt) {
    add("go", ",tape_reset $1");
    PromptTemplates all = shipped_templates();
    all.add(project_templates(prompts_));
    const ChatAbilities chat{.live = true, .trusted = true, .templates = &all};
    ChatInput input = read_chat_input("/go @a.txt", chat);
    EXPECT_EQ(input.kind, ChatInput::Kind::prompt) << "the text is not a command";
    EXPECT_EQ(input.text, ",tape_reset @a.txt");
    EXPECT_EQ(input.argument, "@a.txt");
    input = read_chat_input("/btw why?", chat);
    EXPECT_TRUE(input.is_aside);
    EXPECT_EQ(read_chat_input("/btw", chat).kind, ChatInput::Kind::refused);
    EXPECT_EQ(read_chat_input("/gone", chat).kind, ChatInput::Kind::refused);
    EXPECT_NE(chat_help(chat).find("/go "), std::string::npos);
    const ChatAbilities piped{.live = false, .trusted = false, .templates = &all};
    EXPECT_EQ(read_chat_input("/go x", piped).kind, ChatInput::Kind::refused);
}

}  // namespace
}  // namespace cubepi::app
