#pragma once

#include <cubepi/core/clock.hpp>

#include "../terminal/screen.hpp"
#include "renderer.hpp"

namespace cubepi::app {

struct SessionPlan;

/// Prints on standard error which model was found and the notes of the plan.
void print_notes(const SessionPlan& plan);

/// Shows turns on standard output and standard error, one after another: `run`, and the chat where the terminal cannot show
/// a live prompt.
class PlainRenderer final : public Renderer {
public:
    enum class Opening : std::uint8_t {
        notes,    ///< the notes of the plan, on standard error
        greeting  ///< model, session and keys
    };
    /// `clock` outlives the object.
    PlainRenderer(Clock& clock, Executor executor, Opening opening);

    void begin(const Pipeline& pipeline) override;
    ReplaySpace replay_space() const override;
    void show_prompt(std::string_view text) override;
    void show_event(const AgentEvent& event) override;
    void show_text(std::string_view delta) override { screen_.on_text(delta); }
    void show_output(std::string_view text) override;
    void end_turn(const TurnEnd& end) override;
    void pause() override { screen_.pause(); }
    void print(std::string_view text) override;
    void note(std::string_view text) override;
    void problem(std::string_view text) override;
    Style style() const override { return screen_.style(); }

private:
    Screen screen_;
    Opening opening_;
};

}  // namespace cubepi::app
