#include "plain_renderer.hpp"

#include <string>
#include <utility>

#include "../conversation/pipeline.hpp"
#include "../exit_code.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t replayed_rows = 16;

void greet(const SessionPlan& plan, const Style& style) {
    out() << style.bold() << "cubepi" << style.off() << " talks to "
          << spelled_out(plan.model.where) << ".";
    if (!plan.name.empty()) out() << " Session: " << for_terminal(plan.name) << ".";
    out() << "\n"
          << style.dim() << "Ctrl-C stops an answer, Ctrl-D or /quit leaves, /help says more."
          << style.off() << "\n\n";
    for (const std::string& note : plan.notes) out() << for_terminal(note) << "\n\n";
}

}  // namespace

void print_notes(const SessionPlan& plan) {
    if (plan.model.found_locally) err() << "Using " << spelled_out(plan.model.where) << ".\n";
    for (const std::string& note : plan.notes) err() << for_terminal(note) << "\n";
}

PlainRenderer::PlainRenderer(Clock& clock, Executor executor, Opening opening)
    : screen_(clock, std::move(executor)), opening_(opening) {}

void PlainRenderer::begin(const Pipeline& pipeline) {
    if (opening_ == Opening::greeting) return greet(pipeline.plan(), style());
    print_notes(pipeline.plan());
}

ReplaySpace PlainRenderer::replay_space() const {
    if (!style().terminal) return {};
    return {static_cast<std::size_t>(style().columns), replayed_rows};
}

void PlainRenderer::show_prompt(std::string_view text) {
    screen_.pause();
    out() << "> " << for_terminal(text) << "\n";
}

void PlainRenderer::show_event(const AgentEvent& event) {
    if (!is_redundant(event)) screen_.on_event(event);
}

void PlainRenderer::show_output(std::string_view text) {
    screen_.pause();
    out() << for_terminal(text) << "\n";
}

void PlainRenderer::end_turn(const TurnEnd& end) {
    screen_.pause();
    if (end.result) screen_.summary(*end.result, end.time);
    if (end.failure.exit_code != exit_ok) problem(end.failure.text);
}

void PlainRenderer::print(std::string_view text) {
    screen_.pause();
    out() << for_terminal(text) << flush_now;
}

void PlainRenderer::note(std::string_view text) {
    screen_.pause();
    out() << for_terminal(text) << "\n";
}

void PlainRenderer::problem(std::string_view text) {
    screen_.pause();
    err() << "cubepi: " << for_terminal(text) << "\n";
}

}  // namespace cubepi::app
