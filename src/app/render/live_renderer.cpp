#include "live_renderer.hpp"

#include <string>
#include <utility>

#include "../conversation/pipeline.hpp"
#include "../exit_code.hpp"

namespace cubepi::app {

LiveRenderer::LiveRenderer(std::shared_ptr<Console> console, Clock& clock, Executor executor)
    : console_(std::move(console)), view_(*console_, clock, std::move(executor)) {}

void LiveRenderer::begin(const Pipeline& pipeline) {
    greet(pipeline);
    const SessionPlan& plan = pipeline.plan();
    view_.introduce(plan.model.model.spec().id, plan.name, shown_spec(plan.model));
    plan.models->on_change([this](const ModelChoice& model) {
        view_.show_model(model.model.spec().id, shown_spec(model));
    });
    if (plan.prompter) view_.leave_out([prompter = plan.prompter] { return prompter->waited(); });
}

void LiveRenderer::greet(const Pipeline& pipeline) {
    const SessionPlan& plan = pipeline.plan();
    const Style& style = console_->style();
    TerminalText text =
        style.bold() + "cubepi" + style.off() + " talks to " + spelled_out(plan.model.where) + ".";
    if (!plan.name.empty()) text += " Session: " + spelled_out(plan.name) + ".";
    text += "\n" + style.dim() + "Esc stops an answer, Ctrl-D or /quit leaves, /help says more." +
            style.off() + "\n\n";
    for (const std::string& note : plan.notes) text += for_terminal(note) + "\n\n";
    console_->print(text);
}

ReplaySpace LiveRenderer::replay_space() const {
    return {console_->columns(), console_->rows() > 14 ? console_->rows() - 8 : 6};
}

void LiveRenderer::show_event(const AgentEvent& event) {
    if (!is_redundant(event)) view_.on_event(event);
}

void LiveRenderer::show_output(std::string_view text) {
    console_->print(for_terminal(text));
    console_->end_line();
}

void LiveRenderer::end_turn(const TurnEnd& end) {
    view_.end_turn();
    if (end.stopped) {
        view_.note("stopped.");
    } else if (end.failure.exit_code != exit_ok) {
        problem(end.failure.text);
    }
    console_->print("\n");
}

void LiveRenderer::print(std::string_view text) {
    view_.end_text();
    console_->print(for_terminal(text));
}

void LiveRenderer::problem(std::string_view text) { view_.problem("cubepi: " + std::string(text)); }

void LiveRenderer::write_control(const TerminalText& sequence) {
    console_->write_control(sequence);
}

}  // namespace cubepi::app
