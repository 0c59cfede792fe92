#pragma once

#include <cstdint>
#include <span>
#include <string_view>

// The table behind cost.hpp. Only data.

namespace cubepi::detail {

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
