#pragma once

#include <optional>
#include <string>

namespace cubepi::app {

/// A value, and who said it.
template <class T>
struct Sourced {
    std::optional<T> value = {};
    std::string by = {};  ///< a file or a variable; empty: nobody
};

}  // namespace cubepi::app
