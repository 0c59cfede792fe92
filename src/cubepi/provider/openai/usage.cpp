#include <cubepi/provider/openai/usage.hpp>

#include <algorithm>
#include <cstdint>

namespace cubepi::detail {

namespace {

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

}  // namespace cubepi::detail
