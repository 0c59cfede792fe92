#pragma once

#include <optional>
#include <string>

namespace cubepi::app {

/// A configured value and its source.
template <class T>
struct Sourced {
    std::optional<T> value = {};
    std::string by = {};  ///< a file or a variable; empty: none
};

}  // namespace cubepi::app
