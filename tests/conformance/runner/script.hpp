#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/provider.hpp>

#include "normal_form.hpp"
#include "product_middleware.hpp"
#include "scenario.hpp"

namespace conformance {

/// The model of a scenario: Faux with the script, behind a provider of our own that shows each request (those made
/// after an abort excepted) and lets the loop run between events, so that what listeners started gets its turn.
class RecordingProvider final : public cubepi::Provider {
public:
    using Sink = std::function<void(const cubepi::ModelRequest&)>;
    /// `scenario` has the settings of Faux.
    RecordingProvider(const std::vector<ScriptItem>& script, const Scenario& scenario, Sink sink);

    cubepi::MessageStream stream(cubepi::ModelRequest request) override;
    std::shared_ptr<cubepi::ObserverRegistry> observer_registry() const override {
        return faux_.observer_registry();
    }
    const std::string& provider_id() const noexcept override { return faux_.provider_id(); }

private:
    cubepi::FauxProvider faux_;
    std::deque<std::optional<std::int64_t>>
        input_tokens_;  ///< of the remaining items of the script
    Sink sink_;
};

/// A tool that does what the scenario says. `started` is told "<call id>:<tool name>" when a body begins; the texts that it
/// throws or returns are added to `known`, which outlives the tool.
cubepi::AgentTool make_tool(const ToolSpec& spec, std::function<void(std::string)> started,
                            KnownTexts& known);

/// The middleware of the scenario, new objects with counters at their beginning. `known` outlives them.
std::vector<cubepi::Middleware> make_middleware(const std::vector<MiddlewareSpec>& specs,
                                                const MiddlewareParts& parts, KnownTexts& known);

/// Puts the rules in as explicit constructor callables.
void set_explicit_hooks(cubepi::AgentOptions& options, const std::vector<HookRule>& rules,
                        KnownTexts& known);

}  // namespace conformance
