#pragma once

#include <string>

namespace conformance {

/// The text in upper case, as Unicode has it: what a scenario's `upper` asks for.
std::string upper_case(const std::string& text);

}  // namespace conformance
