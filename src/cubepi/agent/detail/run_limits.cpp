#include <cubepi/agent/detail/run_limits.hpp>

#include <cubepi/provider/cost.hpp>

namespace cubepi::detail {

std::optional<std::string> limit_reached(const AgentLimits& limits, std::uint32_t turns,
                                         std::optional<double> spent) {
    if (limits.max_turns != 0 && turns >= limits.max_turns) {
        return "the run reached its limit max_turns (" + std::to_string(limits.max_turns) +
               "): raise limits.max_turns, or prompt again to go on";
    }
    if (limits.max_spend <= 0) return std::nullopt;
    if (spent && *spent < limits.max_spend) return std::nullopt;
    const std::string limit =
        "the run reached its limit max_spend (" + money_text(limits.max_spend) + "): ";
    if (!spent) {
        return limit + "what an answer cost is not known; give its model a price (Model::cost)";
    }
    return limit + money_text(*spent) +
           " are spent; raise limits.max_spend, or prompt again to go on";
}

std::optional<std::string> price_missing(const AgentLimits& limits, const Model& model) {
    if (limits.max_spend <= 0 || price_of(model)) return std::nullopt;
    return "limits.max_spend is set, and the price of model '" + model.id + "' of provider '" +
           model.provider_id + "' is not known: give the model a price (Model::cost)";
}

}  // namespace cubepi::detail
