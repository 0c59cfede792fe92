#include <cubepi/middleware/compaction/request_estimate.hpp>

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
