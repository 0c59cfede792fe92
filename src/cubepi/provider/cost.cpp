#include <cubepi/provider/cost.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <cubepi/provider/models/model_tables.hpp>

namespace cubepi {

namespace {

constexpr double per_million = 1e-6;

/// True for the suffix of a dated model id: "-20250929", "-2025-08-07"; or "-latest".
bool is_date(std::string_view rest) {
    if (rest == "-latest") return true;
    if (rest.size() < 9 || rest[0] != '-') return false;
    std::size_t digits = 0;
    for (const char c : rest) {
        if (c >= '0' && c <= '9')
            ++digits;
        else if (c != '-')
            return false;
    }
    return digits == 8;
}

bool is_known(const ModelCost& cost) { return cost.input && cost.output; }

/// The price of a kind of token that was used; empty when it has none. Nothing used costs nothing.
std::optional<double> part(std::int64_t tokens, std::optional<double> price, double factor) {
    if (tokens == 0) return 0.0;
    if (!price) return std::nullopt;
    return static_cast<double>(tokens) * *price * factor * per_million;
}

ModelCost cost_of_row(const detail::PriceRow& row) {
    const auto known = [](double price) {
        return price < 0 ? std::nullopt : std::optional<double>(price);
    };
    ModelCost cost;
    cost.input = known(row.input);
    cost.output = known(row.output);
    cost.cache_read = known(row.cache_read);
    cost.cache_write = known(row.cache_write);
    cost.cache_write_1h = known(row.cache_write_1h);
    if (row.long_above > 0) {
        LongPromptCost& more = cost.long_prompt.emplace();
        more.above_tokens = row.long_above;
        more.input_factor = row.long_input;
        more.output_factor = row.long_output;
    }
    return cost;
}

}  // namespace

std::string_view price_table_date() noexcept { return detail::prices_date(); }

std::optional<ModelCost> list_price(std::string_view provider_id, std::string_view model_id) {
    for (const detail::PriceRow& row : detail::price_rows(provider_id)) {
        if (!model_id.starts_with(row.id)) continue;
        const std::string_view rest = model_id.substr(row.id.size());
        if (rest.empty() || is_date(rest)) return cost_of_row(row);
    }
    return std::nullopt;
}

std::optional<ModelCost> price_of(const Model& model) {
    if (model.cost) return is_known(*model.cost) ? model.cost : std::nullopt;
    return list_price(model.provider_id, model.id);
}

std::optional<CostBreakdown> cost_breakdown(const Usage& usage, const ModelCost& price) {
    if (!usage.input_tokens && !usage.output_tokens) return std::nullopt;
    const std::int64_t input = usage.input_tokens.value_or(0);
    const std::int64_t read = usage.cache_read_tokens.value_or(0);
    const std::int64_t written = usage.cache_write_tokens.value_or(0);
    double input_factor = 1.0;
    double output_factor = 1.0;
    if (price.long_prompt && input + read + written > price.long_prompt->above_tokens) {
        input_factor = price.long_prompt->input_factor;
        output_factor = price.long_prompt->output_factor;
    }
    const std::int64_t hour = std::min(usage.cache_write_1h_tokens.value_or(0), written);
    const auto one = part(input, price.input, input_factor);
    const auto two = part(usage.output_tokens.value_or(0), price.output, output_factor);
    const auto three = part(read, price.cache_read, input_factor);
    const auto four = part(written - hour, price.cache_write, input_factor);
    const auto five = part(hour, price.cache_write_1h, input_factor);
    if (!one || !two || !three || !four || !five) return std::nullopt;
    CostBreakdown cost;
    cost.input = *one;
    cost.output = *two;
    cost.cache_read = *three;
    cost.cache_write = *four + *five;
    return cost;
}

std::optional<double> cost_of(const Usage& usage, const Model& model) {
    const std::optional<ModelCost> price = price_of(model);
    if (!price) return std::nullopt;
    const std::optional<CostBreakdown> cost = cost_breakdown(usage, *price);
    return cost ? std::optional<double>(cost->total()) : std::nullopt;
}

std::optional<double> cost_of(const AssistantMessage& answer, const Model& asked) {
    if (!answer.usage) return std::nullopt;
    const bool other = (!answer.model_id.empty() && answer.model_id != asked.id) ||
                       (!answer.provider_id.empty() && answer.provider_id != asked.provider_id);
    if (!other) return cost_of(*answer.usage, asked);
    Model answered;
    answered.id = answer.model_id.empty() ? asked.id : answer.model_id.str();
    answered.provider_id =
        answer.provider_id.empty() ? asked.provider_id : answer.provider_id.str();
    return cost_of(*answer.usage, answered);
}

std::string money_text(double usd) {
    int digits = 2;
    if (usd > 0 && usd < 1) digits = std::min(3 - static_cast<int>(std::floor(std::log10(usd))), 8);
    char text[64];
    std::snprintf(text, sizeof text, "$%.*f", digits, usd);
    return text;
}

}  // namespace cubepi
