#include <cubepi/agent/agent_test_support.hpp>

#include <optional>

namespace cubepi::agent_test {

AgentTool echo_tool() {
    return tool<EchoArgs>("echo", "Says it again.",
                          [](EchoArgs args) { return "echo: " + args.value; });
}

ToolCall echo_call(std::string value, std::string id) {
    return faux_tool_call("echo", {{"value", std::move(value)}}, std::move(id));
}

AssistantMessage calling(std::vector<ToolCall> calls, std::string_view reason) {
    ContentList<AssistantContent> blocks;
    for (ToolCall& call : calls) blocks.emplace_back(std::move(call));
    return faux_assistant_message(std::move(blocks), reason);
}

ToolResultMessage result_of(AgentTool tool, JsonObject arguments) {
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call(tool.name.str(), std::move(arguments))}), "done"});
    Agent agent({.model = faux.model(), .tools = {std::move(tool)}});
    const RunResult result = run(agent.prompt("Go"));
    return *result.new_messages[2].tool_result();
}

std::string text_of(const ToolResultMessage& result) { return Message(result).text(); }

FailingStore::FailingStore(std::shared_ptr<Checkpointer> inner, int fail_at)
    : inner_(std::move(inner)), fail_at_(fail_at) {}

Task<std::optional<CheckpointData>> FailingStore::load(std::string thread_id) {
    return inner_->load(std::move(thread_id));
}

Task<std::int64_t> FailingStore::append(std::string thread_id, MessageList messages,
                                        AppendOptions options) {
    if (++appends_ == fail_at_) {
        throw CheckpointerError(ErrorCode::storage_full, "no space left on device");
    }
    return inner_->append(std::move(thread_id), std::move(messages), std::move(options));
}

Task<void> FailingStore::save_extra(std::string thread_id, JsonObject extra) {
    return inner_->save_extra(std::move(thread_id), std::move(extra));
}

Recorder::Recorder(Agent& agent) {
    agent.subscribe([this](const AgentEvent& event) { events.push_back(event); });
}

std::vector<std::string> Recorder::words() const {
    std::vector<std::string> all;
    for (const AgentEvent& event : events) all.push_back(word(event));
    return all;
}

std::size_t Recorder::count(AgentEventType type) const {
    std::size_t n = 0;
    for (const AgentEvent& event : events) n += event.type() == type ? 1 : 0;
    return n;
}

std::vector<std::string> Recorder::notices() const {
    std::vector<std::string> codes;
    for (const AgentEvent& event : events) {
        if (const auto* notice = event.get_if<NoticeEvent>()) codes.push_back(notice->notice.code);
    }
    return codes;
}

std::string Recorder::word(const AgentEvent& event) {
    std::string text(to_string(event.type()));
    if (const auto* start = event.get_if<MessageStartEvent>()) {
        text += ":" + std::string(to_string(start->message.role()));
    } else if (const auto* end = event.get_if<MessageEndEvent>()) {
        text += ":" + std::string(to_string(end->message.role()));
    } else if (const StreamEvent* stream = event.stream_event()) {
        text += ":" + std::string(to_string(stream->type));
    } else if (const auto* tool_start = event.get_if<ToolExecutionStartEvent>()) {
        text += ":" + tool_start->tool_call_id;
    } else if (const auto* tool_end = event.get_if<ToolExecutionEndEvent>()) {
        text += ":" + tool_end->tool_call_id;
    }
    return text;
}

FauxStep Requests::answer(AssistantMessage message) {
    return FauxStep([this, message](const ModelRequest& request) {
        seen.push_back(request);
        return message;
    });
}

FauxStep Requests::answer(const char* text) { return answer(faux_assistant_message(text)); }

std::vector<std::string> texts(const MessageList& messages) {
    std::vector<std::string> all;
    for (const Message& message : messages) all.push_back(message.text());
    return all;
}

std::vector<Role> roles(const MessageList& messages) {
    std::vector<Role> all;
    for (const Message& message : messages) all.push_back(message.role());
    return all;
}

MessageList stored(Checkpointer& store, std::string thread_id) {
    const std::optional<CheckpointData> data = run(store.load(std::move(thread_id)));
    return data ? data->messages : MessageList();
}

void preload(Checkpointer& store, std::string thread_id, MessageList messages) {
    run(store.append(std::move(thread_id), std::move(messages), AppendOptions()));
}

}  // namespace cubepi::agent_test
