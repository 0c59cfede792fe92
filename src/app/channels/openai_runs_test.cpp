#include "openai_runs.hpp"

#include <string>

#include <gtest/gtest.h>

namespace cubepi::app {

namespace {

TEST(OpenAIResponseNames, D193_Id_IsReadByItsTokenOnly) {
    const OpenAIResponseNames names("0123456789abcdef");
    OpenAIResponseName name;
    name.message = "openai-1_x";
    name.session = "a session/with \xc3\xb6_ and %";
    name.created = 1'700'000'000;
    const std::string id = names.id_of(name);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz_"), std::string::npos);
    const auto read = names.read(id);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->message, name.message);
    EXPECT_EQ(read->session, name.session);
    EXPECT_EQ(read->created, name.created);
    EXPECT_FALSE(OpenAIResponseNames("another-token-of-16").read(id));
    // No other text is an id.
    for (std::size_t i = 0; i < id.size(); ++i) {
        std::string changed = id;
        changed[i] = changed[i] == '1' ? '2' : '1';
        EXPECT_FALSE(names.read(changed)) << changed;
        EXPECT_FALSE(names.read(id.substr(0, i)));
    }
    for (const char* const other : {"", "resp_", "resp__", "resp_1_2_3_4", "_____"})
        EXPECT_FALSE(names.read(other)) << other;
}

TEST(OpenAIRuns, OldestRuns_AreForgotten) {
    OpenAIRuns runs;
    for (int i = 0; i < 300; ++i) {
        runs.add(std::to_string(i),
                 std::make_shared<OpenAIRun>(nullptr, detail::OpenAIAnswerHead(), JsonObject()));
    }
    EXPECT_FALSE(runs.find("0"));
    EXPECT_FALSE(runs.find("43"));
    EXPECT_TRUE(runs.find("44"));
    EXPECT_TRUE(runs.find("299"));
}

}  // namespace

}  // namespace cubepi::app
