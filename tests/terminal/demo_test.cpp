#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

bool left_something(const Home& home) { return !std::filesystem::is_empty(home.root() / "tmp"); }

TEST(Demo, NoTerminal_AnswersItselfAndSaysSo) {
    const Home home;
    const Piped demo = run_piped(home, {"demo"});
    EXPECT_EQ(demo.status, 0) << demo.out << demo.err;
    for (const char* text : {"a script", "1 of 5", "5 of 5", "the tour answers for you",
                             "plan.md, as it is on the disk now", "killed inside the tool",
                             "The outbox holds 1 letter", "What you saw", "  cubepi onboard"}) {
        EXPECT_NE(demo.out.find(text), std::string::npos) << text << "\n" << demo.out;
    }
    EXPECT_EQ(demo.out.find("✗"), std::string::npos) << demo.out;
    EXPECT_NE(demo.out.find("unknown"), std::string::npos)
        << "the result that stands for the lost one";
    EXPECT_FALSE(left_something(home));
}

TEST(Demo, Terminal_AsksTheUser) {
    const Home home;
    Terminal demo(home, {"demo", "--fast"});
    ASSERT_TRUE(demo.answer("[y]es  [n]o", "y\r")) << demo.shown();
    EXPECT_TRUE(demo.expect("plan.md, as it is on the disk now")) << demo.shown();
    EXPECT_EQ(demo.wait(), 0) << demo.shown();
    EXPECT_NE(demo.shown().find("What you saw"), std::string::npos);
    EXPECT_FALSE(left_something(home));
}

TEST(Demo, No_IsTakenAsAnAnswer) {
    const Home home;
    Terminal demo(home, {"demo", "--fast"});
    ASSERT_TRUE(demo.answer("[y]es  [n]o", "n\r")) << demo.shown();
    EXPECT_TRUE(demo.expect("plan.md does not exist")) << demo.shown();
    EXPECT_EQ(demo.wait(), 0) << demo.shown();
    EXPECT_NE(demo.shown().find("a write that you refused"), std::string::npos);
}

TEST(Demo, Key_OffersALiveChat) {
    Home home;
    home.set("OPENAI_API_KEY", "sk-none");
    Terminal demo(home, {"demo", "--fast"});
    ASSERT_TRUE(demo.answer("[y]es  [n]o", "y\r")) << demo.shown();
    ASSERT_TRUE(demo.expect("Chat with your key now")) << demo.shown();
    ASSERT_TRUE(demo.answer("[y/N] > ", "y\r")) << demo.shown();
    ASSERT_TRUE(demo.expect("talks to gpt-5.1 at api.openai.com")) << demo.shown();
    ASSERT_TRUE(demo.answer("> ", "/quit\r")) << demo.shown();
    EXPECT_EQ(demo.wait(), 0) << demo.shown();
}

TEST(Demo, CtrlC_EndsTheDemoAndCleansUp) {
    const Home home;
    Terminal demo(home, {"demo", "--fast"});
    ASSERT_TRUE(demo.answer("[y]es  [n]o", "\x03")) << demo.shown();
    EXPECT_EQ(demo.wait(), 130) << demo.shown();
    EXPECT_FALSE(left_something(home));
}

}  // namespace
}  // namespace cubepi::terminal_tests
