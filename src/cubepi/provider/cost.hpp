#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/message.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/usage.hpp>

// Tokens to money, by list prices that are data with a date. A price that is not known is said to be unknown, never
// taken for nothing (D12, D24). Any thread may call these.

namespace cubepi {

/// The day on which the price table was last compared with the vendors' lists: "2026-11-22".
std::string_view price_table_date() noexcept;

/// The list price of a model at its vendor's own endpoint. `provider_id` is the vendor's ("openai", "anthropic",
/// "deepseek", ...); a router or a server of one's own has no list price. Dated model ids are known by their family.
std::optional<ModelCost> list_price(std::string_view provider_id, std::string_view model_id);

/// What the caller said (Model::cost), else the list price; empty when neither gives input and output.
std::optional<ModelCost> price_of(const Model& model);

/// USD by kind of token. The sum is what the call cost.
struct CostBreakdown {
    double input = 0.0;
    double output = 0.0;
    double cache_read = 0.0;
    double cache_write = 0.0;
    double total() const noexcept { return input + output + cache_read + cache_write; }
    friend bool operator==(const CostBreakdown&, const CostBreakdown&) = default;
};

/// What one call cost. Empty when the price of a kind of token that was used is not known, or when the endpoint
/// reported neither input nor output. Usage of several calls must not be added up first where a price depends on the
/// prompt's length.
std::optional<CostBreakdown> cost_breakdown(const Usage& usage, const ModelCost& price);
/// USD of one call of `model`; empty when it is not known.
std::optional<double> cost_of(const Usage& usage, const Model& model);
/// USD of an answer to a request for `asked`. Where another model answered (a fallback), that one's list price counts.
std::optional<double> cost_of(const AssistantMessage& answer, const Model& asked);

/// "$0.0042"; at least four digits that count.
std::string money_text(double usd);

}  // namespace cubepi
