#pragma once

#include <string>
#include <vector>

#include "loopback.hpp"
#include "scenario.hpp"

namespace conformance {

/// The result of a call: the final message and the stream events before it.
struct WireAnswer {
    JsonObject message;
    JsonArray events;
    std::vector<HttpAsked> asked;
};

/// Returns the differences of an answer and its request from the expectations of the case, by the rules of README-fixtures.md,
/// section 3. `label` precedes each difference.
std::vector<std::string> wire_differences(const JsonObject& file, const WireAnswer& answer,
                                          std::string label);

}  // namespace conformance
