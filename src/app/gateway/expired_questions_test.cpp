#include "gateway_questions.hpp"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi::app {
namespace {

using Texts = std::vector<std::string>;

class ExpiredQuestionsTest : public ::testing::Test {
public:
    /// Passes questions with these keys, which are also the texts of their messages.
    void notify(const Texts& keys) {
        std::vector<ExpiredQuestions::Due> due;
        for (const std::string& key : keys) {
            ExpiredQuestions::Due one;
            one.key = key;
            one.message = bub::Envelope(key);
            due.push_back(std::move(one));
        }
        const auto receive = [this](bub::Envelope message) { return take(std::move(message)); };
        const auto warn = [this](const std::string& text) { warnings.push_back(text); };
        run(questions.notify(std::move(due), receive, warn));
    }

    Task<> take(bub::Envelope message) {
        const std::string text = message.content_text();
        if (failures.contains(text)) std::rethrow_exception(failures[text]);
        received.push_back(text);
        co_return;
    }

    ExpiredQuestions questions;
    std::map<std::string, std::exception_ptr> failures;
    Texts received;
    Texts warnings;
};

TEST_F(ExpiredQuestionsTest, D65_EachSessionIsNotifiedOnce) {
    notify({"a", "b"});
    notify({"a", "b", "c"});
    EXPECT_EQ(received, (Texts{"a", "b", "c"}));
}

TEST_F(ExpiredQuestionsTest, D65_AFailureDoesNotAffectTheOthersAndIsReportedOnce) {
    failures["a"] = std::make_exception_ptr(std::runtime_error("broken"));
    notify({"a", "b"});
    notify({"a", "b"});
    EXPECT_EQ(received, Texts{"b"});
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings.front().find("broken"), std::string::npos) << warnings.front();
}

TEST_F(ExpiredQuestionsTest, D65_AQuestionOfAChannelThatIsNotRunningExpiresWhenItRuns) {
    failures["a"] = std::make_exception_ptr(Error(ErrorCode::not_found, "not running"));
    notify({"a", "b"});
    EXPECT_EQ(received, Texts{"b"});
    EXPECT_EQ(warnings, Texts());
    failures.clear();
    notify({"a", "b"});
    EXPECT_EQ(received, (Texts{"b", "a"}));
}

TEST_F(ExpiredQuestionsTest, AQuestionThatIsAskedAgainExpiresAgain) {
    notify({"a"});
    notify({});
    notify({"a"});
    EXPECT_EQ(received, (Texts{"a", "a"}));
}

}  // namespace
}  // namespace cubepi::app
