#include <utility>

#include "reading.hpp"
#include "wire_provider.hpp"

namespace conformance {

namespace {

using cubepi::CapabilityDescriptor;
using cubepi::ReasoningCapability;
using cubepi::TemperatureSpec;
using cubepi::UnsupportedModePolicy;

/// The enumerator of that name.
template <class E>
E named(const std::string& name, std::initializer_list<E> all, std::string_view where) {
    for (const E each : all) {
        if (cubepi::to_string(each) == name) return each;
    }
    throw BadFile(std::string(where) + ": unknown word \"" + name + "\"");
}

template <class E, class Read>
auto map_of(const JsonObject& form, std::string_view key, std::initializer_list<E> all, Read read) {
    std::map<E, decltype(read(std::declval<const Json&>()))> made;
    const Json* given = form.if_contains(key);
    if (!given || given->is_null()) return made;
    for (const auto& [name, value] : as_object(*given, key))
        made[named(std::string(name), all, key)] = read(value);
    return made;
}

std::optional<std::string> path_of(const JsonObject& form, std::string_view key) {
    const std::string path = text_or(form, key, "");
    if (path.empty()) return std::nullopt;
    return path;
}

ReasoningCapability read_reasoning(const JsonObject& form) {
    only_keys(form, "reasoning",
              {"mode_payloads", "effort_path", "effort_values", "summary_path", "summary_values",
               "include_payloads", "apply_effort_when_off", "unsupported_mode_policy"});
    const auto object = [](const Json& value) { return as_object(value, "payload"); };
    const auto as_it_is = [](const Json& value) { return value; };
    using cubepi::ReasoningEffort;
    using cubepi::ReasoningMode;
    using cubepi::ReasoningSummary;
    ReasoningCapability made;
    made.mode_payloads =
        map_of(form, "mode_payloads",
               {ReasoningMode::off, ReasoningMode::automatic, ReasoningMode::on}, object);
    made.effort_path = path_of(form, "effort_path");
    made.effort_values =
        map_of(form, "effort_values",
               {ReasoningEffort::minimal, ReasoningEffort::low, ReasoningEffort::medium,
                ReasoningEffort::high, ReasoningEffort::max},
               as_it_is);
    made.summary_path = path_of(form, "summary_path");
    made.summary_values = map_of(form, "summary_values",
                                 {ReasoningSummary::none, ReasoningSummary::automatic,
                                  ReasoningSummary::detailed, ReasoningSummary::summarized},
                                 as_it_is);
    if (const Json* include = form.if_contains("include_payloads")) {
        for (const auto& [name, value] : as_object(*include, "include_payloads"))
            made.include_payloads[std::string(name)] = as_object(value, name);
    }
    made.apply_effort_when_off = flag_or(form, "apply_effort_when_off", true);
    const std::string policy = text_or(form, "unsupported_mode_policy", "warn");
    if (policy == "skip") made.unsupported_mode_policy = UnsupportedModePolicy::skip;
    if (policy == "error") made.unsupported_mode_policy = UnsupportedModePolicy::error;
    return made;
}

double real_or(const JsonObject& form, std::string_view key, double other) {
    const Json* value = form.if_contains(key);
    return value && value->is_number() ? value->to_number<double>() : other;
}

TemperatureSpec read_temperature(const JsonObject& form) {
    only_keys(form, "temperature", {"mode", "min", "max", "default", "fixed_value"});
    TemperatureSpec made;
    const std::string mode = text_or(form, "mode", "free");
    made.mode = mode == "fixed"     ? TemperatureSpec::Mode::fixed
                : mode == "ignored" ? TemperatureSpec::Mode::ignored
                                    : TemperatureSpec::Mode::free;
    made.min = real_or(form, "min", 0.0);
    made.max = real_or(form, "max", 2.0);
    const Json* fixed = form.if_contains("fixed_value");
    if (fixed && fixed->is_number()) made.fixed_value = fixed->to_number<double>();
    return made;
}

}  // namespace

void read_capability(const JsonObject& constructor, CapabilityDescriptor& into) {
    const Json* given = constructor.if_contains("capability");
    if (!given || given->is_null()) return;
    const JsonObject& form = as_object(*given, "capability");
    only_keys(form, "capability",
              {"reasoning", "temperature", "max_tokens_field", "supports_tools", "supports_images",
               "supports_streaming"});
    // A configured value replaces the built-in one: without reasoning none is requested.
    ReasoningCapability none;
    none.unsupported_mode_policy = UnsupportedModePolicy::skip;
    const Json* reasoning = form.if_contains("reasoning");
    into.reasoning = reasoning && !reasoning->is_null()
                         ? read_reasoning(as_object(*reasoning, "reasoning"))
                         : none;
    if (const Json* temperature = form.if_contains("temperature"))
        into.temperature = read_temperature(as_object(*temperature, "temperature"));
    into.max_tokens_field = path_of(form, "max_tokens_field");
}

}  // namespace conformance
