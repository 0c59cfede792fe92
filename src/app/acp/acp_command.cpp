#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include <bub/questions.hpp>
#include <bub/tape/prompt_context.hpp>
#include <cubepi/acp/agent.hpp>
#include <cubepi/acp/questions.hpp>
#include <cubepi/acp/updates.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/schema/json_convert.hpp>

#include "../command_line.hpp"
#include "../config/paths.hpp"
#include "../config/store_locations.hpp"
#include "../conversation/pipeline.hpp"
#include "../conversation/prompt_templates.hpp"
#include "../conversation/session.hpp"
#include "../failure.hpp"
#include "../mcp/mcp_offers.hpp"
#include "../mcp/mcp_settings.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../saved_sessions.hpp"
#include "../sessions.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../transcript.hpp"

namespace cubepi::app {

namespace {

/// A session of an editor: a conversation of the program whose front end is the editor. Its questions are those of the channel of the
/// plan. Used on one executor.
class EditorSession final : public AcpSession {
public:
    EditorSession(SessionPlan plan, std::shared_ptr<AcpEditor> editor, std::string id,
                  Executor executor);
    ~EditorSession() override;

    Task<AcpStop> prompt(AcpPrompt prompt) override;
    void cancel() noexcept override;
    Task<> replay() override;
    void announce() override;
    std::vector<AcpChoice> modes() const override;
    std::string mode() const override;
    Task<> set_mode(std::string id) override;
    std::vector<AcpOption> options() const override;
    Task<> set_option(std::string id, std::string value) override;
    Task<> close() override;

private:
    Pipeline::Parts pipeline_parts();
    AcpQuestions::Options question_options() const;
    Task<AcpStop> run(AcpPrompt prompt);
    bub::Envelope message_of(const AcpPrompt& prompt);
    Task<AcpPrompt> with_resources(AcpPrompt prompt);
    Task<> use_wanted_model();
    std::string model() const;
    void show(const AgentEvent& event, const Model* model);
    void show(const bub::StreamEvent& event);
    void send(JsonObject update);

    const std::shared_ptr<AcpEditor> editor_;
    const std::string id_;
    const std::shared_ptr<AcpUpdates> updates_;
    Pipeline pipeline_;
    const PromptTemplates templates_;
    const std::shared_ptr<AcpQuestions> questions_;
    BackgroundScope background_;
    std::string wanted_model_;  ///< from the next prompt on; empty: the current one
    bool has_title_;
    bool is_running_ = false;
    bool is_cancelled_ = false;                ///< the prompt that runs
    std::uint64_t cancels_ = 0;                ///< number of calls of cancel()
    std::optional<std::stop_source> reading_;  ///< resources of the prompt that runs
    std::set<std::string> refused_;  ///< the ids of messages to the run that a hook has refused
    AcpStop last_ = AcpStop::cancelled;
    AsyncEvent ended_;
};

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

/// Writes a line to standard error, which editors show in their logs.
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

/// Shows what the pipeline itself answers, such as the reason of a hook. The events of the agent are shown when they occur.
void EditorSession::show(const bub::StreamEvent& event) {
    pipeline_.note_shown(event);
    if (event.agent_event || event.kind != bub::event_kind::text) return;
    if (const Json* const refused = event.data.if_contains(bub::refused_input_key))
        refused_.emplace(std::string(refused->as_string()));
    const std::string_view text = event.delta();
    // Not what separates the steps of a turn.
    if (text.find_first_not_of(" \n") != std::string_view::npos)
        send(acp_text_update("agent_message_chunk", text));
}

/// The text of an editor is never a command (B11).
bub::Envelope EditorSession::message_of(const AcpPrompt& prompt) {
    bub::Envelope message = pipeline_.message(prompt.text, false);
    for (const ImageContent& image : prompt.images) message.media.push_back(picture_of(image));
    return message;
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
        bub::Envelope message = message_of(prompt);
        const std::optional<std::string> id = co_await pipeline_.steer(std::move(message));
        const auto taken = std::make_shared<bool>(false);
        if (id) {
            updates_->expect(*id, [taken, inserted = prompt.on_inserted](const std::string& known) {
                *taken = true;
                inserted(known);
            });
        }
        while (is_running_) co_await ended_.wait();
        if (id) {
            updates_->forget(*id);
            pipeline_.withdraw(*id);
            if (*taken || refused_.erase(*id) > 0) co_return last_;
        }
        if (last_ == AcpStop::cancelled) co_return last_;
        // The run has ended before it took the message.
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
    Task<AcpStop> turn = run(std::move(prompt));
    Outcome<AcpStop> ended = co_await outcome_of(std::move(turn));
    // A failure is reported to this prompt; one that has arrived meanwhile is not cancelled by it.
    if (!ended.cancelled()) last_ = ended ? ended.value() : AcpStop::end_turn;
    ended.rethrow();
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
    bub::Envelope message = message_of(prompt);
    Pipeline::Show shown = [this](const bub::StreamEvent& event, const bub::Envelope&) {
        show(event);
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

constexpr std::size_t listed_at_once = 50;
constexpr std::size_t max_id = 200;

[[noreturn]] void refuse(const std::string& reason) {
    throw AcpError(acp_error::invalid_params, reason);
}

std::string server_name(std::string_view name) {
    std::string made;
    for (const char c : name.substr(0, 40)) {
        const bool is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                (c >= '0' && c <= '9') || c == '-' || c == '_';
        made += is_allowed ? c : '_';
    }
    return made;
}

JsonObject mapping(const std::vector<std::pair<std::string, std::string>>& pairs) {
    JsonObject made;
    for (const auto& [name, value] : pairs) made[name] = value;
    return made;
}

/// The servers of the editor in the form of the configuration, by whose rules they are checked.
std::vector<McpServerSettings> servers_of(const std::vector<AcpMcpServer>& servers) {
    JsonObject all;
    for (const AcpMcpServer& server : servers) {
        JsonObject one;
        if (server.url.empty()) {
            one["command"] = server.command;
            JsonArray arguments;
            for (const std::string& argument : server.arguments) arguments.emplace_back(argument);
            one["args"] = std::move(arguments);
            one["env"] = mapping(server.environment);
        } else {
            one["url"] = server.url;
            one["headers"] = mapping(server.headers);
        }
        const std::string name = server_name(server.name);
        if (all.contains(name))
            refuse("several MCP servers have the name '" + name +
                   "' (names consist of at most 40 letters, digits, '-' and '_'; other characters "
                   "become '_'); rename one of them");
        all[name] = std::move(one);
    }
    try {
        return mcp_settings(Json(std::move(all)));
    } catch (const Error& error) {
        refuse(error.what());
    }
}

std::string iso_time(double seconds) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts = {};
    if (seconds <= 0 || !::gmtime_r(&time, &parts)) return {};
    std::string text(32, '\0');
    text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
    return text;
}

class EditorHost final : public AcpHost {
public:
    EditorHost(ConversationFlags flags, int protocol)
        : flags_(std::move(flags)), protocol_(protocol) {}

    AcpAbilities abilities() const override {
        AcpAbilities abilities;
        abilities.name = "cubepi";
        abilities.title = "CubePi";
        abilities.version = version_text();
        abilities.images = true;
        abilities.opens = true;
        abilities.lists = true;
        abilities.takes_servers = true;
        abilities.more_directories = true;
        abilities.protocol = protocol_;
        return abilities;
    }

    Task<std::shared_ptr<AcpSession>> create(std::shared_ptr<AcpEditor> editor, std::string id,
                                             AcpSetup setup) override {
        const Entered entered(*this, setup.directory);
        SessionParts parts = parts_of(setup);
        SessionPlan plan = co_await plan_session(flags_for(setup), std::move(parts));
        if (plan.create) {
            const auto saved = std::make_shared<SavedSessions>(SavedSessions::here());
            plan.create = [saved, id](std::string) { return saved->create_named(id, true); };
        }
        co_return co_await made(std::move(plan), std::move(editor), std::move(id));
    }

    Task<std::shared_ptr<AcpSession>> open(std::shared_ptr<AcpEditor> editor, std::string id,
                                           AcpSetup setup) override {
        if (id.size() > max_id) throw_missing();
        const Entered entered(*this, setup.directory);
        SavedSessions saved = SavedSessions::here();
        const std::vector<SavedSession> here = co_await saved.on_tapes(SessionsOf::directory);
        if (std::ranges::find(here, id, &SavedSession::name) == here.end()) throw_missing();
        ConversationFlags flags = flags_for(setup);
        flags.session = id;
        SessionParts parts = parts_of(setup);
        SessionPlan plan = co_await plan_session(std::move(flags), std::move(parts));
        co_return co_await made(std::move(plan), std::move(editor), std::move(id));
    }

    /// Lists the sessions of one directory: only there are names unique.
    Task<AcpSessionList> list(std::string directory, std::string cursor) override {
        if (directory.empty()) directory = std::filesystem::current_path().string();
        const auto parsed = detail::parsed_number<std::size_t>(cursor);
        if (!cursor.empty() && !parsed) refuse("`cursor` is not one of a list of sessions");
        const std::size_t first = parsed.value_or(0);
        SavedSessions saved(configured_tapes(), sessions_path(), canonical(directory));
        std::vector<ListedSession> all = co_await list_sessions(saved, SessionsOf::directory);
        std::erase_if(all, [](const ListedSession& one) { return one.tape.empty(); });
        AcpSessionList list;
        for (std::size_t i = first; i < all.size() && i - first < listed_at_once; ++i) {
            const ListedSession one = co_await load_details(saved.tapes(), std::move(all[i]));
            if (one.name.empty()) continue;
            AcpListedSession listed;
            listed.id = one.name;
            listed.directory = directory;
            listed.title = one.heading();
            listed.updated_at = iso_time(one.used_at);
            list.sessions.push_back(std::move(listed));
        }
        if (all.size() > first && all.size() - first > listed_at_once)
            list.next_cursor = std::to_string(first + listed_at_once);
        co_return list;
    }

private:
    [[noreturn]] static void throw_missing() {
        throw AcpError(acp_error::not_found, "there is no session with this id in this directory");
    }

    static std::filesystem::path canonical(const std::string& directory) {
        std::error_code failed;
        std::filesystem::path path = std::filesystem::canonical(directory, failed);
        if (failed || !std::filesystem::is_directory(path, failed))
            refuse("`cwd` is not a directory that can be used: " + directory);
        return path;
    }

    /// Changes to the directory of a session. The process has one: a session elsewhere needs that no other one is open.
    void enter(const std::string& directory) {
        const std::filesystem::path path = canonical(directory);
        std::erase_if(open_, [](const auto& session) { return session.expired(); });
        if (path == std::filesystem::current_path()) return;
        if (!open_.empty() || opening_ > 0) {
            refuse("this process works in " + std::filesystem::current_path().string() +
                   "; close its sessions, or start another cubepi acp for " + path.string());
        }
        std::error_code failed;
        std::filesystem::current_path(path, failed);
        if (failed) refuse("`cwd` cannot be entered: " + failed.message());
    }

    /// The directory does not change while a session is made.
    class Entered {
    public:
        Entered(EditorHost& host, const std::string& directory) : host_(host) {
            host_.enter(directory);
            ++host_.opening_;
        }
        ~Entered() { --host_.opening_; }
        Entered(const Entered&) = delete;
        Entered& operator=(const Entered&) = delete;

    private:
        EditorHost& host_;
    };

    ConversationFlags flags_for(const AcpSetup& setup) const {
        ConversationFlags flags = flags_;
        flags.more_directories = setup.more_directories;
        return flags;
    }

    static SessionParts parts_of(const AcpSetup& setup) {
        SessionParts parts;
        parts.channel = std::make_shared<InMemoryChannel>();
        parts.more_servers = servers_of(setup.servers);
        return parts;
    }

    Task<std::shared_ptr<AcpSession>> made(SessionPlan plan, std::shared_ptr<AcpEditor> editor,
                                           std::string id) {
        plan.waits_for_tasks = true;
        plan.background_channel = std::make_shared<InMemoryChannel>();
        Executor executor = co_await this_executor;
        auto session = std::make_shared<EditorSession>(std::move(plan), std::move(editor),
                                                       std::move(id), std::move(executor));
        open_.push_back(session);
        co_return session;
    }

    const ConversationFlags flags_;
    const int protocol_;
    std::vector<std::weak_ptr<AcpSession>> open_;
    std::size_t opening_ = 0;
};

/// Returns the host of `cubepi acp`: its sessions are conversations of the program with these flags, saved for the user's other
/// commands. All of them work in one directory, that of the first one, because the process does (D190). `protocol`: the newest version.
std::shared_ptr<AcpHost> editor_host(ConversationFlags flags, int protocol) {
    return std::make_shared<EditorHost>(std::move(flags), protocol);
}

Task<> serve_editor(ConversationFlags flags, int protocol) {
    const Executor executor = co_await this_executor;
    co_await serve_acp(editor_host(std::move(flags), protocol), mcp_standard_streams(executor));
}

}  // namespace

int acp_command(const CommandLine& line) {
    if (::isatty(STDIN_FILENO) != 0) {
        err() << "This is an agent for an editor, which writes JSON to standard input.\n"
                 "Name it in the configuration of the editor: command \"cubepi\", arguments "
                 "\"acp\".\n";
    }
    try {
        run(serve_editor(line.conversation, line.protocol));
    } catch (const Error& error) {
        // Of the editor; it is not a failure of a model.
        if (error.code() != ErrorCode::disconnected && error.code() != ErrorCode::too_large) throw;
        log_to_editor(error.what());
        return exit_failed;
    }
    return exit_ok;
}

}  // namespace cubepi::app
