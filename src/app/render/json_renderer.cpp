#include "json_renderer.hpp"

#include <utility>

#include <cubepi/core/message_json.hpp>

#include "../conversation/pipeline.hpp"
#include "../exit_code.hpp"
#include "../terminal/safe_json.hpp"
#include "../terminal/terminal_stream.hpp"
#include "plain_renderer.hpp"

namespace cubepi::app {

namespace {

void print_line(const JsonObject& line) {
    data_output(safe_json(line) + "\n");
    out().flush();
}

}  // namespace

void JsonRenderer::begin(const Pipeline& pipeline) {
    pipeline_ = &pipeline;
    print_notes(pipeline.plan());
}

void JsonRenderer::show_event(const AgentEvent& event) {
    // An event after the end of a run: the run failed, and another one replaces it (a hand-off).
    print_ended_run(nullptr);
    AgentEvent shown = event;
    shown.run = run_of(shown);
    JsonObject line = to_json(shown);
    if (shown.type() == AgentEventType::agent_start) {
        if (const std::shared_ptr<const Model> model = pipeline_->running_model()) {
            model_ = model->id;
            provider_ = model->provider_id;
        }
        add_model(line);
    }
    if (shown.type() == AgentEventType::agent_end) {
        add_model(line);
        ended_ = std::move(line);
        return;
    }
    print_line(line);
}

void JsonRenderer::end_turn(const TurnEnd& end) {
    print_ended_run(end.result ? &*end.result : nullptr);
    if (end.failure.exit_code != exit_ok) problem(end.failure.text);
}

void JsonRenderer::print(std::string_view text) { err() << for_terminal(text); }

void JsonRenderer::note(std::string_view text) { err() << for_terminal(text) << "\n"; }

void JsonRenderer::problem(std::string_view text) {
    err() << "cubepi: " << for_terminal(text) << "\n";
}

void JsonRenderer::add_model(JsonObject& line) const {
    const std::string& session = pipeline_->plan().name;
    line["model"] = model_;
    line["provider"] = provider_;
    line["session"] = session.empty() ? Json() : Json(session);
}

void JsonRenderer::print_ended_run(const RunResult* result) {
    if (!ended_) return;
    JsonObject line = std::move(*ended_);
    ended_.reset();
    line["status"] = to_string(result ? result->outcome : RunOutcome::failed);
    line["error"] = result && result->failure ? Json(result->failure->what()) : Json();
    if (result) {
        line["usage"] = to_json(result->usage);
        line["cost"] = result->cost ? Json(*result->cost) : Json();
    }
    print_line(line);
}

/// Replaces the name of the tape by that of the session.
std::shared_ptr<const RunInfo> JsonRenderer::run_of(const AgentEvent& event) {
    if (!event.run || event.run == original_) return renamed_;
    original_ = event.run;
    RunInfo info = *event.run;
    info.thread_id = pipeline_->plan().name;
    renamed_ = std::make_shared<const RunInfo>(std::move(info));
    return renamed_;
}

}  // namespace cubepi::app
