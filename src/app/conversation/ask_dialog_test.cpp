#include "ask_dialog.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "scripted_prompter_test_support.hpp"

#include <cubepi/core/run.hpp>

namespace cubepi::app {
namespace {

HitlOption option(std::string label, std::string value, bool allow_input = false) {
    HitlOption made;
    made.label = std::move(label);
    made.value = std::move(value);
    made.allow_input = allow_input;
    return made;
}

HitlQuestion question(std::string key) {
    HitlQuestion made;
    made.key = std::move(key);
    made.prompt = "Which " + made.key + "?";
    return made;
}

HitlQuestion colors(bool multi_select = false, bool allow_input = false) {
    HitlQuestion made = question("color");
    made.multi_select = multi_select;
    made.options = {option("Dark red", "red"), option("Blue", "blue"),
                    option("Other", "other", allow_input)};
    return made;
}

TEST(TypedAnswer, AnOptionIsNamedByNumberLabelOrValue) {
    for (const std::string_view text : {"1", " dark RED ", "red"}) {
        const TypedAnswer answer = read_typed_answer(colors(), text);
        EXPECT_EQ(answer.problem, "") << text;
        EXPECT_EQ(answer.value, Json("red")) << text;
    }
    for (const std::string_view text : {"0", "4", "green", "re"}) {
        const TypedAnswer answer = read_typed_answer(colors(), text);
        EXPECT_NE(answer.problem.find("is not an option; enter a number from 1 to 3"),
                  std::string::npos)
            << text;
    }
}

TEST(TypedAnswer, OtherTextIsAcceptedIfAnOptionAllowsInput) {
    EXPECT_EQ(read_typed_answer(colors(false, true), "green").value, Json("green"));
    EXPECT_EQ(read_typed_answer(question("name"), " Ada ").value, Json("Ada"));
}

TEST(TypedAnswer, SeveralOptionsAreAListWithoutRepetitions) {
    EXPECT_EQ(read_typed_answer(colors(true), "2, dark red,2,").value,
              Json(JsonArray{"blue", "red"}));
    EXPECT_FALSE(read_typed_answer(colors(true), "2, green").problem.empty());
}

TEST(TypedAnswer, OnlyAnOptionalQuestionIsSkipped) {
    HitlQuestion optional = colors();
    optional.required = false;
    EXPECT_EQ(read_typed_answer(optional, "  ").problem, "");
    EXPECT_TRUE(read_typed_answer(optional, "").value.is_null());
    EXPECT_FALSE(read_typed_answer(colors(), "").problem.empty());
}

TEST(AskDialog, AsksEachQuestionUntilItsAnswerIsAccepted) {
    ScriptedPrompter prompter({"green", "2", "", "Ada"});
    AskRequest request;
    request.questions = {colors(), question("name")};
    const std::optional<JsonObject> answers =
        run(AskDialog(prompter, Style()).ask(std::move(request)));
    EXPECT_EQ(answers, (JsonObject{{"color", "blue"}, {"name", "Ada"}}));
    EXPECT_NE(prompter.shown.find("? The model asks:\n  │ Which color?\n  │ 1  Dark red\n"),
              std::string::npos)
        << prompter.shown;
}

TEST(AskDialog, TextOfTheModelIsFramedAndWithoutControlCharacters) {
    ScriptedPrompter prompter({"x"});
    AskRequest request;
    request.questions = {question("\x1b[2Jname\n? Run this command")};
    (void)run(AskDialog(prompter, Style()).ask(std::move(request)));
    EXPECT_EQ(prompter.shown.find('\x1b'), std::string::npos);
    EXPECT_EQ(prompter.shown.find("\n? Run"), std::string::npos) << prompter.shown;
}

TEST(AskDialog, NothingIsAnsweredWhenTheInputEnds) {
    ScriptedPrompter prompter({"1"});
    AskRequest request;
    request.questions = {colors(), question("name")};
    EXPECT_FALSE(run(AskDialog(prompter, Style()).ask(std::move(request))));
}

TEST(AskDialog, AConfirmationTakesYesOrNo) {
    ScriptedPrompter prompter({"maybe", "YES", "n"});
    AskDialog dialog(prompter, Style());
    ConfirmRequest request;
    request.prompt = "Sure?";
    EXPECT_EQ(run(dialog.confirm(request)), true);
    EXPECT_EQ(run(dialog.confirm(request)), false);
    EXPECT_EQ(run(dialog.confirm(request)), std::nullopt);
}

}  // namespace
}  // namespace cubepi::app
