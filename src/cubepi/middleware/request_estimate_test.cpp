#include <cubepi/middleware/compaction/run.hpp>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/message_json.hpp>

#include "source_tree.hpp"

// The estimate of the next request, compared with what tokenizers of two vendors count (tests/conformance/counts).

namespace cubepi::detail {
namespace {

JsonObject counted(const std::string& name) {
    std::ifstream file(testing::source_path("tests/conformance/counts/" + name + ".json"));
    std::ostringstream text;
    text << file.rdbuf();
    return boost::json::parse(text.str()).as_object();
}

/// Follows a conversation whose server reports these counts; returns the relative error of the estimate for each call.
std::vector<double> errors_of(const JsonArray& messages, const JsonArray& counts) {
    std::vector<double> errors;
    RequestEstimate estimate;
    MessageList history;
    for (const Json& form : messages) {
        Message message = message_from_json(form);
        if (const AssistantMessage* answer = message.assistant()) {
            (void)estimate.follow(history, 0);
            const auto reported = counts.at(errors.size()).to_number<std::int64_t>();
            errors.push_back(static_cast<double>(estimate.tokens() - reported) /
                             static_cast<double>(reported));
            AssistantMessage counted_answer = *answer;
            counted_answer.usage.emplace();
            counted_answer.usage->input_tokens = reported;
            message = std::move(counted_answer);
        }
        history.push_back(std::move(message));
    }
    return errors;
}

AssistantMessage reporting(std::int64_t tokens, bool is_edited = false) {
    AssistantMessage answer;
    answer.usage.emplace();
    answer.usage->input_tokens = tokens;
    if (is_edited) answer.extra["context_management"] = JsonObject();
    return answer;
}

/// The usage falls, and later jumps, because an endpoint left out old results, not because a server cuts requests.
TEST(RequestEstimate, D141_EditedByTheEndpoint_IsNotACut) {
    MessageList history;
    RequestEstimate estimate;
    std::int64_t reported = 1'000;
    const auto call = [&](std::int64_t counted, bool is_edited) {
        history.push_back(user_message(std::string(4'000, 'x')));
        history.push_back(reporting(counted, is_edited));
        EXPECT_FALSE(estimate.follow(history, 0)) << counted;
        EXPECT_GE(estimate.tokens(), counted);
        EXPECT_LT(estimate.tokens(), counted + 100);
    };
    for (int i = 0; i < 5; ++i) call(reported += 1'000, false);
    call(4'000, true);
    call(3'900, true);
    call(9'000, false);
    call(10'000, false);
    history.push_back(user_message(std::string(4'000, 'x')));
    (void)estimate.follow(history, 0);
    EXPECT_NEAR(static_cast<double>(estimate.tokens()), 11'000, 600) << "the scale is unchanged";
    history.push_back(reporting(7'000));
    EXPECT_TRUE(estimate.follow(history, 0)) << "a cut is still noticed";
}

/// The two counts of the same tokens differ by one, depending on the lengths.
TEST(RequestEstimate, RoundedCounts_AreNotACut) {
    MessageList history;
    RequestEstimate estimate;
    std::int64_t cached = 0;
    for (const std::int64_t less : {0, 0, 1, 0, 1, 0}) {
        history.push_back(user_message(std::string(4'000, 'x')));
        AssistantMessage answer = reporting(1'000 - less);
        answer.usage->cache_write_tokens = 1'000;
        answer.usage->cache_read_tokens = cached;
        history.push_back(std::move(answer));
        EXPECT_FALSE(estimate.follow(history, 0)) << cached;
        cached += 1'000;
        EXPECT_EQ(estimate.reported(), cached);
    }
}

UserMessage prompt_of(std::size_t bytes, bool has_picture) {
    UserMessage message;
    message.content.emplace_back(TextContent{.text = std::string(bytes, 'x')});
    if (has_picture)
        message.content.emplace_back(ImageContent{.source = "aGk=", .media_type = "image/png"});
    return message;
}

/// Servers count a small picture as 80 to 260 tokens, which looks like a request without its newest messages.
TEST(RequestEstimate, D111_CheapPicture_IsNotACut) {
    MessageList history;
    RequestEstimate estimate;
    std::int64_t reported = 3'000;
    const auto call = [&](bool has_picture, std::int64_t grown) {
        history.push_back(prompt_of(400, has_picture));
        history.push_back(reporting(reported += grown));
        EXPECT_FALSE(estimate.follow(history, 0)) << reported;
    };
    for (int i = 0; i < 4; ++i) call(false, 100);
    const double scale = estimate.scale();
    for (const std::int64_t cost : {80, 258, 1'600, 6'000}) {
        call(true, 100 + cost);
        EXPECT_EQ(estimate.scale(), scale) << "it says nothing about text";
    }
    call(false, 100);
}

TEST(RequestEstimate, D111_ErrorAfterThirdCall_IsUnderTenPercent) {
    std::size_t calls = 0;
    for (const char* name : {"coding", "languages"}) {
        const JsonObject file = counted(name);
        for (const auto& [tokenizer, counts] : file.at("counts").as_object()) {
            const std::vector<double> errors =
                errors_of(file.at("messages").as_array(), counts.as_array());
            for (std::size_t i = 3; i < errors.size(); ++i) {
                EXPECT_LT(std::abs(errors[i]), 0.1) << name << ", " << tokenizer << ", call " << i;
                ++calls;
            }
        }
    }
    EXPECT_GE(calls, 50U);
}

TEST(RequestEstimate, D111_BeforeThirdCall_MessagesAreOverestimated) {
    for (const char* name : {"coding", "languages"}) {
        const JsonObject file = counted(name);
        for (const auto& [tokenizer, counts] : file.at("counts").as_object()) {
            const std::vector<double> errors =
                errors_of(file.at("messages").as_array(), counts.as_array());
            // The first estimate does not know the system prompt and the tools.
            EXPECT_GT(errors[1], 0) << name << ", " << tokenizer;
            EXPECT_GT(errors[2], 0) << name << ", " << tokenizer;
        }
    }
}

}  // namespace
}  // namespace cubepi::detail
