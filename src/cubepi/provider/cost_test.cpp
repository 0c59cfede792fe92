#include <cubepi/provider/cost.hpp>

#include <set>

#include <gtest/gtest.h>

#include <cubepi/provider/models/model_tables.hpp>

namespace cubepi {
namespace {

Usage usage(std::int64_t input, std::int64_t output) {
    Usage made;
    made.input_tokens = input;
    made.output_tokens = output;
    return made;
}

Model model(std::string provider, std::string id) {
    Model made;
    made.provider_id = std::move(provider);
    made.id = std::move(id);
    return made;
}

TEST(Cost, Cost_IsTokensTimesPrice) {
    const auto cost = cost_of(usage(1'000'000, 200'000), model("anthropic", "claude-opus-4-6"));
    ASSERT_TRUE(cost);
    EXPECT_DOUBLE_EQ(*cost, 5.0 + 5.0);
}

TEST(Cost, D12_UnknownPrice_IsAbsent) {
    EXPECT_FALSE(cost_of(usage(10, 10), model("openai", "my-finetune")));
    EXPECT_FALSE(cost_of(usage(10, 10), model("ollama", "gpt-4o")));
    EXPECT_FALSE(cost_of(usage(10, 10), model("", "gpt-4o")));
    EXPECT_FALSE(cost_of(Usage(), model("openai", "gpt-4o")));
}

TEST(Cost, D12_PartWithoutPrice_MakesTheWholeUnknown) {
    Model own = model("mine", "m");
    ModelCost& price = own.cost.emplace();
    price.input = 1.0;
    price.output = 2.0;
    EXPECT_DOUBLE_EQ(*cost_of(usage(1'000'000, 1'000'000), own), 3.0);
    Usage cached = usage(1, 1);
    cached.cache_read_tokens = 5;
    EXPECT_FALSE(cost_of(cached, own));
    cached.cache_read_tokens = 0;
    EXPECT_TRUE(cost_of(cached, own));
    price.output.reset();
    EXPECT_FALSE(price_of(own));
}

TEST(Cost, CacheTiers_HaveTheirOwnPrice) {
    Usage used = usage(100'000, 0);
    used.cache_read_tokens = 1'000'000;
    used.cache_write_tokens = 300'000;
    used.cache_write_1h_tokens = 100'000;
    const auto cost = cost_breakdown(used, *list_price("anthropic", "claude-opus-4-6-20260205"));
    ASSERT_TRUE(cost);
    EXPECT_DOUBLE_EQ(cost->input, 0.5);
    EXPECT_DOUBLE_EQ(cost->cache_read, 0.5);
    EXPECT_DOUBLE_EQ(cost->cache_write, 0.2 * 6.25 + 0.1 * 10);
    EXPECT_DOUBLE_EQ(cost->total(), 0.5 + 0.5 + 2.25);
}

TEST(Cost, LongPrompt_MakesTheWholeCallDearer) {
    const Model sonnet = model("anthropic", "claude-sonnet-4-5");
    EXPECT_DOUBLE_EQ(*cost_of(usage(200'000, 1'000'000), sonnet), 0.6 + 15);
    EXPECT_DOUBLE_EQ(*cost_of(usage(200'001, 1'000'000), sonnet), 200'001 * 6e-6 + 22.5);
    Usage cached = usage(1, 0);
    cached.cache_read_tokens = 200'000;
    EXPECT_DOUBLE_EQ(*cost_of(cached, sonnet), 6e-6 + 0.12);
}

TEST(Cost, DatedIds_BelongToTheirFamilyUnlikeVariants) {
    EXPECT_TRUE(list_price("openai", "gpt-5-2025-08-07"));
    EXPECT_TRUE(list_price("anthropic", "claude-haiku-4-5-20251001"));
    EXPECT_TRUE(list_price("anthropic", "claude-3-5-haiku-latest"));
    EXPECT_DOUBLE_EQ(*list_price("openai", "gpt-5-mini")->input, 0.25);
    EXPECT_FALSE(list_price("openai", "gpt-5-turbo-ultra"));
    EXPECT_FALSE(list_price("openai", "gpt-5.9"));
}

TEST(Cost, D23_ModelThatAnswered_DeterminesTheCost) {
    AssistantMessage answer;
    answer.usage = usage(1'000'000, 0);
    answer.provider_id = "openai";
    answer.model_id = "gpt-4o-mini";
    Model asked = model("anthropic", "claude-opus-4-6");
    EXPECT_DOUBLE_EQ(*cost_of(answer, asked), 0.15);
    answer.model_id = "unheard-of";
    EXPECT_FALSE(cost_of(answer, asked));
    answer.provider_id = "anthropic";
    answer.model_id = "claude-opus-4-6";
    asked.cost.emplace().input = 1.0;
    asked.cost->output = 1.0;
    EXPECT_DOUBLE_EQ(*cost_of(answer, asked), 1.0);
}

TEST(Cost, PriceTable_IsConsistent) {
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (const detail::PriceRow& row : detail::price_rows()) {
        EXPECT_TRUE(seen.emplace(row.provider, row.id).second) << row.id;
        EXPECT_GT(row.input, 0) << row.id;
        EXPECT_GT(row.output, row.input) << row.id;
        EXPECT_LT(row.cache_read, row.input) << row.id;
        EXPECT_TRUE(row.cache_write < 0 || row.cache_write >= row.input) << row.id;
        EXPECT_TRUE(row.long_above == 0 || row.long_input > 1) << row.id;
    }
    EXPECT_EQ(price_table_date().size(), 10U);
}

TEST(Cost, Money_IsShownWithSignificantDigits) {
    EXPECT_EQ(money_text(12.5), "$12.50");
    EXPECT_EQ(money_text(0), "$0.00");
    EXPECT_EQ(money_text(0.004217), "$0.004217");
    EXPECT_EQ(money_text(0.25), "$0.2500");
}

}  // namespace
}  // namespace cubepi
