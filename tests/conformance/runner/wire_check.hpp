#pragma once

#include <string>
#include <vector>

#include "loopback.hpp"
#include "scenario.hpp"

namespace conformance {

/// What a call gave: the final message and the stream events on the way.
struct WireAnswer {
    JsonObject message;
    JsonArray events;
    std::vector<HttpAsked> asked;
};

/// Where an answer and its request differ from what the case expects, by the rules of README-fixtures.md, section 3.
/// `label` stands in front of each difference.
std::vector<std::string> wire_differences(const JsonObject& file, const WireAnswer& answer,
                                          std::string label);

}  // namespace conformance
