#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/provider/openai/server_api.hpp>

#include "openai_runs.hpp"

namespace cubepi::app {

/// The beginning of the ids of calls of the agent's own tools.
inline constexpr std::string_view agui_call_prefix = "tool_";

/// A call of one of the agent's tools of which the client has no result: the run that continues it adds the result to it.
struct AguiOpenCall {
    std::string id = {};
    std::string name = {};
    Json arguments = {};
    bool is_asked = false;  ///< a question is about it, whose arguments may have been completed
};

/// The answer of a client to a question (`resume`).
struct AguiAnswer {
    std::string question = {};
    bool is_cancelled = false;
    Json payload = {};
};

/// A `RunAgentInput` (docs.ag-ui.com), without the history: the tape of the session has it.
struct AguiRequest {
    std::string thread = {};
    std::string run = {};
    /// The messages after the last one of the agent: outputs of calls of the client's tools, then messages of the user.
    detail::OpenAIClientRequest client = {};
    JsonArray context = {};  ///< {description, value}
    JsonObject state = {};   ///< of the client
    std::vector<AguiAnswer> answers = {};
    /// Those of a request with answers, at most 1,000, as the client has them, oldest first. What it invents here is seen by that client only.
    std::vector<AguiOpenCall> open_calls = {};
};

/// Reads the body of a request. Throws detail::OpenAIRequestError.
AguiRequest read_agui_request(std::string_view body);

/// Identifies a run to its client.
struct AguiRunHead {
    std::string thread = {};
    std::string run = {};
    std::string mark =
        {};  ///< begins the ids of the messages and calls of the run; of no other run
    JsonObject state = {};  ///< of the client
    /// The tools of the client: those that are offered, and those of the calls that continue.
    std::set<std::string> client_tools = {};
    std::vector<AguiOpenCall> open_calls = {};  ///< that the run continues
};

/// Returns the id of the call that a question is about, for clients.
std::string agui_call_of(const HitlRequest& request);
/// Returns a question as an interrupt.
JsonObject agui_interrupt(const HitlRequest& request);
/// Returns the members `answer_to` and `answer`, or `text`, of the message that answers a question. Throws detail::OpenAIRequestError for a
/// payload that is not in the form of the interrupt's `responseSchema`.
JsonObject agui_answer(const AguiAnswer& answer, const HitlRequest& request);

/// An answer as events of AG-UI.
class AguiRun final : public OpenAIRun {
public:
    AguiRun(std::shared_ptr<bub::HttpReply> reply, CallId call_id, AguiRunHead head);

    /// Ends a run that has no turn, because its thread waits for answers.
    void refuse(const std::vector<HitlRequest>& open, std::string_view text);
    /// Returns the events so far.
    HttpServerResponse response() const override;
    std::string last_event(std::int64_t) const override { return {}; }

private:
    /// A call of a tool of the agent that has no result yet.
    struct Call {
        std::string id = {};
        bool is_subagent = false;
    };

    void text(std::string_view text) override;
    void end_message() override;
    bool question(const JsonObject& request) override;
    void call(std::string_view question, const bub::ClientCall& call) override;
    void end(const OpenAIReplyEnd& end) override;
    void postponed() override;
    void reasoning(std::string_view text) override;
    void event(const AgentEvent& event) override;
    void restarted() override;

    void write(std::string_view type, JsonObject members);
    std::string next_id(std::string_view prefix);
    void end_reasoning();
    void write_call(const std::string& id, std::string_view name, const std::string& arguments);
    void begin_call(const ToolExecutionStartEvent& start);
    void end_call(const ToolExecutionEndEvent& end);
    void show_progress(const ToolExecutionUpdateEvent& update);
    void show_todos(const std::vector<Todo>& todos);
    void write_result(const std::string& id, std::string_view text);
    /// Ends a call that will not have a result.
    void abandon_call(const Call& call);
    void abandon_calls();
    void suspend_subagents();
    void fail(std::string_view message, std::string_view code);

    AguiRunHead head_;
    std::size_t ids_ = 0;
    std::string message_;       // the open one
    std::string last_message_;  // to which calls belong; empty: none
    std::string reasoning_;     // the open one
    bool has_text_ = false;     // of an earlier message
    bool has_state_ = false;    // the client has the list of to-dos
    std::map<std::string, Call>
        calls_;  // by the ids of the model's endpoint, which name a call of the answer
    JsonArray interrupts_;
    JsonArray pending_;  // ids of calls of the client's tools
};

}  // namespace cubepi::app
