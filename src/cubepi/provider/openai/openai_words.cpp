#include <cubepi/provider/openai/openai_words.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <cubepi/core/message.hpp>

namespace cubepi::detail {

namespace {

struct FinishReason {
    std::string_view wire;
    std::string_view ours;
};
constexpr FinishReason finish_reasons[] = {{"tool_calls", stop_reason::tool_use}};

constexpr std::int64_t unsaid = -1;

void read_detail(od::value& value, std::string_view name, std::int64_t& into) {
    if (!is_json_object(value)) return;
    od::object details = value.get_object();
    each(details, [&](const od::raw_json_string& key, od::value number) {
        if (is(key, name)) into = integer_of(number, into);
    });
}

}  // namespace

std::optional<Usage> read_openai_usage(od::object object, const OpenAIUsageNames& names) {
    std::int64_t input = unsaid;
    std::int64_t output = unsaid;
    std::int64_t cached = unsaid;
    std::int64_t reasoning = unsaid;
    each(object, [&](const od::raw_json_string& key, od::value value) {
        if (is(key, names.input)) {
            input = integer_of(value, input);
        } else if (is(key, names.output)) {
            output = integer_of(value, output);
        } else if (is(key, names.input_details)) {
            read_detail(value, "cached_tokens", cached);
        } else if (is(key, names.output_details)) {
            read_detail(value, "reasoning_tokens", reasoning);
        } else if (!names.cached.empty() && is(key, names.cached)) {
            cached = integer_of(value, cached);
        }
    });
    Usage usage;
    if (input >= 0)
        usage.input_tokens = std::max<std::int64_t>(0, input - std::max<std::int64_t>(0, cached));
    if (output >= 0) usage.output_tokens = output;
    if (cached >= 0) usage.cache_read_tokens = cached;
    if (reasoning >= 0) usage.reasoning_tokens = reasoning;
    if (usage == Usage()) return std::nullopt;
    return usage;
}

JsonObject openai_usage(const Usage& usage, const OpenAIUsageNames& names) {
    // OpenAI's count of the prompt includes the cached tokens.
    const std::int64_t prompt =
        usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0);
    const std::int64_t answer = usage.output_tokens.value_or(0);
    JsonObject made;
    made[names.input] = prompt;
    made[names.output] = answer;
    made["total_tokens"] = prompt + answer;
    if (usage.cache_read_tokens) {
        JsonObject details;
        details["cached_tokens"] = *usage.cache_read_tokens;
        made[names.input_details] = std::move(details);
    }
    if (usage.reasoning_tokens) {
        JsonObject details;
        details["reasoning_tokens"] = *usage.reasoning_tokens;
        made[names.output_details] = std::move(details);
    }
    return made;
}

std::string_view stop_reason_of_finish(std::string_view finish_reason) {
    for (const FinishReason& one : finish_reasons)
        if (one.wire == finish_reason) return one.ours;
    return finish_reason;
}

std::string_view finish_of_stop_reason(std::string_view reason) {
    for (const FinishReason& one : finish_reasons)
        if (one.ours == reason) return one.wire;
    return reason;
}

}  // namespace cubepi::detail
