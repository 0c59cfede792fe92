#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <bub/framework.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>

namespace bub {
namespace {

using Texts = std::vector<std::string>;

struct Recorded final : Lifespan {
    Recorded(std::string given, Texts& seen) : name(std::move(given)), log(seen) {}
    Task<> open() override {
        log.push_back("open " + name);
        if (name == "broken") throw std::runtime_error("broken");
        co_await cubepi::yield_now();
    }
    Task<> close(std::exception_ptr error) override {
        log.push_back("close " + name + (error ? " after a failure" : ""));
        if (name == "stubborn") throw std::runtime_error("stubborn");
        co_await cubepi::yield_now();
    }
    std::string name;
    Texts& log;
};

class RunningTest : public ::testing::Test {
protected:
    RunningTest() : framework(options()) {}
    FrameworkOptions options() {
        FrameworkOptions made;
        made.on_warning = [this](const std::string& text) { warnings.push_back(text); };
        return made;
    }
    void add(const std::string& name) {
        Plugin plugin;
        plugin.name = name;
        plugin.provide_lifespan = [this, name](ProvideCall&) -> std::shared_ptr<Lifespan> {
            return std::make_shared<Recorded>(name, log);
        };
        framework.add(std::move(plugin));
    }
    Task<> work(bool fails) {
        log.emplace_back("work");
        if (fails) throw std::runtime_error("no");
        co_return;
    }

    Texts log;
    Texts warnings;
    Framework framework;
};

TEST_F(RunningTest, Lifespans_OpenAroundWorkInOrderOfRegistration) {
    add("a");
    add("b");
    cubepi::run(framework.running(work(false)));
    EXPECT_EQ(log, (Texts{"open a", "open b", "work", "close b", "close a"}));
}

TEST_F(RunningTest, FailureOfWork_IsPassedOnAndThrown) {
    add("a");
    EXPECT_THROW(cubepi::run(framework.running(work(true))), std::runtime_error);
    EXPECT_EQ(log, (Texts{"open a", "work", "close a after a failure"}));
}

TEST_F(RunningTest, FailedOpening_ClosesEarlierLifespansAndPreventsWork) {
    add("a");
    add("broken");
    add("c");
    EXPECT_THROW(cubepi::run(framework.running(work(false))), std::runtime_error);
    EXPECT_EQ(log, (Texts{"open a", "open broken", "close a after a failure"}));
}

TEST_F(RunningTest, FailedClosing_StillClosesTheOthers) {
    add("a");
    add("stubborn");
    cubepi::run(framework.running(work(false)));
    EXPECT_EQ(log, (Texts{"open a", "open stubborn", "work", "close stubborn", "close a"}));
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("stubborn"), std::string::npos);
}

TEST(FrameworkEnvironment, VariableOfHigherPrecedencePlugin_Wins) {
    Framework framework;
    int asked = 0;
    const auto add = [&](const char* name, EnvironmentVariables variables) {
        Plugin plugin;
        plugin.name = name;
        plugin.provide_environment = [&asked, variables](ProvideCall&) {
            ++asked;
            return variables;
        };
        framework.add(std::move(plugin));
    };
    add("older", {{"A", "1"}, {"B", "1"}});
    add("newer", {{"B", "2"}});
    const EnvironmentVariables expected{{"A", "1"}, {"B", "2"}};
    EXPECT_EQ(cubepi::run(framework.environment()), expected);
    EXPECT_EQ(cubepi::run(framework.environment()), expected);
    EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace bub
