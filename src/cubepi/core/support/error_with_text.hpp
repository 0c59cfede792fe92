#pragma once

#include <exception>
#include <memory>
#include <string>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

/// Returns `failure` as an Error whose `what()` is `text`. An Error type of core/error.hpp keeps its type, its code and
/// all other data. Another type derived from Error is returned as thrown, with its own text, because it cannot be
/// copied generically. Any other exception becomes a plain Error(unknown).
std::shared_ptr<const Error> error_with_text(const std::exception_ptr& failure,
                                             const std::string& text);

}  // namespace cubepi::detail
