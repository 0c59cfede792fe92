#include "acp_session.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <bub/tape/prompt_context.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/schema/json_convert.hpp>

#include "../failure.hpp"
#include "../mcp/mcp_resource.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../transcript.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view model_option = "model";
constexpr std::string_view mode_option = "mode";

std::string id_of(ApprovalMode mode) {
    std::string id(name_of(mode).str());
    for (char& c : id) {
        if (c == ' ') c = '-';
    }
    return id;
}

/// Requests of other middleware have other details.
ApprovalDetails details_of(const HitlRequest& request) {
    ApprovalDetails details;
    const auto& payload = std::get<ApproveRequest>(request.payload);
    if (!try_from_json(payload.details, details).empty()) details = ApprovalDetails();
    return details;
}

Task<> serve(std::shared_ptr<AcpQuestions> questions, std::shared_ptr<HitlChannel> channel) {
    co_await questions->serve(std::move(channel));
}

bub::MediaItem picture_of(ImageContent image) {
    bub::MediaItem item;
    item.mime_type = image.media_type.str();
    item.url = "data:" + item.mime_type + ";base64," + std::move(image.source);
    return item;
}

/// A stored prompt without the facts of its turn.
std::string entered_text(const Message& message) {
    return std::string(bub::without_context(message.text()));
}

/// The prompt that "/name argument" stands for.
std::string expanded(const PromptTemplates& templates, std::string text) {
    if (!text.starts_with('/')) return text;
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const PromptTemplate* found = templates.find(std::string_view(text).substr(1, end - 1));
    if (!found || found->is_aside) return text;
    return found->expanded(end < text.size() ? std::string_view(text).substr(end + 1)
                                             : std::string_view());
}

}  // namespace

void log_to_editor(const std::string& text) {
    err() << "cubepi: " << for_terminal(visible(text)) << "\n";
}

EditorSession::EditorSession(SessionPlan plan, std::shared_ptr<AcpEditor> editor, std::string id,
                             Executor executor)
    : editor_(std::move(editor)),
      id_(std::move(id)),
      updates_(std::make_shared<AcpUpdates>(std::filesystem::current_path().string())),
      pipeline_(std::move(plan), pipeline_parts()),
      templates_(load_templates(pipeline_.plan().project.prompts)),
      questions_(std::make_shared<AcpQuestions>(editor_, id_, updates_, question_options())),
      background_(std::move(executor)),
      has_title_(pipeline_.plan().resumed.has_value()) {
    const SessionPlan& made = pipeline_.plan();
    for (const std::string& note : made.notes) log_to_editor(note);
    for (const std::string& warning : made.warnings) log_to_editor(warning);
    for (const auto& channel : {made.channel, made.background_channel}) {
        if (channel) background_.spawn(serve(questions_, channel));
    }
}

EditorSession::~EditorSession() {
    if (pipeline_.plan().telemetry) pipeline_.plan().telemetry->end();
}

Pipeline::Parts EditorSession::pipeline_parts() {
    Pipeline::Parts parts;
    parts.on_warning = log_to_editor;
    parts.on_agent = [this](const std::shared_ptr<Agent>& agent) {
        agent->subscribe([this, weak = std::weak_ptr<Agent>(agent)](const AgentEvent& event) {
            const std::shared_ptr<Agent> running = weak.lock();
            show(event, running ? running->state().model.get() : nullptr);
        });
    };
    parts.on_tasks = [this] {
        if (questions_) questions_->refresh();
    };
    return parts;
}

AcpQuestions::Options EditorSession::question_options() const {
    AcpQuestions::Options options;
    const std::shared_ptr<ToolApproval> approval = pipeline_.plan().approval;
    if (!approval) return options;
    options.always = [](const HitlRequest& request) {
        std::optional<std::string> rule = details_of(request).always;
        if (rule) *rule += " in this session";
        return rule;
    };
    options.on_always = [approval](const HitlRequest& request) {
        if (const auto rule = details_of(request).always)
            approval->add_rule(ApprovalRule::parse(*rule));
    };
    options.still_allowed = [approval](const HitlRequest& request) {
        return !approval->refuses_in_plan(std::get<ApproveRequest>(request.payload).tool_name);
    };
    options.title = [](const HitlRequest& request) { return details_of(request).question; };
    options.content = [updates = updates_, editor = editor_](const HitlRequest& request) {
        JsonArray content;
        const ApprovalDetails details = details_of(request);
        if (details.change && details.change->compared && !details.change->diff.empty()) {
            content.emplace_back(acp_diff(
                updates->absolute(details.change->path), details.change->diff,
                details.change->kind == FileChange::Kind::creates, editor->info().protocol));
        }
        return content;
    };
    return options;
}

void EditorSession::send(JsonObject update) { editor_->update(id_, std::move(update)); }

void EditorSession::show(const AgentEvent& event, const Model* model) {
    questions_->refresh();
    for (JsonObject& update : updates_->of(event, model)) send(std::move(update));
}

/// Adds the resources of MCP servers that the user has named, and tells the user what was added. Afterwards the prompt names none.
Task<AcpPrompt> EditorSession::with_resources(AcpPrompt prompt) {
    Task<Attachments> reading = attach_mcp_resources(Attachments(), std::exchange(prompt.typed, {}),
                                                     pipeline_.plan().servers);
    Attachments attached = co_await std::move(reading);
    prompt.text += attached.text;
    for (bub::MediaItem& one : attached.media) {
        ImageContent image;
        image.media_type = SharedString(one.mime_type);
        image.source = one.url.substr(one.url.find(',') + 1);
        prompt.images.push_back(std::move(image));
    }
    if (!attached.remark.empty())
        send(acp_text_update("agent_thought_chunk", "Attached: " + attached.remark + "\n\n"));
    co_return prompt;
}

Task<AcpStop> EditorSession::prompt(AcpPrompt prompt) {
    prompt.text = expanded(templates_, std::move(prompt.text));
    if (is_running_) {
        const std::uint64_t cancels = cancels_;
        prompt = co_await with_resources(std::move(prompt));
        if (cancels_ != cancels) co_return AcpStop::cancelled;
    }
    while (is_running_) {
        ContentList<Content> blocks;
        for (const ImageContent& image : prompt.images) blocks.emplace_back(image);
        const std::optional<Receipt> receipt =
            pipeline_.steer(user_message(prompt.text, std::move(blocks)));
        if (receipt) updates_->expect(receipt->message_id(), prompt.on_inserted);
        while (is_running_) co_await ended_.wait();
        if (receipt) updates_->forget(receipt->message_id());
        if (last_ == AcpStop::cancelled) co_return last_;
        if (receipt && !pipeline_.withdraw(*receipt)) co_return last_;
    }
    struct Running {
        EditorSession& session;
        explicit Running(EditorSession& its_session) : session(its_session) {
            session.is_running_ = true;
            session.is_cancelled_ = false;
            session.last_ = AcpStop::cancelled;
        }
        ~Running() {
            session.is_running_ = false;
            session.ended_.pulse();
        }
    };
    const Running running(*this);
    last_ = co_await run(std::move(prompt));
    co_return last_;
}

/// `,model` of the chat: the choice is stored with the session.
Task<> EditorSession::use_wanted_model() {
    const std::string wanted = std::exchange(wanted_model_, {});
    if (wanted.empty() || wanted == model()) co_return;
    Pipeline::Show show = [](const bub::StreamEvent&, const bub::Envelope&) {};
    bub::Envelope command = pipeline_.message(",model " + wanted, true);
    const Answer answer = co_await pipeline_.ask(std::move(command), std::move(show));
    if (answer.failure.exit_code != exit_ok || model() != wanted) {
        send(acp_options_update(options()));
        throw Error(ErrorCode::invalid_argument,
                    "the model '" + wanted + "' cannot be used: " + answer.failure.text);
    }
}

Task<AcpStop> EditorSession::run(AcpPrompt prompt) {
    co_await use_wanted_model();
    if (!std::exchange(has_title_, true))
        send(acp_title_update(std::string_view(prompt.text).substr(0, prompt.text.find('\n'))));
    reading_.emplace();
    Task<AcpPrompt> reading = with_resources(std::move(prompt));
    Task<AcpPrompt> stoppable = cancel_on(reading_->get_token(), std::move(reading));
    Outcome<AcpPrompt> read = co_await outcome_of(std::move(stoppable));
    reading_.reset();
    if (is_cancelled_) co_return AcpStop::cancelled;
    prompt = std::move(read).value();
    updates_->expect({}, std::move(prompt.on_inserted));
    // The text of an editor is never a command (B11).
    bub::Envelope message = pipeline_.message(std::move(prompt.text), false);
    for (ImageContent& image : prompt.images) message.media.push_back(picture_of(std::move(image)));
    Pipeline::Show shown = [this](const bub::StreamEvent& event, const bub::Envelope&) {
        pipeline_.note_shown(event);
    };
    const Answer answer = co_await pipeline_.ask(std::move(message), std::move(shown));
    if (pipeline_.plan().take_warnings) {
        for (const std::string& text : pipeline_.plan().take_warnings()) log_to_editor(text);
    }
    if (is_cancelled_) co_return AcpStop::cancelled;
    const bool ended = answer.failure.exit_code == exit_ok;
    const bool has_result = answer.result && answer.result->outcome != RunOutcome::failed &&
                            answer.result->outcome != RunOutcome::suspended;
    if (!ended && !has_result) throw Error(ErrorCode::provider, answer.failure.text);
    // The user who set a limit is told which one.
    if (!ended) send(acp_text_update("agent_message_chunk", "\n\n" + answer.failure.text));
    co_return answer.result ? acp_stop_of(*answer.result) : AcpStop::end_turn;
}

void EditorSession::cancel() noexcept {
    ++cancels_;
    if (!is_running_) return;
    is_cancelled_ = true;
    if (reading_) reading_->request_stop();
    pipeline_.stop();
}

Task<> EditorSession::replay() {
    const SessionPlan& plan = pipeline_.plan();
    const MessageList messages = co_await read_conversation(plan.tapes, tape_of(plan));
    for (JsonObject& update : updates_->replay(messages, entered_text)) send(std::move(update));
}

void EditorSession::announce() {
    std::vector<AcpChoice> commands;
    for (const PromptTemplate& one : templates_.all) {
        if (one.is_aside) continue;
        AcpChoice command;
        command.id = one.name;
        command.name = one.argument_hint;
        command.description = one.description;
        commands.push_back(std::move(command));
    }
    send(acp_commands_update(commands));
}

std::vector<AcpChoice> EditorSession::modes() const {
    std::vector<AcpChoice> modes;
    if (!pipeline_.plan().approval) return modes;
    for (const ApprovalMode mode : approval_modes) {
        AcpChoice choice;
        choice.id = id_of(mode);
        choice.name = name_of(mode).str();
        choice.description = effect_of(mode).str();
        modes.push_back(std::move(choice));
    }
    return modes;
}

std::string EditorSession::mode() const {
    const std::shared_ptr<ToolApproval>& approval = pipeline_.plan().approval;
    return approval ? id_of(approval->mode()) : std::string();
}

Task<> EditorSession::set_mode(std::string id) {
    const std::shared_ptr<ToolApproval>& approval = pipeline_.plan().approval;
    const std::optional<ApprovalMode> mode = mode_named(id);
    if (!approval || !mode)
        throw AcpError(acp_error::invalid_params, "there is no mode '" + id + "'");
    approval->set_mode(*mode);
    send(acp_mode_update(id_of(*mode)));
    send(acp_options_update(options()));
    co_return;
}

std::string EditorSession::model() const { return pipeline_.plan().models->configured().front(); }

std::vector<AcpOption> EditorSession::options() const {
    std::vector<AcpOption> options;
    if (pipeline_.plan().approval) options.push_back(acp_mode_option(*this));
    AcpOption models;
    models.id = model_option;
    models.name = "Model";
    models.category = "model";
    models.current = wanted_model_.empty() ? model() : wanted_model_;
    for (const std::string& id : pipeline_.plan().models->configured()) {
        AcpChoice choice;
        choice.id = id;
        choice.name = id;
        models.choices.push_back(std::move(choice));
    }
    options.push_back(std::move(models));
    return options;
}

Task<> EditorSession::set_option(std::string id, std::string value) {
    if (id == mode_option) {
        co_await set_mode(std::move(value));
        co_return;
    }
    if (id != model_option)
        throw AcpError(acp_error::invalid_params, "there is no option '" + id + "'");
    const std::vector<std::string> known = pipeline_.plan().models->configured();
    if (std::find(known.begin(), known.end(), value) == known.end())
        throw AcpError(acp_error::invalid_params, "there is no model '" + value + "' to choose");
    wanted_model_ = std::move(value);
}

Task<> EditorSession::close() {
    co_await background_.close();
    co_await pipeline_.close();
}

}  // namespace cubepi::app
