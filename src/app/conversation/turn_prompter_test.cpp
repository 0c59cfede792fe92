#include "turn_prompter.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/testing/manual_clock.hpp>

namespace cubepi::app {
namespace {

using std::chrono::seconds;

/// Answers when it is told to.
class ScriptedPrompter final : public Prompter {
public:
    void say(TerminalView) override {}
    Task<std::optional<std::string>> read(TerminalText, std::string) override {
        co_await answered.wait();
        co_return std::optional<std::string>("y");
    }
    AsyncEvent answered;
};

class TurnPrompterTest : public ::testing::Test {
protected:
    AgentEvent event(std::uint64_t seq) const {
        AgentEvent made;
        made.run = run_;
        made.seq = seq;
        return made;
    }
    void prepare() {
        boost::asio::co_spawn(io_, questions_.prepare(),
                              [this](const std::exception_ptr&) { prepared_ = true; });
        work();
    }
    void ask() {
        boost::asio::co_spawn(io_, questions_.read(TerminalView("? ")),
                              [](const std::exception_ptr&, const std::optional<std::string>&) {});
        work();
    }
    void work() {
        io_.restart();
        io_.poll();
    }

    boost::asio::io_context io_;
    testing::ManualClock clock_;
    std::shared_ptr<ScriptedPrompter> prompter_ = std::make_shared<ScriptedPrompter>();
    std::shared_ptr<const RunInfo> run_ = std::make_shared<const RunInfo>();
    int ended_ = 0;
    TurnPrompter questions_{prompter_, clock_, io_.get_executor(), [this] { ++ended_; }};
    bool prepared_ = false;
};

TEST_F(TurnPrompterTest, AQuestionWaitsUntilAllEarlierEventsAreShown) {
    questions_.emitted(event(7));
    questions_.shown(event(5));
    prepare();
    EXPECT_FALSE(prepared_);
    questions_.shown(event(6));
    work();
    EXPECT_FALSE(prepared_);
    EXPECT_EQ(ended_, 0) << "text that is still to come would be torn apart";
    questions_.shown(event(7));
    work();
    EXPECT_TRUE(prepared_);
    EXPECT_EQ(ended_, 1);
}

TEST_F(TurnPrompterTest, EventsThatAreNeverShownDoNotHoldUpAQuestion) {
    questions_.emitted(event(7));
    prepare();
    EXPECT_FALSE(prepared_);
    clock_.advance(seconds(1));
    work();
    EXPECT_TRUE(prepared_);
}

TEST_F(TurnPrompterTest, MeasuresHowLongTheUserTakes) {
    ask();
    clock_.advance(seconds(3));
    EXPECT_EQ(questions_.waited(), seconds(3)) << "while the question is open";
    ask();
    clock_.advance(seconds(2));
    prompter_->answered.set();
    work();
    clock_.advance(seconds(9));
    EXPECT_EQ(questions_.waited(), seconds(5)) << "two questions at once count once";
}

}  // namespace
}  // namespace cubepi::app
