#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/message.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/usage.hpp>

// Cost of tokens, by dated list prices. An unknown price is reported as unknown, never as zero (D12, D24). Any thread
// may call these functions.

namespace cubepi {

/// The day on which the price table was last compared with the vendors' lists: "2026-11-22".
std::string_view price_table_date() noexcept;

/// Returns the list price of a model at its vendor's own endpoint. `provider_id` is the vendor's ("openai",
/// "anthropic", "deepseek", ...); a router or a private server has no list price. A dated model id has the price of
/// its family.
std::optional<ModelCost> list_price(std::string_view provider_id, std::string_view model_id);

/// Returns the configured price (Model::cost), else the list price; empty if neither has a price for input and
/// output.
std::optional<ModelCost> price_of(const Model& model);

/// USD by kind of token. The sum is the cost of the call.
struct CostBreakdown {
    double input = 0.0;
    double output = 0.0;
    double cache_read = 0.0;
    double cache_write = 0.0;
    double total() const noexcept { return input + output + cache_read + cache_write; }
    friend bool operator==(const CostBreakdown&, const CostBreakdown&) = default;
};

/// Returns the cost of one call. Empty if the price of a used kind of token is unknown, or if the endpoint reported
/// neither input nor output. Do not add up the usage of several calls first: a price may depend on the length of the
/// prompt.
std::optional<CostBreakdown> cost_breakdown(const Usage& usage, const ModelCost& price);
/// Returns the cost of one call of `model` in USD; empty if unknown.
std::optional<double> cost_of(const Usage& usage, const Model& model);
/// Returns the cost in USD of an answer to a request for `asked`. If another model answered (a fallback), its list
/// price applies.
std::optional<double> cost_of(const AssistantMessage& answer, const Model& asked);

/// Formats an amount as "$0.0042", with at least four significant digits.
std::string money_text(double usd);

}  // namespace cubepi
