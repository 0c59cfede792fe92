#include "json_lines.hpp"

#include <utility>

#include <cubepi/core/message_json.hpp>

#include "terminal/safe_json.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

void print(const JsonObject& line) {
    data_output(safe_json(line) + "\n");
    out().flush();
}

}  // namespace

void JsonLines::show(const bub::StreamEvent& event) {
    if (!event.agent_event) return;
    // An event after the end of a run: the run failed, and another one takes its place (a hand-off).
    print_ended_run(nullptr);
    AgentEvent shown = *event.agent_event;
    shown.run = run_of(shown);
    JsonObject line = to_json(shown);
    if (shown.type() == AgentEventType::agent_start) {
        if (const std::shared_ptr<const Model> model = pipeline_.running_model()) {
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
    print(line);
}

void JsonLines::finish(const Answer& answer) {
    print_ended_run(answer.result ? &*answer.result : nullptr);
}

void JsonLines::add_model(JsonObject& line) const {
    const std::string& session = pipeline_.plan().name;
    line["model"] = model_;
    line["provider"] = provider_;
    line["session"] = session.empty() ? Json() : Json(session);
}

void JsonLines::print_ended_run(const RunResult* result) {
    if (!ended_) return;
    JsonObject line = std::move(*ended_);
    ended_.reset();
    line["status"] = to_string(result ? result->outcome : RunOutcome::failed);
    line["error"] = result && result->failure ? Json(result->failure->what()) : Json();
    if (result) {
        line["usage"] = to_json(result->usage);
        line["cost"] = result->cost ? Json(*result->cost) : Json();
    }
    print(line);
}

/// The session's name instead of the name of its tape.
std::shared_ptr<const RunInfo> JsonLines::run_of(const AgentEvent& event) {
    if (!event.run || event.run == original_) return renamed_;
    original_ = event.run;
    RunInfo info = *event.run;
    info.thread_id = pipeline_.plan().name;
    renamed_ = std::make_shared<const RunInfo>(std::move(info));
    return renamed_;
}

}  // namespace cubepi::app
