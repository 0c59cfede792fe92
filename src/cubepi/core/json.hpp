#pragma once

#include <cubepi/core/detail/compiler_requirements.hpp>

#include <boost/json.hpp>

namespace cubepi {

/// Any JSON value. The library uses the JSON type of Boost.JSON throughout; these aliases keep headers short.
using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;

}  // namespace cubepi
