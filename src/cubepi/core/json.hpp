#pragma once

#include <cubepi/core/detail/compiler_requirements.hpp>

// Not <boost/json.hpp>: its conversions of values would cost every file that includes CubePi 80 KB.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>

namespace cubepi {

/// Any JSON value. The library uses the JSON type of Boost.JSON throughout; these aliases keep headers short.
using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;

}  // namespace cubepi
