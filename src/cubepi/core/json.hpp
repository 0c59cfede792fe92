#pragma once

#include <cubepi/core/detail/compiler_requirements.hpp>

#include <boost/json.hpp>

namespace cubepi {

/// Any JSON value. The library's JSON type throughout is Boost.JSON's; these names are ours so that
/// headers read like the requirements.
using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;

}  // namespace cubepi
