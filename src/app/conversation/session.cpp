#include "session.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/utsname.h>

#include <bub/builtin/builtin.hpp>
#include <bub/close_matches.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/memory_tool.hpp>
#include <cubepi/workspace/spill.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "../command_line.hpp"
#include "../config/config_file.hpp"
#include "../config/model_sources.hpp"
#include "../config/paths.hpp"
#include "../config/provider_kinds.hpp"
#include "../config/tool_names.hpp"
#include "../mcp/mcp_hub.hpp"
#include "../project/git.hpp"
#include "../project/trust.hpp"
#include "../saved_sessions.hpp"
#include "../sessions.hpp"
#include "../shell_quoting.hpp"
#include "../terminal/console.hpp"
#include "../terminal/event_text.hpp"
#include "../terminal/prompter.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "../terminal/text_layout.hpp"
#include "../transcript.hpp"
#include "question_host.hpp"
#include "tool_approval.hpp"

namespace cubepi::app {

namespace {

/// "~/src/app (main)"
std::string location_text(const std::filesystem::path& directory) {
    std::string text = directory.string();
    const std::string home = bub::home_directory().string();
    if (home.size() > 1 && (text == home || text.starts_with(home + "/")))
        text.replace(0, home.size(), "~");
    if (const std::string branch = git_branch(directory); !branch.empty())
        text += " (" + branch + ")";
    return text;
}

/// The system prompt of `cubepi run` and `cubepi chat`.
std::string system_prompt(const std::string& directory, const ConversationFlags& flags) {
    std::string text =
        "You are a careful assistant at a terminal. Answer in short Markdown. Say when you are not "
        "sure.";
    if (flags.no_tools) return text;
    text += "\n\nYou work in the directory " + directory;
    utsname system = {};
    if (uname(&system) == 0)
        text += std::string(" on ") + system.sysname + " (" + system.machine + ")";
    // The date and the state of the repository are parts of messages (D106): here they would break the cached prefix.
    for (const std::string& more : flags.more_directories)
        text += ". The file tools also work in " + std::filesystem::absolute(more).string();
    return text +
           ". Look at files with read, list and grep before you claim anything about them. Change "
           "them with edit rather "
           "than write where you can. Run commands with shell only when no other tool does it. The "
           "user may refuse "
           "a call: then do not try the same thing another way, ask.";
}

/// The tools of the current directory and their approval; shared by the agents of a conversation.
struct Toolbox {
    std::shared_ptr<FileSpillSink> spill = {};
    std::shared_ptr<LocalWorkspace> workspace = {};
    std::shared_ptr<FilePreviews> previews = {};
    std::shared_ptr<SessionChanges> changes = {};
    std::shared_ptr<HitlChannel> channel = {};
    std::shared_ptr<ToolApproval> approval = {};
    std::shared_ptr<QuestionHost> host = {};  ///< null: the user cannot be asked
    bool is_answered = false;                 ///< the requests of `channel` are
    bool suspends = false;  ///< requests are stored with the session, and the run is suspended
    ToolApproval::Options approval_options = {};
    std::shared_ptr<McpHub> servers = {};  ///< null: none are configured
};

/// Adds approvals whose requests are stored with the session of this agent, and the tool that asks the user to `tools`.
void ask_later(AgentOptions& options, std::vector<AgentTool>& tools, const Toolbox& box) {
    auto channel = std::make_shared<CheckpointedChannel>(options.checkpointer, options.thread_id);
    ToolApproval::Options approval = box.approval_options;
    approval.can_wait = true;
    options.middleware.emplace_back(std::make_shared<ToolApproval>(box.approval->rules(), channel,
                                                                   nullptr, std::move(approval)));
    tools.push_back(ask_user_tool(channel));
    options.channel = std::move(channel);
}

/// Returns the servers of the user, those of the front end, and those of the project.
std::vector<McpServerSettings> all_servers(const SessionParts& parts,
                                           const ProjectSettings& project) {
    return with_project_servers(
        with_project_servers(configured_mcp_servers(config_path()), parts.more_servers),
        project.servers);
}

/// Makes the tools. `channel` takes the requests of the conversation.
Toolbox make_toolbox(const ConversationFlags& flags, const ConfigFile& config,
                     const ProjectSettings& project, const SessionParts& parts,
                     std::shared_ptr<FileSpillSink> spill, std::shared_ptr<HitlChannel> channel,
                     const CommandSandboxes& sandboxes) {
    Toolbox box;
    box.spill = std::move(spill);
    box.channel = std::move(channel);
    WorkspacePolicy policy = WorkspacePolicy().also_read(box.spill->directory());
    for (const std::string& more : flags.more_directories)
        policy.more_roots.push_back(std::filesystem::absolute(more));
    policy.environment = command_environment(config, flags.model);
    box.workspace =
        std::make_shared<LocalWorkspace>(std::filesystem::current_path(), std::move(policy));
    box.previews = std::make_shared<FilePreviews>(box.workspace);
    box.changes = std::make_shared<SessionChanges>(box.workspace);
    ToolApproval::Options approval;
    approval.can_wait = parts.channel != nullptr;
    approval.previews = box.previews;
    approval.workspace = box.workspace;
    approval.server_of = [servers = all_servers(parts, project)](const std::string& tool) {
        return server_identity(servers, tool);
    };
    approval.has_fetch_hook = bub::detail::CommandHookTable(hooks_of(config, project))
                                  .has(bub::HookPoint::pre_tool_use, "fetch");
    approval.mode =
        std::make_shared<ApprovalMode>(flags.yes ? ApprovalMode::all : ApprovalMode::ask);
    box.approval_options = approval;
    box.suspends = flags.suspend && !parts.prompter && !parts.channel && !flags.yes;
    box.is_answered = parts.prompter || parts.channel;
    ToolRules rules = rules_of(config, project);
    std::vector<std::filesystem::path> roots{std::filesystem::current_path()};
    for (const std::string& more : flags.more_directories)
        roots.push_back(std::filesystem::absolute(more));
    restrict_hidden(rules, config.sandbox, roots, box.spill->directory());
    rules.confine_commands(sandboxes.confinement());
    box.approval = std::make_shared<ToolApproval>(std::move(rules), box.channel, parts.prompter,
                                                  std::move(approval));
    if (parts.prompter) {
        auto save_rule = [](const std::string& rule) { save_allow_rule(config_path(), rule); };
        box.host = std::make_shared<QuestionHost>(box.channel, parts.prompter, parts.style,
                                                  box.approval, std::move(save_rule));
    }
    return box;
}

/// The memory tool of the plugin, with changes that can be taken back.
AgentTool recorded_memory(const bub::TurnContext& turn, const Toolbox& box) {
    MemoryToolOptions options;
    options.checkpoints = box.changes->checkpoints();
    return memory_tool(
        box.changes->notes(bub::memory_directory(bub::default_bub_home(), turn.workspace,
                                                 turn.session_id, bub::MemoryScope::workspace)),
        std::move(options));
}

/// Adds the tools and their approval to the options of the agent of `turn`, and the tool ask_user if the user can be asked.
/// `stores_requests`: the requests are stored with the session of the agent.
void add_tools(AgentOptions& options, const bub::TurnContext& turn, const Toolbox& box,
               bool stores_requests) {
    StandardToolOptions standard;
    standard.files.previews = box.previews;
    standard.files.checkpoints = box.changes->checkpoints();
    standard.fetch.follow_to_other_host = [approval = box.approval](const std::string& url) {
        return approval->allows_fetch(url);
    };
    std::shared_ptr<ShellSessions> commands = turn.state.service<ShellSessions>();
    // One list of all tools: each push_back() of a ToolList copies it.
    std::vector<AgentTool> tools(options.tools.begin(), options.tools.end());
    for (AgentTool& tool : tools) {
        if (tool.name == "memory") tool = recorded_memory(turn, box);
    }
    for (AgentTool& tool : standard_tools(box.workspace, std::move(standard), std::move(commands)))
        tools.push_back(std::move(tool));
    if (box.servers) {
        for (AgentTool& tool : box.servers->tools(box.spill)) tools.push_back(std::move(tool));
    }
    options.spill = box.spill;
    if (stores_requests && options.checkpointer) {
        ask_later(options, tools, box);
    } else {
        // Without a host a question, of an MCP server for example, would wait for ever.
        if (box.is_answered) {
            tools.push_back(ask_user_tool(box.channel));
            options.channel = box.channel;
        }
        options.middleware.emplace_back(box.approval);
    }
    options.tools = ToolList(std::move(tools));
}

/// Returns the index of the model that `answer` names by its id, its number from 1, or a part that no other id has. Throws
/// Error(invalid_argument) if that is not one model.
std::size_t model_named(const std::string& answer, const std::vector<std::string>& models) {
    const auto exact = std::find(models.begin(), models.end(), answer);
    if (exact != models.end()) return static_cast<std::size_t>(exact - models.begin());
    const std::size_t number = detail::parsed_number<std::size_t>(answer).value_or(0);
    if (number >= 1 && number <= models.size()) return number - 1;
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < models.size() && !answer.empty(); ++i) {
        if (detail::lower_case(models[i]).find(detail::lower_case(answer)) != std::string::npos)
            found.push_back(i);
    }
    if (found.size() == 1) return found.front();
    std::string problem = "'" + answer + "' is not in the list";
    if (answer.empty()) problem = "no model was chosen";
    if (found.size() > 1)
        problem = "'" + answer + "' matches " + std::to_string(found.size()) + " models";
    throw Error(ErrorCode::invalid_argument, problem + "; enter a number from 1 to " +
                                                 std::to_string(models.size()) +
                                                 ", a model's name, or a part of one name");
}

/// Lists the models and asks for one, until the answer is a number, a name, or a part that occurs in one name only. Returns
/// its index. Throws a cancellation error if the input ends.
Task<std::size_t> pick_model(std::shared_ptr<Prompter> prompter, std::string question,
                             std::vector<std::string> models) {
    question += '\n';
    for (std::size_t i = 0; i < models.size(); ++i)
        question += "  " + std::to_string(i + 1) + "  " + one_line(visible(models[i]), 70) + "\n";
    prompter->print(for_terminal(question));
    for (;;) {
        const std::optional<std::string> answer =
            co_await prompter->read(TerminalView("number or name > "));
        if (!answer) throw Error(ErrorCode::cancelled, "no model was chosen");
        std::string problem;
        try {
            co_return model_named(std::string(detail::trimmed(*answer)), models);
        } catch (const Error& error) {
            problem = error.what();
        }
        prompter->print(for_terminal(problem) + "\n");
    }
}

/// Later turns of a saved conversation refer to its long results, so these are stored next to the tapes.
std::shared_ptr<FileSpillSink> make_spill(SessionPlan& session) {
    if (session.name.empty() && !session.create) return std::make_shared<FileSpillSink>();
    const std::filesystem::path directory =
        bub::spill_directory(bub::default_bub_home(), std::filesystem::current_path());
    try {
        return std::make_shared<FileSpillSink>(FileSpillOptions().in(directory));
    } catch (const Error& error) {
        session.warnings.push_back("Long tool results are stored only until the program ends: " +
                                   std::string(error.what()));
    }
    return std::make_shared<FileSpillSink>();
}

/// Starts the connections to the configured MCP servers, and waits `start_wait` for those that answer at once; for those that a run
/// calls first when it continues, as long as these take to start. Null: there are none.
Task<std::shared_ptr<McpHub>> connect_to_servers(SessionPlan& session,
                                                 std::vector<McpServerSettings> servers,
                                                 std::vector<std::string> more_directories,
                                                 std::chrono::nanoseconds start_wait) {
    if (servers.empty()) co_return nullptr;
    McpHost host;
    // A process whose run is suspended ends.
    if (!session.suspends) host.suspended_call_time = mcp_suspended_call_time;
    host.model = [models = session.models, model = session.model.model] {
        return models ? models->current().model : model;
    };
    host.roots.push_back(std::filesystem::current_path());
    for (const std::string& more : more_directories)
        host.roots.push_back(std::filesystem::absolute(more));
    auto hub = std::make_shared<McpHub>(std::move(servers), session.environment,
                                        Runtime::standard(), host);
    co_await hub->start(start_wait);
    if (std::vector<std::string> missing = hub->without_tools(); !missing.empty()) {
        Task<std::vector<std::string>> finding =
            servers_of_suspended_run(session.tapes, tape_of(session), std::move(missing));
        std::vector<std::string> called = co_await std::move(finding);
        co_await hub->wait_for(std::move(called));
    }
    for (std::string& problem : hub->take_problems())
        session.warnings.push_back(std::move(problem));
    session.take_warnings = [hub] { return hub->take_problems(); };
    co_return hub;
}

/// Returns a function that applies the flags and the configured limits to an agent, except those of the model.
Equip equipment(const ConversationFlags& flags, std::optional<std::size_t> max_repeated_calls,
                std::optional<Toolbox> tools) {
    return [flags, max_repeated_calls, tools = std::move(tools)](
               AgentOptions& options, const bub::TurnContext& turn, bool stores_requests) {
        if (tools) {
            add_tools(options, turn, *tools, stores_requests);
        } else {
            options.tools.clear();
        }
        if (!flags.system_prompt.empty()) options.system_prompt = flags.system_prompt;
        if (flags.max_turns > 0)
            options.limits.max_turns = static_cast<std::size_t>(flags.max_turns);
        if (max_repeated_calls) options.limits.max_repeated_calls = *max_repeated_calls;
        options.limits.max_spend = flags.max_cost;
    };
}

constexpr std::string_view sandbox_key = "sandbox";
constexpr std::string_view directories_key = "add_dir";

/// Returns the flags that hold for a run when another process continues it.
JsonObject run_flags(const ConversationFlags& flags, const SandboxSettings& sandbox) {
    JsonObject made;
    if (!flags.no_tools) made[sandbox_key] = stored_sandbox(sandbox);
    if (flags.max_cost > 0) made["max_cost"] = flags.max_cost;
    if (flags.max_turns > 0) made["max_turns"] = flags.max_turns;
    if (!flags.system_prompt.empty()) made["system"] = flags.system_prompt;
    JsonArray directories;
    for (const std::string& more : flags.more_directories)
        directories.emplace_back(std::filesystem::absolute(more).lexically_normal().string());
    if (!directories.empty()) made[directories_key] = std::move(directories);
    return made;
}

/// Lets the file tools work in the directories of the suspended run, too, because the question about a call names them. `notes` gets a
/// sentence for each.
void restore_directories(ConversationFlags& flags, const JsonObject& stored,
                         std::vector<std::string>& notes) {
    const JsonArray* const directories = detail::array_member(stored, directories_key);
    if (!directories || !flags.more_directories.empty()) return;
    for (const Json& one : *directories) {
        std::error_code unknown;
        if (!one.is_string()) continue;
        const std::filesystem::path directory(std::string_view(one.get_string()));
        if (!directory.is_absolute() || !std::filesystem::is_directory(directory, unknown))
            continue;
        flags.more_directories.push_back(directory.string());
        notes.push_back("The file tools also work in " + visible(directory.string()) +
                        ", as the run that waits here does.");
    }
}

/// Applies those of a suspended run, with whose endpoint they are stored, where this process has no others. `notes` gets a sentence for
/// what widens the workspace.
void restore_run_flags(ConversationFlags& flags, const JsonObject& endpoint,
                       std::vector<std::string>& notes) {
    const JsonObject* const stored = detail::object_member(endpoint, run_flags_key);
    if (!stored) return;
    const Json* const cost = stored->if_contains("max_cost");
    if (flags.max_cost <= 0 && cost && cost->is_number())
        flags.max_cost = cost->to_number<double>();
    const std::int64_t turns = detail::integer_member(*stored, "max_turns").value_or(0);
    if (flags.max_turns == 0 && turns > 0 && turns <= 1'000'000)
        flags.max_turns = static_cast<int>(turns);
    if (flags.system_prompt.empty()) flags.system_prompt = detail::text_member(*stored, "system");
    restore_directories(flags, *stored, notes);
}

/// Returns the sandbox of the commands of this process. That of a suspended run is never weaker than the one with which it was
/// suspended (D180); `notes` gets a sentence if that changes the settings.
SandboxSettings sandbox_settings(const ConfigFile& config, const ConversationFlags& flags,
                                 const JsonObject& endpoint, std::vector<std::string>& notes) {
    SandboxSettings settings = config.sandbox;
    if (!flags.sandbox.empty()) settings.mode = sandbox_mode(flags.sandbox).value_or(settings.mode);
    const JsonObject* const stored = detail::object_member(endpoint, run_flags_key);
    const JsonObject* const sandbox =
        stored ? detail::object_member(*stored, sandbox_key) : nullptr;
    if (sandbox && restrict_sandbox(settings, *sandbox)) {
        notes.push_back("The run that waits here was suspended with a stricter sandbox (" +
                        std::string(to_string(settings.mode)) +
                        (settings.network ? "" : ", no network") + "), which this process uses.");
    }
    return settings;
}

/// "New session 'pln'. Did you mean 'plan'?"
Task<std::string> new_session_note(SavedSessions& saved, std::string name) {
    std::string note = "New session '" + visible(name) + "'.";
    std::vector<std::string> names;
    constexpr std::size_t compared = 500;
    const std::vector<SavedSession> here = co_await saved.on_tapes(SessionsOf::directory, compared);
    for (const SavedSession& one : here) {
        if (one.name != name) names.push_back(one.name);
    }
    const std::vector<std::string> close = bub::close_matches(name, names);
    if (!close.empty()) note += " Did you mean '" + visible(close.front()) + "'?";
    co_return note;
}

/// Nothing for a session without messages.
Task<std::optional<ResumedSession>> find_resumed(SavedSessions& saved, std::string tape) {
    std::optional<ResumedSession> resumed;
    const bub::TapePosition end = co_await saved.tapes()->position(tape);
    if (end.messages == 0) co_return resumed;
    resumed.emplace();
    resumed->messages = end.messages;
    resumed->used_at = co_await saved.used_at(tape);
    const JsonObject state = co_await saved.tapes()->read_state(tape);
    resumed->title = session_title(state);
    if (!resumed->title.empty()) co_return resumed;
    const MessageList first = co_await read_beginning(saved.tapes(), std::move(tape), 1);
    resumed->title = title_of(first);
    co_return resumed;
}

/// A session that is saved under a name made from its first prompt; a temporary one if it cannot be saved.
SessionPlan new_session() {
    SessionPlan plan;
    plan.session_id = session_id_of("chat");
    const auto saved = std::make_shared<SavedSessions>(SavedSessions::here());
    if (const std::string obstacle = saved->obstacle(); !obstacle.empty()) {
        plan.notes.push_back("This chat is not saved: " + obstacle + ".");
        plan.tapes = std::make_shared<bub::MemoryTapeStore>();
        return plan;
    }
    plan.tapes = saved->tapes();
    plan.create = [saved](std::string first_prompt) {
        return saved->create(std::move(first_prompt));
    };
    return plan;
}

/// Returns a plan with the place of the session and its earlier messages.
Task<SessionPlan> find_session(std::string name, bool continues, bool temporary) {
    if (name.empty() && !continues && !temporary) {
        SessionPlan plan = new_session();
        // A database that cannot be reached is an error before the first prompt.
        if (plan.create) co_await plan.tapes->read_state(tape_of(plan));
        co_return plan;
    }
    SessionPlan plan;
    plan.session_id = session_id_of("chat");
    plan.tapes = std::make_shared<bub::MemoryTapeStore>();
    if (name.empty() && !continues) co_return plan;
    SavedSessions saved = SavedSessions::here();
    const bool named = !name.empty();
    if (!named) {
        LastSession last = co_await saved.last();
        name = std::move(last.name);
        if (!last.note.empty()) plan.notes.push_back(std::move(last.note));
    }
    const std::string tape = saved.tape_of(name);
    plan.open = co_await mark_open(saved.tapes(), tape);
    BroughtToTape brought = co_await saved.bring_to_tape(name);
    if (!brought.note.empty()) plan.notes.push_back(std::move(brought.note));
    plan.resumed = co_await find_resumed(saved, tape);
    if (named && !plan.resumed) {
        std::string note = co_await new_session_note(saved, name);
        plan.notes.push_back(std::move(note));
    }
    plan.session_id = session_id_of(name);
    plan.name = std::move(name);
    plan.tapes = saved.tapes();
    co_return plan;
}

/// Opens the project of the directory, whose authors may not be the user.
Task<> add_project(SessionPlan& plan, TrustSettings trust, std::shared_ptr<Prompter> prompter) {
    // The user trusts what there is now, or no model is called.
    const bool accepts_changes = trust.this_run || plan.model.offline;
    const TrustedFiles of_run = trust.of_run.value_or(TrustedFiles());
    OpenedProject opened = co_await open_project(std::move(trust), std::move(prompter));
    plan.files = std::move(opened.files);
    plan.trusts_project = opened.project.is_trusted;
    plan.project = settings_of(opened.project);
    if (!accepts_changes) require_files_of_run(of_run, plan.project);
    store_trust(plan.run_flags, plan.project);
    for (auto* texts : {&opened.warnings, &plan.project.problems})
        plan.warnings.insert(plan.warnings.end(), texts->begin(), texts->end());
    plan.notes.insert(plan.notes.end(), opened.notes.begin(), opened.notes.end());
}

Task<bool> ask_consent(std::shared_ptr<Prompter> prompter, std::string effect) {
    if (!prompter->can_ask()) co_return false;
    co_await prompter->prepare();
    prompter->print(framed(effect, prompter->size().columns));
    for (;;) {
        prompter->set_question(
            [effect](ScreenSize screen) { return framed(effect, screen.columns); });
        Choices choices;
        choices.text = TerminalView("run it?");
        choices.all = yes_and_no();
        const std::optional<Chosen> chosen = co_await prompter->choose(std::move(choices));
        if (!chosen || chosen->key == 'n') co_return false;
        if (chosen->key == 'y') co_return true;
    }
}

}  // namespace

std::string resume_hint(const SessionPlan& plan) {
    if (plan.name.empty()) return {};
    return "Resume this chat: " + resume_command(plan) + "\n";
}

std::string resume_command(const SessionPlan& plan) {
    return "cubepi chat --session " + shell_word(plan.name) + plan.directory_flag +
           (plan.models ? plan.models->flags_to_resume() : std::string());
}

std::string resumed_text(const ResumedSession& session, std::chrono::system_clock::time_point now) {
    const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
    const auto age = static_cast<std::int64_t>(seconds - session.used_at);
    std::string text = session.title.empty() ? "" : "“" + session.title + "” · ";
    text += std::to_string(session.messages) + (session.messages == 1 ? " message" : " messages");
    if (session.used_at > 0) text += " · last used " + age_text(std::chrono::seconds(age));
    return text;
}

std::string tape_of(const SessionPlan& plan) {
    return bub::tape_name(std::filesystem::current_path(), plan.session_id);
}

Task<std::shared_ptr<const void>> mark_open(std::shared_ptr<bub::TapeStore> tapes,
                                            std::string tape) {
    std::shared_ptr<const void> mark;
    auto* const sessions = dynamic_cast<bub::SessionTapeStore*>(tapes.get());
    if (!sessions) co_return mark;
    try {
        mark = co_await sessions->open_tape(std::move(tape));
    } catch (const Error& error) {
        if (error.code() == ErrorCode::storage_locked) throw;
    }
    co_return mark;
}

SessionLocation next_session(const SessionPlan& plan) {
    SessionLocation place;
    place.tapes = plan.tapes;
    place.session_id = session_id_of("chat");
    place.create = plan.create;
    if (plan.name.empty() && !plan.create) {
        // A temporary session; "+" keeps its tape apart from the one before.
        place.session_id = plan.session_id + "+";
    } else if (!plan.create) {
        const auto saved = std::make_shared<SavedSessions>(SavedSessions::here());
        place.create = [saved](std::string first_prompt) {
            return saved->create(std::move(first_prompt));
        };
    }
    return place;
}

Task<SessionPlan> plan_session(ConversationFlags flags, SessionParts parts) {
    check_model_flags(flags.model);
    const ConfigFile config = read_config(config_path());
    if (config.escape_timeout) Console::set_escape_timeout(*config.escape_timeout);
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    SessionPlan session = co_await find_session(flags.session, flags.continue_last, flags.no_save);
    const std::shared_ptr<Prompter> prompter = parts.prompter;
    ModelSources sources = model_sources(flags.model, config, prompter && prompter->can_ask());
    session.prompter = parts.prompter;
    session.terminal = config.terminal;
    session.todos = config.todos;
    session.subagents = config.subagents;
    if (!flags.directory.empty()) session.directory_flag = " -C " + shell_word(flags.directory);
    ChooseModel choose = [prompter](std::string question, std::vector<std::string> models) {
        return pick_model(prompter, std::move(question), std::move(models));
    };
    for (std::string& note : unused_rules(config.allow))
        session.warnings.push_back(std::move(note));
    if (config.too_open) session.warnings.push_back(open_key_file_note(config_path()));
    StoredModel suspended;  // the endpoint of the suspended run; empty: none
    JsonObject endpoint;    // the same, as it is stored
    if (!session.name.empty()) {
        const std::string tape =
            bub::tape_name(std::filesystem::current_path(), session.session_id);
        const JsonObject stored = co_await bub::stored_model_choice(session.tapes, tape);
        sources.session = StoredModel::of(stored);
        endpoint = co_await bub::suspended_endpoint(session.tapes, tape);
        suspended = StoredModel::of(endpoint);
        restore_run_flags(flags, endpoint, session.notes);
        if (!suspended.id.empty() && !sources.flags.name_a_model()) {
            (void)endpoint_to_continue(sources, suspended);
            sources.session = suspended;
        }
        // The model of the run is not asked for.
        const ModelFlags& named = sources.flags;
        if (!suspended.id.empty() && !named.base_url.empty() && named.model.empty())
            sources.flags.model = suspended.model();
    }
    SandboxSettings sandbox = sandbox_settings(config, flags, endpoint, session.notes);
    session.run_flags = run_flags(flags, sandbox);
    if (const Sourced<std::size_t> turns = turn_settings(sources).max_turns;
        turns.value && flags.max_turns == 0) {
        flags.max_turns = static_cast<int>(std::min<std::size_t>(*turns.value, 1'000'000));
    }
    session.model = co_await choose_model(sources, transport_of(*runtime), std::move(choose),
                                          std::move(parts.show_work));
    if (session.model.offline) flags.max_cost = 0;  // it costs nothing, and has no price
    if (!suspended.id.empty()) (void)choice_to_continue(sources, session.model, suspended);
    sources.session = StoredModel();
    session.set_compaction = [sources, choice = session.model,
                              transport = transport_of(*runtime)](bub::BuiltinOptions& options) {
        set_compaction(options, sources, choice, transport);
    };
    session.models =
        std::make_shared<SessionModel>(std::move(sources), transport_of(*runtime), session.model);
    session.models->set_suspended(std::move(suspended));
    for (const std::string& warning : session.model.warnings) session.warnings.push_back(warning);

    session.system_prompt = flags.system_prompt.empty()
                                ? system_prompt(std::filesystem::current_path().string(), flags)
                                : flags.system_prompt;
    session.location = location_text(std::filesystem::current_path());
    TrustSettings trust{config.trust, flags.trust};
    if (const JsonObject* const stored = detail::object_member(endpoint, run_flags_key))
        trust.of_run = stored_trust(*stored);
    std::shared_ptr<Prompter> trust_prompter = parts.asks_for_trust ? prompter : nullptr;
    co_await add_project(session, std::move(trust), std::move(trust_prompter));
    std::optional<Toolbox> tools;
    if (!flags.no_tools) {
        std::shared_ptr<HitlChannel> channel = parts.channel;
        if (!channel) channel = std::make_shared<InMemoryChannel>();
        session.sandboxes =
            std::make_shared<const CommandSandboxes>(std::move(sandbox), std::string());
        if (std::string problem = session.sandboxes->problem(); !problem.empty())
            session.warnings.push_back(std::move(problem));
        tools = make_toolbox(flags, config, session.project, parts, make_spill(session),
                             std::move(channel), *session.sandboxes);
        session.approval = tools->approval;
        session.changes = tools->changes;
        if (!session.create) session.changes->follow(*session.tapes, tape_of(session));
        session.host = tools->host;
        if (session.host) {
            session.background_channel = std::make_shared<InMemoryChannel>();
            session.host->also_serve(session.background_channel);
        }
        session.channel = parts.channel;
        session.suspends = tools->suspends;
        session.shell.spill = tools->spill;
        session.shell.offers_unsandboxed = true;
        if (config.memory) {
            session.memory = bub::MemoryScope::workspace;
            tools->approval->add_rule(ApprovalRule::parse("memory: *"));
            // Notes that an earlier process has changed can be restored.
            const std::filesystem::path notes =
                bub::memory_directory(bub::default_bub_home(), std::filesystem::current_path(),
                                      session.session_id, session.memory);
            std::error_code none;
            if (std::filesystem::is_directory(notes, none)) (void)session.changes->notes(notes);
        }
    }
    session.environment = command_environment(config, flags.model);
    session.hooks = hooks_of(config, session.project);
    for (std::string& warning : hook_warnings(session.hooks))
        session.warnings.push_back(std::move(warning));
    session.telemetry = std::make_shared<Telemetry>(trace_settings(config.trace));
    if (tools && parts.with_servers) {
        std::vector<McpServerSettings> servers = all_servers(parts, session.project);
        const auto start_wait = config.mcp_start_wait.value_or(default_mcp_start_wait);
        session.servers = co_await connect_to_servers(session, std::move(servers),
                                                      flags.more_directories, start_wait);
        session.max_listed_mcp_tools =
            config.max_listed_mcp_tools.value_or(default_max_listed_mcp_tools);
        tools->servers = session.servers;
    }
    session.equip = equipment(flags, config.max_repeated_calls, std::move(tools));
    if (prompter) {
        session.confirm_command = [prompter](bub::CommandQuestion question) {
            return ask_consent(prompter, std::move(question.effect));
        };
    }
    co_return session;
}

}  // namespace cubepi::app
