#pragma once

#include <exception>
#include <memory>
#include <vector>

#include <bub/framework.hpp>

namespace bub::detail {

using Lifespans = std::vector<std::shared_ptr<Lifespan>>;

/// Opens the lifespans of the plugins (provide_lifespan), oldest plugin first, and adds each to `open` when it is open. Rethrows the
/// exception of one that does not open.
Task<> open_lifespans(Framework& framework, Lifespans& open);
/// Closes them in reverse order. Failures are reported to on_warning. Must not be cancelled.
Task<> close_lifespans(Framework& framework, Lifespans open, std::exception_ptr failure);

}  // namespace bub::detail
