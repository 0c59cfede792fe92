#pragma once

#include <string>

namespace conformance {

/// Converts the text to upper case as Unicode defines it, for a scenario's `upper`.
std::string upper_case(const std::string& text);

}  // namespace conformance
