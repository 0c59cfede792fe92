#include <algorithm>
#include <chrono>
#include <utility>

#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/envelope.hpp>
#include <bub/questions.hpp>
#include <bub/tape/prompt_context.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/schema/json_text.hpp>

// Converts messages of a session to messages of the agent and passes them on; converts the agent's events to events of the turn and entries
// of its tape.

namespace bub::detail {

namespace {

using cubepi::detail::lower_case;

std::string audio_format(std::string mime) {
    mime = lower_case(mime.substr(0, mime.find(';')));
    std::string kind = mime.substr(mime.find('/') == std::string::npos ? 0 : mime.find('/') + 1);
    if (kind.starts_with("x-")) kind = kind.substr(2);
    if (kind == "mpeg") return "mp3";
    if (kind == "mp4") return "m4a";
    return kind.empty() ? "unknown" : kind;
}

Json media_part(const MediaItem& item, const std::string& url) {
    JsonObject part;
    if (item.type == MediaType::image || item.type == MediaType::video) {
        const std::string key = item.type == MediaType::image ? "image_url" : "video_url";
        JsonObject place;
        place["url"] = url;
        part["type"] = key;
        part[key] = std::move(place);
        return part;
    }
    const std::size_t comma = url.find(";base64,");
    if (item.type != MediaType::audio || lower_case(url.substr(0, 11)) != "data:audio/" ||
        comma == std::string::npos) {
        return nullptr;
    }
    JsonObject audio;
    audio["data"] = url.substr(comma + 8);
    audio["format"] = audio_format(url.substr(5, comma - 5));
    part["type"] = "input_audio";
    part["input_audio"] = std::move(audio);
    return part;
}

void add_part(cubepi::UserMessage& message, const JsonObject& part) {
    const Json* text = part.if_contains("text");
    if (text && text->is_string()) {
        message.content.emplace_back(cubepi::TextContent{std::string(text->get_string())});
        return;
    }
    const Json* image = part.if_contains("image_url");
    const JsonObject* place = image ? image->if_object() : nullptr;
    const Json* url = place ? place->if_contains("url") : nullptr;
    if (!url || !url->is_string()) {
        const Json* type = part.if_contains("type");
        const std::string name =
            type && type->is_string() ? std::string(type->get_string()) : "part";
        message.content.emplace_back(
            cubepi::TextContent{"[" + name + ": cannot be shown to this model]"});
        return;
    }
    cubepi::ImageContent content;
    const std::string_view source = url->get_string();
    const std::size_t comma = source.find(";base64,");
    if (source.starts_with("data:") && comma != std::string_view::npos) {
        content.media_type = cubepi::SharedString(std::string(source.substr(5, comma - 5)));
        content.source = std::string(source.substr(comma + 8));
    } else {
        content.source = std::string(source);
    }
    message.content.emplace_back(std::move(content));
}

}  // namespace

Task<Prompt> prompt_of(std::shared_ptr<Envelope> message,
                       std::chrono::system_clock::time_point now) {
    JsonArray parts;
    for (const MediaItem& item : message->media) {
        // Models do not accept documents, so they are not fetched.
        if (item.type == MediaType::document) continue;
        const std::optional<std::string> url = co_await item.get_url();
        if (!url) continue;
        Json part = media_part(item, *url);
        if (!part.is_null()) parts.push_back(std::move(part));
    }
    const std::string& content = message->content_text();
    if (content.empty() && parts.empty()) co_return Prompt();
    std::string date = cubepi::detail::text_member(message->context, date_key);
    if (date.empty()) date = local_date(now);
    std::string text = with_context(message->context_text(), date, content);
    if (parts.empty()) co_return Prompt(std::move(text));
    JsonObject first;
    first["type"] = "text";
    first["text"] = std::move(text);
    parts.insert(parts.begin(), Json(std::move(first)));
    co_return Prompt(std::move(parts));
}

cubepi::Message user_message_of(const Prompt& prompt) {
    if (const std::string* text = prompt.if_text()) return cubepi::user_message(*text);
    cubepi::UserMessage message;
    for (const Json& part : *prompt.if_parts()) {
        if (const JsonObject* object = part.if_object()) add_part(message, *object);
    }
    return message;
}

namespace {

JsonObject call_json(const cubepi::ToolCall& call) {
    JsonObject function;
    function["name"] = call.name.str();
    function["arguments"] = cubepi::json_text(call.arguments);
    JsonObject form;
    form["id"] = call.id.str();
    form["type"] = "function";
    form["function"] = std::move(function);
    return form;
}

/// Unreported counts are omitted.
JsonObject usage_json(const cubepi::Usage& usage) {
    JsonObject form;
    const auto add = [&form](const char* key, cubepi::TokenCount tokens) {
        if (tokens) form[key] = *tokens;
    };
    add("input_tokens", usage.input_tokens);
    add("output_tokens", usage.output_tokens);
    add("cache_read_tokens", usage.cache_read_tokens);
    add("cache_write_tokens", usage.cache_write_tokens);
    return form;
}

JsonObject run_json(const cubepi::AssistantMessage& answer) {
    const cubepi::Usage& usage = *answer.usage;
    const std::int64_t cached = usage.cache_read_tokens.value_or(0);
    const std::int64_t prompt =
        usage.input_tokens.value_or(0) + cached + usage.cache_write_tokens.value_or(0);
    const std::int64_t completion = usage.output_tokens.value_or(0);
    JsonObject details;
    details["cached_tokens"] = cached;
    JsonObject form;
    form["prompt_tokens"] = prompt;
    form["completion_tokens"] = completion;
    form["total_tokens"] = prompt + completion;
    form["prompt_tokens_details"] = std::move(details);
    JsonObject data;
    data["status"] = answer.error_message.empty() ? "ok" : "error";
    data["usage"] = std::move(form);
    if (!answer.provider_id.empty()) data["provider"] = answer.provider_id.str();
    if (!answer.model_id.empty()) data["model"] = answer.model_id.str();
    return data;
}

}  // namespace

TapeEntry step_entry(const cubepi::AssistantMessage& answer) {
    return event_entry("run", run_json(answer), hidden_from_context());
}

std::vector<TapeEntry> compaction_entries(const JsonObject& details) {
    std::vector<TapeEntry> entries;
    const JsonObject* usage = cubepi::detail::object_member(details, "usage");
    if (usage && !usage->empty()) {
        cubepi::AssistantMessage summary;
        summary.usage = cubepi::usage_from_json(*usage);
        entries.push_back(step_entry(summary));
    }
    entries.push_back(event_entry("compaction", details, hidden_from_context()));
    return entries;
}

/// Records a compaction on the tape.
Task<> AgentTurn::note_compaction(const cubepi::Notice& notice) {
    const JsonObject* usage = cubepi::detail::object_member(notice.details, "usage");
    if (usage && !usage->empty())
        push(event_kind::usage, usage_json(cubepi::usage_from_json(*usage)), nullptr);
    std::vector<TapeEntry> entries = compaction_entries(notice.details);
    (void)co_await tape_->append(std::move(entries));
}

namespace {

/// Returns messages that no agent has taken to the inbox.
struct Requeue {
    SteeringInbox& inbox;
    const std::string& session_id;
    std::vector<Envelope>& messages;

    ~Requeue() { inbox.put_back(session_id, std::move(messages)); }
};

/// Returns false if the run was aborted before the end of `task`, which is cancelled then.
Task<bool> unless_aborted(std::stop_token aborted, Task<> task) {
    Task<> running = cubepi::cancel_on(aborted, std::move(task));
    const cubepi::Outcome<> ended = co_await cubepi::outcome_of(std::move(running));
    if (ended.cancelled() && aborted.stop_requested()) co_return false;
    ended.rethrow();
    co_return true;
}

Task<> notify(std::shared_ptr<CommandHooks> hooks, std::string question) {
    (void)co_await hooks->notify(std::move(question));
}

}  // namespace

/// Runs inside the agent, synchronously with its stored messages. `aborted` ends hooks, which may take long, but no write.
Task<> AgentTurn::on_agent_event(cubepi::AgentEvent event, std::stop_token aborted) {
    const std::string_view* delta = event.text_delta();
    if (delta && fork_) fork_->add_text(*delta);
    // The answer is a turn of its own: the run does not wait for it.
    if (event.type() == cubepi::AgentEventType::hitl_request && suspends_) (void)agent_->detach();
    const auto* asked = event.get_if<cubepi::HitlRequestEvent>();
    // The parent's turn notifies of a question that is forwarded to it.
    if (asked && hooks_ && (!plan_.is_subagent || plan_.in_background)) {
        if (!notifying_) {
            const cubepi::Executor executor = co_await cubepi::this_executor;
            notifying_ = std::make_unique<cubepi::BackgroundScope>(
                executor, [](const std::exception_ptr&) {});
        }
        notifying_->spawn(notify(hooks_, question_text(asked->request)));
    }
    const auto* reported = event.get_if<cubepi::NoticeEvent>();
    if (reported && reported->notice.code == "compaction")
        co_await note_compaction(reported->notice);
    const auto* end = event.get_if<cubepi::TurnEndEvent>();
    const auto* message = event.get_if<cubepi::MessageEndEvent>();
    const bool answer_ended = message && message->message.role() == cubepi::Role::assistant;
    if (!end && !answer_ended) co_return;
    if (answer_ended) {
        note_usage(*message->message.assistant());
        co_await note_endpoint(*message->message.assistant());
    }
    std::shared_ptr<SteeringInbox> inbox;
    if (!plan_.is_subagent) inbox = co_await core_->framework().steering_inbox();
    if (inbox && inbox->count(plan_.session_id) > 0) {
        Task<> steering = steer(std::move(inbox));
        const bool is_whole = co_await unless_aborted(aborted, std::move(steering));
        if (!is_whole) co_return;
    }
    const cubepi::AssistantMessage* answer = end ? end->message.assistant() : nullptr;
    if (answer && answer->usage) {
        TapeEntry step = step_entry(*answer);
        (void)co_await tape_->append(std::move(step));
    }
    if (!end || end->tool_results.empty()) co_return;
    Task<> continuing = ask_to_continue();
    (void)co_await unless_aborted(aborted, std::move(continuing));
}

/// Passes messages that wait for the session to the agent.
Task<> AgentTurn::steer(std::shared_ptr<SteeringInbox> inbox) {
    inbox_ = inbox;
    // A hook takes time, and the turn may end meanwhile.
    std::vector<Envelope> waiting = inbox->drain(plan_.session_id);
    const Requeue rest{*inbox, plan_.session_id, waiting};
    while (!waiting.empty()) {
        const auto shared = std::make_shared<Envelope>(waiting.front());
        const Prompt prompt =
            co_await core_->framework().build_prompt(shared, plan_.session_id, state_);
        cubepi::Message message = user_message_of(prompt);
        if (const std::string refused = co_await submit(message); !refused.empty()) {
            repeat(refused);
            events_.back().data[refused_input_key] = input_id_of(*shared);
            waiting.erase(waiting.begin());
            continue;
        }
        std::string id = is_temporary(plan_.session_id) ? std::string() : input_id_of(*shared);
        if (!id.empty()) message = std::move(message).with_id(std::move(id));
        cubepi::Receipt receipt = agent_->steer(std::move(message));
        steered_.emplace_back(std::move(waiting.front()), std::move(receipt));
        waiting.erase(waiting.begin());
    }
}

/// Returns the messages to the inbox that the run has not read before it ended, by a failure, a limit or a question: they get turns of their
/// own.
void AgentTurn::put_back_unread() {
    std::vector<Envelope> unread;
    for (auto& [message, receipt] : std::exchange(steered_, {}))
        if (receipt.state() == cubepi::ReceiptState::queued) unread.push_back(std::move(message));
    if (!unread.empty()) inbox_->put_back(plan_.session_id, std::move(unread));
}

Task<> AgentTurn::ask_to_continue() {
    std::string more =
        co_await core_->framework().continue_prompt(prompt_, plan_.session_id, state_);
    if (!more.empty())
        agent_->steer(cubepi::synthetic_user_message(std::move(more), "continue_prompt"));
}

/// Counts the tokens of an answer, also of one whose calls suspend the run: the turn that continues it does not count them again.
void AgentTurn::note_usage(const cubepi::AssistantMessage& answer) {
    if (!answer.usage || plan_.is_subagent) return;
    usage_ += *answer.usage;
    state_.replace(std::make_shared<TurnUsage>(TurnUsage{usage_}));
}

/// Records the endpoint before the calls of an answer run, which may suspend the run.
Task<> AgentTurn::note_endpoint(const cubepi::AssistantMessage& answer) {
    const auto& describe = core_->options().describe_endpoint;
    if (!describe || !suspends_ || !answer.has_tool_calls()) co_return;
    JsonObject endpoint = describe(answer);
    const std::optional<TapeEntry> last =
        co_await tape_->store()->find_event(tape_->name(), std::string(endpoint_event));
    const JsonObject* const known = data_of(last);
    if (known && *known == endpoint) co_return;
    TapeEntry entry = endpoint_entry(std::move(endpoint));
    (void)co_await tape_->append(std::move(entry));
}

void AgentTurn::push(std::string_view kind, JsonObject data,
                     const std::shared_ptr<const cubepi::AgentEvent>& source) {
    StreamEvent event(kind, std::move(data));
    event.agent_event = source;
    events_.push_back(std::move(event));
}

/// For channels that show the outcome of a question, which ends without an answer.
void AgentTurn::note_end(const cubepi::HitlRequest& request, std::string_view outcome) {
    cubepi::HitlAnswerEvent end;
    end.request_id = request.request_id;
    end.answer = JsonObject{{"decision", outcome}};
    note_answer(end);
}

/// For channels that show the outcome of a question.
void AgentTurn::note_answer(const cubepi::HitlAnswerEvent& given) {
    AcceptedAnswer accepted;
    accepted.question = given.request_id;
    accepted.answer = given.answer;
    state_.replace(std::make_shared<AcceptedAnswer>(std::move(accepted)));
    JsonObject data;
    data["question"] = given.request_id;
    data["answer"] = given.answer;
    push(event_kind::answered, std::move(data), nullptr);
}

/// Tells the user, before the end of the run, that its goal is achieved or given up.
void AgentTurn::report_goal(cubepi::AgentEvent end) {
    const std::optional<cubepi::GoalState> goal = std::exchange(ended_goal_, std::nullopt);
    if (!goal) return;
    const bool achieved = goal->status == cubepi::GoalStatus::achieved;
    cubepi::NoticeEvent body;
    body.notice.code = achieved ? "goal_achieved" : "goal_exhausted";
    body.notice.text =
        (achieved ? "The goal is achieved: " : "The goal is given up: ") + goal->last_reason;
    body.notice.details["condition"] = goal->condition;
    body.notice.details["evaluations"] = goal->evaluations;
    end.body = std::move(body);
    push(event_kind::agent, JsonObject(),
         std::make_shared<const cubepi::AgentEvent>(std::move(end)));
}

void AgentTurn::translate(const cubepi::AgentEvent& event) {
    if (event.type() == cubepi::AgentEventType::agent_end) report_goal(event);
    const auto source = std::make_shared<const cubepi::AgentEvent>(event);
    if (const std::string_view* delta = event.text_delta()) {
        // The texts of a turn's steps are separated in the turn's output (B19).
        if (has_text_ && !step_has_text_) {
            events_.push_back(StreamEvent::text("\n\n"));
        }
        step_has_text_ = true;
        StreamEvent text = StreamEvent::text(*delta);
        text.agent_event = source;
        events_.push_back(std::move(text));
        return;
    }
    if (const std::string_view* delta = event.thinking_delta()) {
        JsonObject data;
        data["delta"] = *delta;
        push(event_kind::reasoning, std::move(data), source);
        return;
    }
    push(event_kind::agent, JsonObject(), source);
    const auto* given = event.get_if<cubepi::HitlAnswerEvent>();
    if (given && !given->cancelled) note_answer(*given);
    // Also of an answer whose call is made again in the same step.
    const auto* message = event.get_if<cubepi::MessageEndEvent>();
    if (message && message->message.assistant()) {
        has_text_ = has_text_ || step_has_text_;
        step_has_text_ = false;
    }
    const auto* end = event.get_if<cubepi::TurnEndEvent>();
    if (!end) return;
    const cubepi::AssistantMessage* answer = end->message.assistant();
    if (!answer) return;
    has_step_ = true;
    JsonObject data;
    if (answer->has_tool_calls()) {
        JsonArray calls;
        for (const cubepi::ToolCall* call : answer->tool_calls()) calls.push_back(call_json(*call));
        JsonObject called;
        called["tool_calls"] = calls;
        push(event_kind::tool_call, std::move(called), nullptr);
        JsonArray results;
        for (const cubepi::Message& result : end->tool_results) {
            results.emplace_back(result.text());
        }
        JsonObject returned;
        returned["tool_results"] = std::move(results);
        push(event_kind::tool_result, std::move(returned), nullptr);
        data["tool_calls"] = std::move(calls);
    }
    if (answer->usage) push(event_kind::usage, usage_json(*answer->usage), nullptr);
    data["ok"] = answer->error_message.empty();
    data["text"] = answer->text();
    push(event_kind::final, std::move(data), nullptr);
}

}  // namespace bub::detail
