// A server that cuts long requests without saying so, as local servers do: the program notices it, and forgets nothing (D111).

#include <gtest/gtest.h>

#include <string>

#include "cutting_model.hpp"
#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::Terminal;

TEST(SilentCut, D111_Run_NoticesAndForgetsNothing) {
    const Home home;
    CuttingModel model;
    ModelServer server([&model](const boost::json::object& body) { return model.answer(body); });
    bool is_noticed = false;
    bool is_compacted = false;
    for (std::size_t i = 0; i < 20; ++i) {
        // Each prompt is a process of its own: what the server has counted is in the session.
        const Piped run = run_at(home, server, {"-s", "long", model.prompt()});
        ASSERT_EQ(run.status, 0) << run.err;
        is_noticed = is_noticed || run.err.find("seems to cut requests") != std::string::npos;
        is_compacted =
            is_compacted || run.err.find("compacted the conversation") != std::string::npos;
    }
    EXPECT_TRUE(is_noticed);
    EXPECT_TRUE(is_compacted);
    EXPECT_GE(model.summaries, 1u);
    EXPECT_LE(model.largest_summary, CuttingModel::window) << "the server would cut it, too";
    EXPECT_FALSE(model.was_cut) << "later requests fit";
    EXPECT_EQ(run_at(home, server, {"-s", "long", "recall all"}).status, 0);
    EXPECT_EQ(CuttingModel::recalled(server).size(), model.planted);
}

TEST(SilentCut, D111_Chat_NoticesAndForgetsNothing) {
    const Home home;
    CuttingModel model;
    ModelServer server([&model](const boost::json::object& body) { return model.answer(body); });
    Terminal chat(home, {"chat", "--base-url", server.url(), "-m", "local"});
    // As a paste, which the terminal marks: keys that arrive in parts could be meant as answers or commands.
    const auto pasted = [&model] { return "\x1b[200~" + model.prompt() + "\x1b[201~\r"; };
    ASSERT_TRUE(chat.answer_on_screen("talks to", pasted()));
    for (std::size_t i = 1; i < 20; ++i) {
        ASSERT_TRUE(chat.expect("Noted " + std::to_string(i) + ".")) << chat.shown();
        ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
        chat.type(pasted());
    }
    ASSERT_TRUE(chat.expect("Noted 20.")) << chat.shown();
    EXPECT_NE(chat.shown().find("seems to cut requests"), std::string::npos);
    EXPECT_NE(chat.shown().find("compacted the conversation"), std::string::npos);
    EXPECT_LE(model.largest_summary, CuttingModel::window) << "the server would cut it, too";
    EXPECT_FALSE(model.was_cut) << "later requests fit";
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("recall all\r");
    ASSERT_TRUE(chat.expect("Recalled.")) << chat.shown();
    EXPECT_EQ(CuttingModel::recalled(server).size(), model.planted);
}

}  // namespace
}  // namespace cubepi::joint_tests
