#include <cubepi/provider/anthropic.hpp>

#include "wire_cases.hpp"

namespace cubepi::wire {
namespace {

/// The answers of a policy to its three questions in a case.
class FixedPolicy final : public CacheMarkerPolicy {
public:
    explicit FixedPolicy(const Json& form) : form_(form) {}
    bool mark_system() const override { return form_.at("system").as_bool(); }
    bool mark_last_tool() const override { return form_.at("last_tool").as_bool(); }
    std::vector<std::size_t> message_breakpoint_indices(const MessageList&) const override {
        std::vector<std::size_t> indices;
        for (const Json& index : form_.at("messages").as_array())
            indices.push_back(index.to_number<std::size_t>());
        return indices;
    }

private:
    Json form_;
};

std::shared_ptr<Provider> make_anthropic(const Json& constructor) {
    AnthropicOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://endpoint";
    const std::string retention = text_of(constructor, "cache_retention");
    if (retention == "long") made.cache_retention = CacheRetention::one_hour;
    if (retention == "none") made.cache_retention = CacheRetention::none;
    if (const Json* policy = member(constructor, "cache_policy"))
        made.cache_policy = std::make_shared<const FixedPolicy>(*policy);
    return std::make_shared<AnthropicProvider>(std::move(made));
}

class AnthropicWireCases : public ::testing::TestWithParam<std::string> {};

TEST_P(AnthropicWireCases, RequestMessageAndEvents) {
    expect_case_holds(GetParam(), make_anthropic);
}

INSTANTIATE_TEST_SUITE_P(Anthropic, AnthropicWireCases, ::testing::ValuesIn(cases_of("anthropic-")),
                         case_test_name);

}  // namespace
}  // namespace cubepi::wire
