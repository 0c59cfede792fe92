#include <cstdint>
#include <utility>
#include <vector>

#include <cubepi/provider/anthropic.hpp>

#include "wire_provider.hpp"

namespace conformance {

namespace {

/// The answers of a policy to its three questions in a case.
class FixedPolicy final : public cubepi::CacheMarkerPolicy {
public:
    explicit FixedPolicy(const JsonObject& form)
        : system_(flag_or(form, "system", true)), last_tool_(flag_or(form, "last_tool", true)) {
        only_keys(form, "cache_policy", {"system", "last_tool", "messages"});
        if (const Json* indices = form.if_contains("messages")) {
            default_messages_ = false;
            for (const Json& index : as_array(*indices, "messages")) {
                const std::int64_t at = as_number(index, "messages");
                if (at >= 0) messages_.push_back(static_cast<std::size_t>(at));
            }
        }
    }
    bool mark_system() const override { return system_; }
    bool mark_last_tool() const override { return last_tool_; }
    std::vector<std::size_t> message_breakpoint_indices(
        const cubepi::MessageList& messages) const override {
        return default_messages_ ? CacheMarkerPolicy::message_breakpoint_indices(messages)
                                 : messages_;
    }

private:
    bool system_;
    bool last_tool_;
    bool default_messages_ = true;
    std::vector<std::size_t> messages_;
};

}  // namespace

std::shared_ptr<cubepi::Provider> make_anthropic_provider(const JsonObject& constructor,
                                                          std::uint16_t port) {
    cubepi::AnthropicOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://127.0.0.1:" + std::to_string(port);
    only_keys(constructor, "constructor",
              {"cache_retention", "cache_policy", "capability", "extra_body", "extra_headers"});
    const std::string retention = text_or(constructor, "cache_retention", "short");
    if (retention == "long") made.cache_retention = cubepi::CacheRetention::one_hour;
    if (retention == "none") made.cache_retention = cubepi::CacheRetention::none;
    if (const Json* policy = constructor.if_contains("cache_policy")) {
        made.cache_policy = std::make_shared<const FixedPolicy>(as_object(*policy, "cache_policy"));
    }
    read_extras(constructor, made);
    read_capability(constructor, made.capability);
    return std::make_shared<cubepi::AnthropicProvider>(std::move(made));
}

}  // namespace conformance
