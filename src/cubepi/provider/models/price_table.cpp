#include <cubepi/provider/models/price_table.hpp>

#include <array>
#include <cstddef>
#include <iterator>

// Sources: platform.claude.com/docs (about-claude/pricing, the page of each model); developers.openai.com/api/docs
// (pricing, the page of each model); api-docs.deepseek.com/quick_start/pricing. Standard tier, no batch. A promotion
// counts while it runs; where hours differ in price the dearer ones count.

namespace cubepi::detail {

namespace {

constexpr std::int64_t k = 1'000;

constexpr PriceRow rows[] = {
    // Anthropic: written for 5 minutes, for an hour.
    {"anthropic", "claude-fable-5-2", 8, 40, 0.20, 10, 16},
    {"anthropic", "claude-fable-5-1", 10, 50, 0.25, 12.5, 20},
    {"anthropic", "claude-fable-5", 10, 50, 1, 12.5, 20},
    {"anthropic", "claude-mythos-5-1", 10, 50, 0.25, 12.5, 20},
    {"anthropic", "claude-mythos-5", 10, 50, 1, 12.5, 20},
    {"anthropic", "claude-opus-5-5", 4, 20, 0.20, 5, 8},
    {"anthropic", "claude-opus-5", 5, 25, 0.5, 6.25, 10},
    {"anthropic", "claude-opus-4-8", 5, 25, 0.5, 6.25, 10},
    {"anthropic", "claude-opus-4-7", 5, 25, 0.5, 6.25, 10},
    {"anthropic", "claude-opus-4-6", 5, 25, 0.5, 6.25, 10},
    {"anthropic", "claude-opus-4-5", 5, 25, 0.5, 6.25, 10},
    {"anthropic", "claude-opus-4-1", 15, 75, 1.5, 18.75, 30},
    {"anthropic", "claude-opus-4-0", 15, 75, 1.5, 18.75, 30},
    {"anthropic", "claude-opus-4", 15, 75, 1.5, 18.75, 30},
    {"anthropic", "claude-sonnet-5-5", 2, 10, 0.2, 2.5, 4},
    {"anthropic", "claude-sonnet-5", 2, 10, 0.2, 2.5, 4},
    {"anthropic", "claude-sonnet-4-6", 3, 15, 0.3, 3.75, 6},
    {"anthropic", "claude-sonnet-4-5", 3, 15, 0.3, 3.75, 6, 200 * k, 2, 1.5},
    {"anthropic", "claude-sonnet-4-0", 3, 15, 0.3, 3.75, 6, 200 * k, 2, 1.5},
    {"anthropic", "claude-sonnet-4", 3, 15, 0.3, 3.75, 6, 200 * k, 2, 1.5},
    {"anthropic", "claude-3-7-sonnet", 3, 15, 0.3, 3.75, 6},
    {"anthropic", "claude-haiku-5-5", 0.1, 0.5, 0.01, 0.125, 0.2, 100 * k, 5, 5},
    {"anthropic", "claude-haiku-4-5", 1, 5, 0.1, 1.25, 2},
    {"anthropic", "claude-3-5-haiku", 0.8, 4, 0.08, 1, 1.6},

    // OpenAI.
    {"openai", "gpt-6-astra", 10, 50, 1, 12.5, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-6-sol", 2, 10, 0.2, 2.5, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-6-luna", 0.1, 0.5, 0.01, 0.125, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-6.1-sol", 2, 10, 0.1, 2.5, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-6.2-sol", 2, 10, 0.1, 2.5, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-6.1-terra", 1, 5, 0.05, 1.25, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.6", 4, 20, 0.4, 5, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.6-sol", 4, 20, 0.4, 5, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.6-terra", 2, 12, 0.2, 2.5, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.6-luna", 0.2, 1.2, 0.02, 0.25, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.5", 5, 30, 0.5, -1, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.5-pro", 30, 180, -1, -1, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.4", 2.5, 15, 0.25, -1, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.4-mini", 0.75, 4.5, 0.075},
    {"openai", "gpt-5.4-nano", 0.2, 1.25, 0.02},
    {"openai", "gpt-5.4-pro", 30, 180, -1, -1, -1, 272 * k, 2, 1.5},
    {"openai", "gpt-5.3-codex", 1.75, 14, 0.175},
    {"openai", "gpt-5.2", 1.75, 14, 0.175},
    {"openai", "gpt-5.2-chat-latest", 1.75, 14, 0.175},
    {"openai", "gpt-5.2-codex", 1.75, 14, 0.175},
    {"openai", "gpt-5.2-pro", 21, 168},
    {"openai", "gpt-5.1", 1.25, 10, 0.125},
    {"openai", "gpt-5.1-chat-latest", 1.25, 10, 0.125},
    {"openai", "gpt-5.1-codex", 1.25, 10, 0.125},
    {"openai", "gpt-5.1-codex-max", 1.25, 10, 0.125},
    {"openai", "gpt-5.1-codex-mini", 0.25, 2, 0.025},
    {"openai", "gpt-5", 1.25, 10, 0.125},
    {"openai", "gpt-5-chat-latest", 1.25, 10, 0.125},
    {"openai", "gpt-5-codex", 1.25, 10, 0.125},
    {"openai", "gpt-5-mini", 0.25, 2, 0.025},
    {"openai", "gpt-5-nano", 0.05, 0.4, 0.005},
    {"openai", "gpt-5-pro", 15, 120},
    {"openai", "gpt-4.1", 2, 8, 0.5},
    {"openai", "gpt-4.1-mini", 0.4, 1.6, 0.1},
    {"openai", "gpt-4.1-nano", 0.1, 0.4, 0.025},
    {"openai", "gpt-4o", 2.5, 10, 1.25},
    {"openai", "gpt-4o-mini", 0.15, 0.6, 0.075},
    {"openai", "o1", 15, 60, 7.5},
    {"openai", "o3", 2, 8, 0.5},
    {"openai", "o3-mini", 1.1, 4.4, 0.55},
    {"openai", "o3-pro", 20, 80},
    {"openai", "o4-mini", 1.1, 4.4, 0.275},

    // DeepSeek: the peak hours' price.
    {"deepseek", "deepseek-flash", 0.3, 1.2, 0.006},
    {"deepseek", "deepseek-v4-flash", 0.3, 1.2, 0.006},
    {"deepseek", "deepseek-v4-pro", 1.32, 3.96, 0.044},
};

/// The rows of a vendor, which are adjacent.
struct Group {
    std::string_view provider = {};
    std::size_t begin = 0;
    std::size_t size = 0;
};

constexpr bool begins_group(std::size_t i) {
    return i == 0 || rows[i].provider != rows[i - 1].provider;
}

constexpr std::size_t group_count = [] {
    std::size_t count = 0;
    for (std::size_t i = 0; i < std::size(rows); ++i) count += begins_group(i) ? 1 : 0;
    return count;
}();

constexpr std::array groups = [] {
    std::array<Group, group_count> all;
    std::size_t group = 0;
    for (std::size_t i = 0; i < std::size(rows); ++i) {
        if (i > 0 && begins_group(i)) ++group;
        if (begins_group(i)) all[group] = Group{rows[i].provider, i, 0};
        ++all[group].size;
    }
    return all;
}();

}  // namespace

std::string_view prices_date() noexcept { return "2026-11-22"; }
std::span<const PriceRow> price_rows() noexcept { return rows; }

std::span<const PriceRow> price_rows(std::string_view provider) noexcept {
    for (const Group& group : groups) {
        if (group.provider == provider) return std::span(rows).subspan(group.begin, group.size);
    }
    return {};
}

}  // namespace cubepi::detail
