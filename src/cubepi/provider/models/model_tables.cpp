#include <cubepi/provider/models/model_tables.hpp>

#include <algorithm>
#include <iterator>

namespace cubepi::detail {

namespace {

constexpr EffortSet N = only(EffortWord::none);
constexpr EffortSet I = only(EffortWord::minimal);
constexpr EffortSet L = only(EffortWord::low);
constexpr EffortSet M = only(EffortWord::medium);
constexpr EffortSet H = only(EffortWord::high);
constexpr EffortSet X = only(EffortWord::xhigh);
constexpr EffortSet A = only(EffortWord::max);

using enum ReasoningStyle;
constexpr TemperatureRule refused = TemperatureRule::refused;
constexpr TemperatureRule quiet = TemperatureRule::without_reasoning;
constexpr bool on = true;
constexpr std::int64_t k = 1'000;
constexpr std::int64_t million = 1'000'000;

// Sources: platform.claude.com/docs (models overview, the page and the "what's new" of each model, effort, adaptive
// thinking); developers.openai.com/api/docs (models, guides/reasoning, guides/latest-model); api-docs.deepseek.com
// (thinking_mode); openrouter.ai/docs (reasoning-tokens); ai.google.dev/gemini-api/docs (models, thinking); the vendors' pages on OpenAI compatibility for the rest.
constexpr ProfileRow profiles[] = {
    // Anthropic.
    {"claude-fable-5", adaptive, L | M | H | X | A, on, refused, million, 128 * k, ""},
    {"claude-fable-5-1", adaptive, L | M | H | X | A, on, refused, million, 128 * k, "", false},
    {"claude-fable-5-2", adaptive, L | M | H | X | A, on, refused, million, 128 * k, "", false},
    {"claude-mythos-preview", adaptive, L | M | H | A, on, refused, million, 128 * k, ""},
    {"claude-mythos-5", adaptive, L | M | H | X | A, on, refused, million, 128 * k, ""},
    {"claude-mythos-5-1", adaptive, L | M | H | X | A, on, refused, million, 128 * k, "", false},
    {"claude-mythos-5-2", adaptive, L | M | H | X | A, on, refused, million, 128 * k, "", false},
    {"claude-opus-5-5", adaptive, L | M | H | X | A, on, refused, million, 128 * k, "", false},
    {"claude-opus-5", adaptive, L | M | H | X | A, on, refused, million, 128 * k},
    {"claude-opus-4-8", adaptive, L | M | H | X | A, false, refused, million, 128 * k},
    {"claude-opus-4-7", adaptive, L | M | H | X | A, false, refused, million, 128 * k},
    {"claude-opus-4-6", adaptive, L | M | H | A, false, quiet, million, 128 * k},
    {"claude-opus-4-5", budget, 0, false, quiet, 200 * k, 64 * k},
    {"claude-opus-4", budget, 0, false, quiet, 200 * k, 32 * k},
    {"claude-sonnet-5-5", adaptive, L | M | H | X | A, on, refused, million, 128 * k,
     "between_tools", false},
    {"claude-sonnet-5", adaptive, L | M | H | X | A, on, refused, million, 128 * k},
    {"claude-sonnet-4-6", adaptive, L | M | H | A, false, quiet, million, 128 * k},
    {"claude-sonnet-4", budget, 0, false, quiet, 200 * k, 64 * k},
    {"claude-haiku-5-5", adaptive, L | M | H | X | A, on, refused, million, 128 * k},
    {"claude-haiku-4-5", budget, 0, false, quiet, 200 * k, 64 * k},
    {"claude-3-7-sonnet", budget, 0, false, quiet, 200 * k, 64 * k},
    {"claude-3-5-sonnet", none, 0, false, TemperatureRule::free, 200 * k, 8192},
    {"claude-3-5-haiku", none, 0, false, TemperatureRule::free, 200 * k, 8192},
    {"claude-3", none, 0, false, TemperatureRule::free, 200 * k, 4096},

    // OpenAI.
    {"gpt-6-astra", effort, L | M | H | X | A, on, quiet, 1'050 * k, 128 * k, "", true,
     ChatTools::no},
    {"gpt-6-sol", effort, N | L | M | H | X | A, on, quiet, 1'050 * k, 128 * k, "", true,
     ChatTools::without_reasoning},
    {"gpt-6-luna", effort, N | L | M | H | X | A, on, quiet, 1'050 * k, 128 * k, "", true,
     ChatTools::without_reasoning},
    {"gpt-6.1-sol", effort, L | M | H | X | A, on, quiet, 1'050 * k, 128 * k, "", true,
     ChatTools::no},
    {"gpt-6.2-sol", effort, L | M | H | X | A, on, quiet, 1'050 * k, 128 * k, "", true,
     ChatTools::no},
    {"gpt-6.1-terra", effort, N | L | M | H | X | A, on, quiet, 1'050 * k, 128 * k, "", true,
     ChatTools::no},
    {"gpt-5.6", effort, N | L | M | H | X | A, on, quiet, 1'050 * k, 128 * k},
    {"gpt-5.5", effort, N | L | M | H | X, on, quiet, 1'050 * k, 128 * k},
    {"gpt-5.5-pro", effort, M | H | X, on, quiet, 1'050 * k, 128 * k},
    {"gpt-5.4", effort, N | L | M | H | X, false, quiet, 1'050 * k, 128 * k},
    {"gpt-5.4-mini", effort, N | L | M | H | X, false, quiet, 400 * k, 128 * k},
    {"gpt-5.4-nano", effort, N | L | M | H | X, false, quiet, 400 * k, 128 * k},
    {"gpt-5.4-pro", effort, M | H | X, on, quiet, 1'050 * k, 128 * k},
    {"gpt-5.3-codex", effort, L | M | H | X, on, quiet, 400 * k, 128 * k},
    {"gpt-5.3-chat", always, 0, on, refused, 128 * k, 16'384},
    {"gpt-5.2", effort, N | L | M | H | X, false, quiet, 400 * k, 128 * k},
    {"gpt-5.2-chat", always, 0, on, refused, 128 * k, 16'384},
    {"gpt-5.2-codex", effort, L | M | H | X, on, quiet, 400 * k, 128 * k},
    {"gpt-5.2-pro", effort, M | H | X, on, quiet, 400 * k, 128 * k},
    {"gpt-5.1", effort, N | L | M | H, false, quiet, 400 * k, 128 * k},
    {"gpt-5.1-chat", always, 0, on, refused, 128 * k, 16'384},
    {"gpt-5.1-codex", effort, L | M | H, on, quiet, 400 * k, 128 * k},
    {"gpt-5.1-codex-max", effort, L | M | H | X, on, quiet, 400 * k, 128 * k},
    {"gpt-5", effort, I | L | M | H, on, refused, 400 * k, 128 * k},
    {"gpt-5-chat", none, 0, false, TemperatureRule::free, 128 * k, 16'384},
    {"gpt-5-codex", effort, L | M | H, on, refused, 400 * k, 128 * k},
    {"gpt-5-pro", effort, H, on, refused, 400 * k, 272 * k},
    {"o1", effort, L | M | H, on, refused, 200 * k, 100 * k},
    {"o1-mini", always, 0, on, refused, 128 * k, 65'536},
    {"o1-preview", always, 0, on, refused, 128 * k, 32'768},
    {"o3", effort, L | M | H, on, refused, 200 * k, 100 * k},
    {"o4-mini", effort, L | M | H, on, refused, 200 * k, 100 * k},
    {"gpt-4.1", none, 0, false, TemperatureRule::free, 1'047'576, 32'768},
    {"gpt-4o", none, 0, false, TemperatureRule::free, 128 * k, 16'384},
    {"chatgpt-4o", none, 0, false, TemperatureRule::free, 128 * k, 16'384},
    {"gpt-4-turbo", none, 0, false, TemperatureRule::free, 128 * k, 4'096},
    {"gpt-4", none, 0, false, TemperatureRule::free, 8'192, 8'192},
    {"gpt-3.5-turbo", none, 0, false, TemperatureRule::free, 16'385, 4'096},
    // Versions that came after this table: what their line takes so far.
    {"gpt-5.", effort, N | L | M | H | X, on, quiet},
    {"gpt-6.", effort, N | L | M | H | X | A, on, quiet},
    {"gpt-6", effort, N | L | M | H | X | A, on, quiet},

    // Google: levels since version 3, budgets before.
    {"gemini-3.8-flash", effort, L | M | H, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-3.7-flash", effort, L | M | H, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-3.6-flash", effort, I | L | M | H, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-3.5-flash", effort, I | L | M | H, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-3.1-flash-lite", effort, I | L | M | H, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-3.1-pro", effort, L | M | H, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-3-flash", effort, I | L | M | H, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-3-pro", effort, L | H, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-3.", effort, L | H, on},
    {"gemini-2.5-pro", budget, 0, on, TemperatureRule::free, 1'048'576, 65'536, ""},
    {"gemini-2.5-flash", budget, 0, on, TemperatureRule::free, 1'048'576, 65'536},
    {"gemini-2.5-flash-lite", budget, 0, false, TemperatureRule::free, 1'048'576, 65'536},

    // Open weights, wherever they run.
    {"gpt-oss", effort, L | M | H, on, TemperatureRule::free, 131'072, 131'072},
};

constexpr EndpointRow endpoints[] = {
    {"openrouter.ai", router, N | I | L | M | H | X | A},
    {"api.deepseek.com", thinking_effort, L | H | A, on, "reasoning_content"},
    {"api.z.ai", thinking_switch, 0, on, "reasoning_content"},
    {"open.bigmodel.cn", thinking_switch, 0, on, "reasoning_content"},
    {"api.moonshot.ai", thinking_switch, 0, on, "reasoning_content"},
    {"api.moonshot.cn", thinking_switch, 0, on, "reasoning_content"},
    {"volces.com", thinking_switch, 0, on},
    {"bytepluses.com", thinking_switch, 0, on},
    {"aliyuncs.com", enable_thinking, 0},
    {"generativelanguage.googleapis.com", effort, N | I | L | M | H, on},
    {"api.groq.com", effort, N | L | M | H},
    {"api.x.ai", effort, L | H},
};

// Sources: platform.claude.com/docs (about-claude/pricing, the page of each model); developers.openai.com/api/docs
// (pricing, the page of each model); api-docs.deepseek.com/quick_start/pricing. Standard tier, no batch. A promotion
// counts while it runs; where hours differ in price the dearer ones count.
constexpr PriceRow prices[] = {
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

}  // namespace

std::string_view profiles_date() noexcept { return "2026-11-22"; }
std::span<const ProfileRow> profile_rows() noexcept { return profiles; }
std::span<const EndpointRow> endpoint_rows() noexcept { return endpoints; }

std::string_view prices_date() noexcept { return "2026-11-22"; }
std::span<const PriceRow> price_rows() noexcept { return prices; }

std::span<const PriceRow> price_rows(std::string_view provider) noexcept {
    const auto is_theirs = [provider](const PriceRow& row) { return row.provider == provider; };
    // The rows of a vendor are adjacent.
    const auto* const first = std::find_if(std::begin(prices), std::end(prices), is_theirs);
    return {first, std::find_if_not(first, std::end(prices), is_theirs)};
}

}  // namespace cubepi::detail
