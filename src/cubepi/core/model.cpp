#include <cubepi/core/model.hpp>

namespace cubepi {

std::string_view to_string(ReasoningMode mode) noexcept {
    switch (mode) {
        case ReasoningMode::off: return "off";
        case ReasoningMode::automatic: return "auto";
        case ReasoningMode::on: return "on";
    }
    return "off";
}

std::string_view to_string(ReasoningEffort effort) noexcept {
    switch (effort) {
        case ReasoningEffort::minimal: return "minimal";
        case ReasoningEffort::low: return "low";
        case ReasoningEffort::medium: return "medium";
        case ReasoningEffort::high: return "high";
        case ReasoningEffort::max: return "max";
    }
    return "medium";
}

std::string_view to_string(ReasoningSummary summary) noexcept {
    switch (summary) {
        case ReasoningSummary::none: return "none";
        case ReasoningSummary::automatic: return "auto";
        case ReasoningSummary::detailed: return "detailed";
        case ReasoningSummary::summarized: return "summarized";
    }
    return "none";
}

}  // namespace cubepi
