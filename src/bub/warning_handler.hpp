#pragma once

#include <string>

#include <cubepi/core/detail/async_function.hpp>

namespace bub {

namespace detail {
CUBEPI_DETAIL_SLOT(on_warning,
                   "on_warning must be callable as void (std::string text); a Task would never run")
}  // namespace detail

/// Receives the text of a warning.
using WarningHandler =
    cubepi::detail::SlotFunction<void(std::string text), detail::on_warning_slot>;

}  // namespace bub
