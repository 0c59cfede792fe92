#include <cubepi/provider/models/model_profiles.hpp>

// Sources: platform.claude.com/docs (models overview, the page and the "what's new" of each model, effort, adaptive
// thinking); developers.openai.com/api/docs (models, guides/reasoning, guides/latest-model); api-docs.deepseek.com
// (thinking_mode); openrouter.ai/docs (reasoning-tokens); the vendors' pages on OpenAI compatibility for the rest.

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

constexpr ProfileRow rows[] = {
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

}  // namespace

std::string_view profiles_date() noexcept { return "2026-11-22"; }
std::span<const ProfileRow> profile_rows() noexcept { return rows; }
std::span<const EndpointRow> endpoint_rows() noexcept { return endpoints; }

}  // namespace cubepi::detail
