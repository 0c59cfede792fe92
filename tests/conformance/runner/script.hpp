#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/provider.hpp>

#include "normal_form.hpp"
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

/// A tool that does what the scenario says. `started` is told "<call id>:<tool name>" when a body begins; the texts that it
/// throws or returns are added to `known`, which outlives the tool.
cubepi::AgentTool make_tool(const ToolSpec& spec, std::function<void(std::string)> started,
                            KnownTexts& known);

/// The middleware of the scenario, new objects with counters at their beginning. `known` outlives them.
std::vector<cubepi::Middleware> make_middleware(const std::vector<MiddlewareSpec>& specs,
                                                const std::shared_ptr<cubepi::HitlChannel>& channel,
                                                KnownTexts& known,
                                                const cubepi::BoundModel& helper);

/// Puts the rules in as explicit constructor callables.
void set_explicit_hooks(cubepi::AgentOptions& options, const std::vector<HookRule>& rules,
                        KnownTexts& known);

}  // namespace conformance
