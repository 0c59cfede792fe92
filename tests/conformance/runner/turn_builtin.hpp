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
    /// Gives the inbound its lifespan, where the scenario has one.
    void prepare(bub::Envelope& inbound);
    void add_to(bub::Framework& framework);
    /// What the scenario asks about model, tape and lifespan.
    bub::Task<> report(JsonObject& result, const bub::Envelope& inbound);

    /// Leaves what the page says of an envelope that the plugin made.
    static void trim(JsonObject& envelope);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace conformance
