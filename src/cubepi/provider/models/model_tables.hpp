#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <cubepi/provider/model_profile.hpp>

// The tables of models: what each takes, and what it costs. Only data: model_profile.cpp and cost.cpp interpret it.

namespace cubepi::detail {

/// The words for effort that vendors know. A set of them is what a model takes.
enum class EffortWord : std::uint8_t { none, minimal, low, medium, high, xhigh, max };

using EffortSet = std::uint8_t;
constexpr EffortSet only(EffortWord word) noexcept {
    return static_cast<EffortSet>(1U << static_cast<unsigned>(word));
}
constexpr bool has(EffortSet set, EffortWord word) noexcept { return (set & only(word)) != 0; }

/// How a model is told to reason.
enum class ReasoningStyle : std::uint8_t {
    none,             ///< it cannot
    always,           ///< it does, and takes no orders
    effort,           ///< OpenAI: reasoning_effort, reasoning.effort
    budget,           ///< Anthropic until 4.5: thinking.budget_tokens
    adaptive,         ///< Anthropic since 4.6: thinking adaptive, output_config.effort
    thinking_switch,  ///< thinking.type enabled or disabled, without an effort
    thinking_effort,  ///< the same, and reasoning_effort
    enable_thinking,  ///< Alibaba: enable_thinking
    router,           ///< OpenRouter: reasoning.effort for every model
};

enum class TemperatureRule : std::uint8_t { free, refused, without_reasoning };

struct ProfileRow {
    std::string_view id;  ///< what ids of the family begin with; the longest row that fits counts
    ReasoningStyle style = ReasoningStyle::none;
    EffortSet efforts = 0;
    bool on_by_default = false;  ///< it reasons unless it is told not to
    TemperatureRule temperature = TemperatureRule::free;
    std::int64_t context_window = 0;  ///< tokens; 0: not known
    std::int64_t max_output = 0;      ///< tokens; 0: not known
    std::string_view off =
        "disabled";  ///< Anthropic's thinking.type that switches it off; empty: nothing does
    bool forces_tools = true;  ///< takes a tool choice that forces a call
    ChatTools chat_tools = ChatTools::yes;
};

/// A compatible server whose spelling is its own, whatever the model.
struct EndpointRow {
    std::string_view host;  ///< the host, or what it ends with after a dot
    ReasoningStyle style;
    EffortSet efforts = 0;
    bool on_by_default = false;
    std::string_view thinking_field =
        {};  ///< wants the thinking of earlier answers back under this name
};

std::string_view profiles_date() noexcept;
std::span<const ProfileRow> profile_rows() noexcept;
std::span<const EndpointRow> endpoint_rows() noexcept;

/// USD per million tokens. A negative number: not known, or not offered.
struct PriceRow {
    std::string_view provider;  ///< the vendor's provider id
    std::string_view id;        ///< the model's id, without a date
    double input;
    double output;
    double cache_read = -1;
    double cache_write = -1;
    double cache_write_1h = -1;
    std::int64_t long_above = 0;  ///< prompt tokens from which the factors hold; 0: one price
    double long_input = 1;
    double long_output = 1;
};

std::string_view prices_date() noexcept;
std::span<const PriceRow> price_rows() noexcept;
/// Returns the rows of a vendor; empty if the table has none.
std::span<const PriceRow> price_rows(std::string_view provider) noexcept;

}  // namespace cubepi::detail
