#pragma once

#include <memory>

#include "../terminal/chat_view.hpp"
#include "../terminal/console.hpp"
#include "renderer.hpp"

namespace cubepi::app {

/// Shows the chat at a terminal whose prompt stays usable: text appears above the prompt.
class LiveRenderer final : public Renderer {
public:
    /// `clock` outlives the object.
    LiveRenderer(std::shared_ptr<Console> console, Clock& clock, Executor executor);

    ChatView& view() noexcept { return view_; }

    void begin(const Pipeline& pipeline) override;
    ReplaySpace replay_space() const override;
    void show_prompt(std::string_view text) override { view_.echo(text); }
    void name_session(const std::string& name) override { view_.name_session(name); }
    void begin_session(const std::string& name) override { view_.begin_session(name); }
    void begin_turn() override { view_.begin_turn(); }
    void show_event(const AgentEvent& event) override;
    void show_text(std::string_view delta) override { view_.add_text(delta); }
    void show_output(std::string_view text) override;
    void show_error(std::string_view text) override { view_.problem(text); }
    void end_turn(const TurnEnd& end) override;
    void pause() override { view_.end_text(); }
    void print(std::string_view text) override;
    void note(std::string_view text) override { view_.note(text); }
    void warn(std::string_view text) override { view_.note(text); }
    void problem(std::string_view text) override;
    bool has_control() const override { return true; }
    void write_control(const TerminalText& sequence) override;
    Style style() const override { return console_->style(); }

private:
    void greet(const Pipeline& pipeline);

    std::shared_ptr<Console> console_;
    ChatView view_;
};

}  // namespace cubepi::app
