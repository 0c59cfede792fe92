#pragma once

#include <string>

#include "scenario.hpp"

namespace conformance {

/// Runs a scenario and returns its result (README.md, section 3). Throws Unsupported where the product has no API for it.
/// With `keep`, on that new SQLite file, which stays.
JsonObject play(const Scenario& scenario, const std::string& keep = {});

}  // namespace conformance
