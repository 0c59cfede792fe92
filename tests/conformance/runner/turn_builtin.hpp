#pragma once

#include <filesystem>
#include <memory>

#include <bub/framework.hpp>

#include "scenario.hpp"
#include "turn_plugins.hpp"

namespace conformance {

/// The product's own builtin plugin on a scripted model (README-turns.md, 2.5), with a home and a workspace of its own.
class BuiltinStage {
public:
    BuiltinStage(const JsonObject& spec, std::shared_ptr<TurnLog> log);
    ~BuiltinStage();
    BuiltinStage(const BuiltinStage&) = delete;
    BuiltinStage& operator=(const BuiltinStage&) = delete;

    std::filesystem::path workspace() const;
    /// Sets the lifespan of the inbound, if the scenario has one.
    void prepare(bub::Envelope& inbound);
    void add_to(bub::Framework& framework);
    /// The results about model, tape and lifespan that the scenario requests.
    bub::Task<> report(JsonObject& result, const bub::Envelope& inbound);

    /// Removes the members of an envelope created by the plugin that the page does not name.
    static void trim(JsonObject& envelope);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace conformance
