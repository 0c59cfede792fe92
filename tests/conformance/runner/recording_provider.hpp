#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/provider.hpp>

#include "scenario.hpp"

namespace conformance {

/// The model of a scenario: Faux with the script, behind a provider of our own that shows each request (those made
/// after an abort excepted) and lets the loop run between events, so that what listeners started gets its turn.
class RecordingProvider final : public cubepi::Provider {
public:
    using Sink = std::function<void(const cubepi::ModelRequest&)>;
    RecordingProvider(const std::vector<ScriptItem>& script, int token_size, Sink sink);

    cubepi::MessageStream stream(cubepi::ModelRequest request) override;
    std::shared_ptr<cubepi::ObserverRegistry> observer_registry() const override {
        return faux_.observer_registry();
    }
    const std::string& provider_id() const noexcept override { return faux_.provider_id(); }

private:
    cubepi::FauxProvider faux_;
    Sink sink_;
};

}  // namespace conformance
