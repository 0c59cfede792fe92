#include "chat_actions.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <bub/builtin/project_files.hpp>
#include <bub/builtin/reasoning_effort.hpp>
#include <bub/builtin/session_agents.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_text.hpp>

#include "config/config_file.hpp"
#include "config/paths.hpp"
#include "conversation/pipeline.hpp"
#include "conversation/tool_approval.hpp"
#include "mcp/mcp_hub.hpp"
#include "mcp/mcp_offers.hpp"
#include "sessions.hpp"
#include "shell_quoting.hpp"
#include "terminal/event_text.hpp"
#include "terminal/keys.hpp"
#include "terminal/terminal_stream.hpp"
#include "transcript.hpp"

namespace cubepi::app {

namespace {

/// Terminals ignore longer sequences; xterm's limit is among the smallest.
constexpr std::size_t clipboard_bytes = 50'000;

std::string local_minute() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm local = {};
    char text[32] = "";
    if (localtime_r(&now, &local)) (void)std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
    return text;
}

/// `~/x` is in the home directory; no name: one made of the session's name and the time.
std::filesystem::path export_path(std::string file, const std::string& session) {
    if (file.starts_with("~/")) return bub::home_directory() / file.substr(2);
    if (!file.empty()) return file;
    std::string name = session.empty() ? "chat" : session.substr(0, 60);
    for (char& c : name) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                           (c >= 'a' && c <= 'z') || c == '-' || c == '_';
        if (!plain) c = '-';
    }
    return "cubepi-" + name + "-" + local_minute() + ".md";
}

std::string row(std::string_view label, const std::string& value) {
    std::string text = "  " + std::string(label);
    text.resize(13, ' ');
    return text + value + "\n";
}

constexpr std::size_t longest_command = 60;  // columns

constexpr std::string_view no_tools = "There are no tools (--no-tools).\n";

std::string mode_text(ApprovalMode mode) {
    return std::string(name_of(mode).str()) + ": " + std::string(effect_of(mode).str());
}

std::string count_of(std::int64_t count, std::string_view what) {
    return count_text(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::string cost_of_session(const SessionUsage& usage) {
    if (usage.calls == 0) return "nothing yet";
    if (usage.unpriced == usage.calls)
        return "unknown (no list price for " + printable(usage.last_model) + ")";
    std::string text = money_text(usage.cost);
    if (usage.unpriced > 0) {
        text += ", without " + count_of(static_cast<std::int64_t>(usage.unpriced), "call") +
                " of unknown price";
    }
    return text;
}

constexpr std::int64_t bytes_per_token = 4;

std::int64_t tokens_in(std::size_t bytes) {
    return (static_cast<std::int64_t>(bytes) + bytes_per_token - 1) / bytes_per_token;
}

/// A picture costs about this much, not by its bytes.
constexpr std::int64_t picture_tokens = 1500;

std::int64_t tokens_of(const Message& message) {
    std::int64_t tokens = tokens_in(message.text().size());
    if (const AssistantMessage* answer = message.assistant()) {
        for (const AssistantContent& block : answer->content) {
            if (const auto* call = std::get_if<ToolCall>(&block))
                tokens += tokens_in(json_text(call->arguments).size() + call->name.str().size());
            if (const auto* thinking = std::get_if<ThinkingContent>(&block))
                tokens += tokens_in(thinking->thinking.size());
        }
    }
    const auto count_pictures = [&](const auto& content) {
        for (const auto& block : content) {
            if (std::get_if<ImageContent>(&block)) tokens += picture_tokens;
        }
    };
    if (const UserMessage* user = message.user()) count_pictures(user->content);
    if (const ToolResultMessage* result = message.tool_result()) count_pictures(result->content);
    return tokens;
}

/// The tokens of a part of the system prompt; 0 if it does not have the part.
std::int64_t tokens_within(const std::string& prompt, const std::string& part) {
    return !part.empty() && prompt.find(part) != std::string::npos ? tokens_in(part.size()) : 0;
}

std::string share_text(std::int64_t tokens, std::int64_t window) {
    if (window <= 0) return {};
    const std::int64_t tenths = 1000 * tokens / window;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
}

std::string padded_left(std::string text, std::size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

}  // namespace

TerminalText clipboard_sequence(std::string_view text) {
    return "\x1b]52;c;" + for_terminal(cubepi::detail::base64(text)) + "\x07";
}

ChatActions::ChatActions(Pipeline& pipeline, Renderer& renderer)
    : pipeline_(pipeline), renderer_(renderer) {}

Task<> ChatActions::perform(ChatAction action, std::string argument) {
    std::exception_ptr failure;
    try {
        co_await act(action, std::move(argument));
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return;
    if (is_cancellation(failure)) std::rethrow_exception(failure);
    renderer_.problem(bub::describe(failure));
}

Task<> ChatActions::act(ChatAction action, std::string argument) {
    switch (action) {
        case ChatAction::new_session: co_return begin_session();
        case ChatAction::status: co_return co_await show_status();
        case ChatAction::permissions:
            if (argument.empty()) co_return show_permissions();
            co_return withdraw_permission(argument);
        case ChatAction::mode:
            if (argument.empty()) co_return show_modes();
            co_return set_mode(argument);
        case ChatAction::cost: co_return co_await show_cost();
        case ChatAction::tasks:
            if (argument.starts_with("cancel "))
                co_return cancel_task(detail::trimmed(std::string_view(argument).substr(7)));
            if (!argument.empty()) co_return show_command(argument);
            co_return co_await show_tasks();
        case ChatAction::servers: co_return co_await show_servers(std::move(argument));
        case ChatAction::copy: co_return co_await copy_answer();
        case ChatAction::export_file: co_return co_await export_to(std::move(argument));
        case ChatAction::context: co_return co_await show_context();
        case ChatAction::rename: co_return co_await rename(std::move(argument));
        case ChatAction::resume:
        case ChatAction::theme:
        case ChatAction::pick_model:
        case ChatAction::pick_effort:
        case ChatAction::undo:
        case ChatAction::redo:
        case ChatAction::rewind:
        case ChatAction::fork:
        case ChatAction::diff:
        case ChatAction::help:
        case ChatAction::later:
        case ChatAction::details:
        case ChatAction::stop:
        case ChatAction::quit: break;
    }
}

Task<MessageList> ChatActions::conversation() const {
    return read_conversation(pipeline_.plan().tapes, tape_of(pipeline_.plan()));
}

void ChatActions::begin_session() {
    const std::string before =
        pipeline_.plan().name.empty() ? std::string() : resume_command(pipeline_.plan());
    const Pipeline::Ended ended = pipeline_.move_to(next_session(pipeline_.plan()));
    renderer_.begin_session(pipeline_.plan().name);
    const bool saved = static_cast<bool>(pipeline_.plan().create);
    std::string text = saved ? "New session; its first prompt names it.\n"
                             : "New session; the previous one was not saved.\n";
    if (!before.empty()) text += "Resume the previous one: " + before + "\n";
    const auto add_line = [&text](std::size_t count, std::string_view what) {
        if (count > 0)
            text += "Ended " + count_of(static_cast<std::int64_t>(count), what) +
                    " of the previous one.\n";
    };
    add_line(ended.commands, "background command");
    add_line(ended.agents, "background sub-agent");
    renderer_.print(text);
}

Task<> ChatActions::show_status() {
    const SessionPlan& plan = pipeline_.plan();
    const MessageList messages = co_await conversation();
    const std::string effort = co_await bub::stored_effort(plan.tapes, tape_of(plan));
    const SessionUsage usage =
        co_await read_usage(plan.tapes, tape_of(plan), pipeline_.model().model.spec());
    std::string text = row("model", printable(pipeline_.model().where));
    text += row("effort", printable(effort));
    text +=
        row("session", (plan.create         ? "new"
                        : plan.name.empty() ? "not saved"
                                            : visible(plan.name)) +
                           ", " + count_of(static_cast<std::int64_t>(messages.size()), "message"));
    text += row("directory", printable(std::filesystem::current_path().string()));
    const std::int64_t window = shown_spec(pipeline_.model())->context_window.value_or(0);
    std::string context = count_of(usage.context, "token");
    if (window > 0) {
        context += " of " + count_text(window) + " (" +
                   std::to_string(100 * usage.context / window) + "%)";
    }
    if (window == 0)
        context +=
            "; the window is unknown, compacted only when a request is refused. To set it: "
            "context_window in the configuration";
    text += row("context", context);
    if (plan.approval) text += row("mode", mode_text(plan.approval->mode()));
    if (!plan.approval) {
        text += row("tools", "none (--no-tools)");
    } else if (current_permissions().empty()) {
        text += row("rules", "none");
    } else {
        std::string_view label = "rules";
        for (const Permission& one : current_permissions())
            text += row(std::exchange(label, ""), printable(one.text()));
    }
    std::string_view label = "commands";
    for (const ShellSessions::Summary& one : pipeline_.background_commands()) {
        text += row(std::exchange(label, ""), one.id + (one.running ? " runs: " : " has ended: ") +
                                                  one_line(visible(one.command), longest_command));
    }
    renderer_.print(text);
}

namespace {

/// "a, b and 3 more"
std::string list_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 12;
    std::string text;
    const std::size_t shown = names.size() > most + 1 ? most : names.size();
    for (std::size_t i = 0; i < shown; ++i)
        text += (i == 0 ? "" : ", ") + one_line(printable(names[i]), 60);
    if (shown < names.size()) text += " and " + std::to_string(names.size() - shown) + " more";
    return text;
}

}  // namespace

Task<> ChatActions::show_servers(std::string argument) {
    constexpr auto longest_wait = std::chrono::seconds(10);
    const std::shared_ptr<McpHub> servers = pipeline_.plan().servers;
    if (!servers) {
        renderer_.print("No MCP servers are configured; `cubepi mcp add` adds one.\n");
        co_return;
    }
    if (!argument.empty()) {
        std::string_view name = argument;
        if (!name.starts_with("reconnect"))
            co_return renderer_.problem("/mcp takes nothing, or `reconnect NAME`");
        name = detail::trimmed(name.substr(std::string_view("reconnect").size()));
        const bool is_found = co_await servers->reconnect(std::string(name), longest_wait);
        if (!is_found) {
            co_return renderer_.problem("there is no MCP server '" + visible(std::string(name)) +
                                        "'; /mcp lists them");
        }
    }
    constexpr auto prompts_wait = std::chrono::seconds(3);
    const std::vector<McpPromptName> prompts = co_await list_mcp_prompts(servers, prompts_wait);
    const std::vector<McpResourceOffer> resources =
        co_await list_mcp_resources(servers, prompts_wait);
    const std::vector<AgentTool> tools = servers->tools();
    std::string text;
    for (const McpServerStatus& one : servers->status()) {
        std::string state = one.program.empty()
                                ? std::string("not connected")
                                : count_of(static_cast<std::int64_t>(one.tools), "tool") + ", " +
                                      printable(one.program);
        if (one.is_connecting) state += ", connecting";
        text += row(printable(one.name), state);
        text += row("", one_line(printable(one.place), 70));
        if (!one.problem.empty()) text += row("", one_line(printable(one.problem), 200));
        std::vector<std::string> names;
        for (const AgentTool& tool : tools) {
            // The label is "SERVER: TOOL".
            if (mcp_server_of(tool) == one.name)
                names.push_back(
                    tool.label.substr(std::min(one.name.size() + 2, tool.label.size())));
        }
        if (!names.empty()) text += row("", "tools: " + list_of(names));
        names.clear();
        for (const McpPromptName& prompt : prompts) {
            if (prompt.server == one.name) names.push_back(prompt.text);
        }
        if (!names.empty()) text += row("", "prompts: " + list_of(names));
        names.clear();
        for (const McpResourceOffer& resource : resources) {
            if (resource.server != one.name) continue;
            const bool is_template = !resource.uri_template.empty();
            names.push_back(is_template ? "@" + one.name + ":" + resource.uri_template
                                        : resource.text);
        }
        if (!names.empty()) text += row("", "resources: " + list_of(names));
    }
    renderer_.print(text);
}

std::vector<Permission> ChatActions::current_permissions() const {
    const SessionPlan& plan = pipeline_.plan();
    if (!plan.approval) return {};
    return permissions(plan.approval->rules(), read_config(config_path()), plan.project);
}

void ChatActions::show_permissions() {
    const std::shared_ptr<ToolApproval>& approval = pipeline_.plan().approval;
    if (!approval) return renderer_.print(no_tools);
    std::string text;
    if (approval->mode() != ApprovalMode::ask) text = "Mode " + mode_text(approval->mode()) + ".\n";
    const std::vector<Permission> list = current_permissions();
    text += permissions_text(list);
    const std::string_view none =
        approval->mode() == ApprovalMode::ask ? no_permission : "There are no rules.\n";
    text += list.empty() ? none : "To withdraw one: /permissions remove NUMBER\n";
    renderer_.print(text);
}

void ChatActions::show_modes() {
    const std::shared_ptr<ToolApproval>& approval = pipeline_.plan().approval;
    if (!approval) return renderer_.print(no_tools);
    std::string text;
    for (const ApprovalMode mode : approval_modes)
        text += (mode == approval->mode() ? "* " : "  ") + mode_text(mode) + "\n";
    renderer_.print(text + "To change it: /mode NAME, or " +
                    KeyBindings::hint(KeyCode::back_tab, "a key for mode") + "\n");
}

void ChatActions::set_mode(const std::string& name) {
    const std::shared_ptr<ToolApproval>& approval = pipeline_.plan().approval;
    if (!approval) return renderer_.print(no_tools);
    const std::optional<ApprovalMode> mode = mode_named(name);
    if (!mode) {
        throw Error(ErrorCode::invalid_argument,
                    "'" + name + "' is not a mode; use ask, accept-edits, plan or all");
    }
    approval->set_mode(*mode);
    renderer_.show_mode(*mode);
    renderer_.print("Mode " + mode_text(*mode) + ".\n");
}

void ChatActions::withdraw_permission(const std::string& argument) {
    const std::shared_ptr<ToolApproval>& approval = pipeline_.plan().approval;
    std::string_view name = argument;
    if (name.starts_with("remove ")) name = detail::trimmed(name.substr(7));
    const Permission found = permission_named(current_permissions(), name, "/permissions");
    const bool was_saved = remove_saved(found);
    if (found.effect == RuleEffect::allow) {
        approval->withdraw_rule(found.rule);
    } else {
        approval->withdraw_rule(RestrictingRule{found.rule, found.effect, found.source});
    }
    renderer_.print("Withdrawn" + std::string(was_saved ? ", also from the configuration" : "") +
                    ": " + visible(found.rule.text()) + "\n");
}

Task<> ChatActions::show_tasks() {
    const JsonObject extra =
        co_await bub::stored_extra(pipeline_.plan().tapes, tape_of(pipeline_.plan()));
    std::string text;
    for (const ShellSessions::Summary& one : pipeline_.background_commands()) {
        text += row(one.id, (one.running ? "runs: " : "has ended: ") +
                                one_line(visible(one.command), longest_command));
    }
    if (!text.empty())
        text = "Commands:\n" + text + "Output: /tasks ID; to end one: /tasks cancel ID\n";
    renderer_.print(text + bub::tasks_text(pipeline_.tasks(), extra) + "\n");
}

/// Shows the output of a background command.
void ChatActions::show_command(const std::string& id) {
    const std::shared_ptr<ShellSessions::Command> command = pipeline_.background_command(id);
    if (!command)
        return renderer_.problem("there is no background command '" + visible(id) +
                                 "'; /tasks lists them");
    PagerItem item;
    item.title = for_terminal(
        one_line(visible(command->id() + (command->finished() ? " has ended: " : " runs: ") +
                         command->command_line()),
                 longest_command));
    item.text = command->output(0);
    if (item.text.empty()) item.text = "(no output yet)\n";
    std::vector<PagerItem> items;
    items.push_back(std::move(item));
    renderer_.show_items(std::move(items));
}

void ChatActions::cancel_task(std::string_view id) {
    if (const auto command = pipeline_.background_command(std::string(id))) {
        if (command->finished()) return renderer_.problem("this command has ended already");
        command->kill();
        return renderer_.print("The command is being ended.\n");
    }
    if (!pipeline_.cancel_task(id))
        return renderer_.problem("nothing with this id runs; /tasks lists what does");
    renderer_.print("The task is being cancelled.\n");
}

Task<> ChatActions::show_cost() {
    const SessionUsage usage =
        co_await read_usage(pipeline_.plan().tapes, tape_of(pipeline_.plan()),
                            pipeline_.model().model.spec(), pipeline_.tasks());
    std::string text =
        row("calls", count_text(static_cast<std::int64_t>(usage.calls)) + " of a model");
    text += row("tokens",
                count_text(usage.tokens_in) + " in, " + count_text(usage.tokens_out) + " out");
    text += row("cost", cost_of_session(usage));
    renderer_.print(text);
}

Task<> ChatActions::copy_answer() {
    const MessageList messages = co_await conversation();
    const std::string text = last_answer(messages);
    if (text.empty()) {
        renderer_.problem("there is no answer to copy.");
    } else if (!renderer_.has_control()) {
        renderer_.problem("this terminal has no clipboard sequence; write a file: /export");
    } else if (text.size() > clipboard_bytes) {
        renderer_.problem("the answer has " + count_text(static_cast<std::int64_t>(text.size())) +
                          " bytes; terminals take " +
                          count_text(static_cast<std::int64_t>(clipboard_bytes)) +
                          ". Write a file: /export");
    } else {
        renderer_.write_control(clipboard_sequence(text));
        renderer_.print("Sent " + count_of(static_cast<std::int64_t>(text.size()), "byte") +
                        " to the terminal's clipboard (OSC 52; the terminal must allow it).\n");
    }
}

Task<> ChatActions::export_to(std::string file) {
    const SessionPlan& plan = pipeline_.plan();
    const MessageList messages = co_await conversation();
    if (messages.empty()) co_return renderer_.problem("there is nothing to export yet.");
    const JsonObject state = co_await plan.tapes->read_state(tape_of(plan));
    std::string title = session_title(state);
    if (title.empty()) title = title_of(messages);
    const std::filesystem::path path = export_path(std::move(file), plan.name);
    std::ofstream out;
    try {
        out = create_file(path, false);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) throw;
        throw Error(ErrorCode::invalid_argument,
                    std::string(error.what()) + "; name another: /export FILE");
    }
    SessionPageHead head;
    head.title = title.empty() ? "Conversation" : title;
    head.details = (plan.name.empty() ? "" : plan.name + " · ") +
                   count_of(static_cast<std::int64_t>(messages.size()), "message") + " · " +
                   std::filesystem::current_path().string();
    const bool as_page = path.extension() == ".html" || path.extension() == ".htm";
    out << (as_page ? session_page(messages, head) : to_markdown(messages, head.title));
    out.close();
    if (!out) throw Error(ErrorCode::io, "'" + path.string() + "' was not written completely");
    renderer_.print("Wrote " + count_of(static_cast<std::int64_t>(messages.size()), "message") +
                    " to " + printable(path.string()) + "\n");
}

Task<> ChatActions::rename(std::string title) {
    const SessionPlan& plan = pipeline_.plan();
    if (plan.name.empty())
        co_return renderer_.problem("this session is not saved yet; its first prompt saves it.");
    std::string stored = clean_title(title);
    co_await set_session_title(plan.tapes, tape_of(plan), stored);
    renderer_.print("The title of this session is '" + stored + "'; its name stays " +
                    visible(plan.name) + ".\n");
    renderer_.name_session(stored);
}

Task<> ChatActions::show_context() {
    const SessionPlan& plan = pipeline_.plan();
    const NextRequest next = co_await request_for(pipeline_, "next");
    if (!next.request) {
        const bool waits = next.failure.exit_code == exit_waiting;
        co_return renderer_.problem(
            "the next request is not known: " +
            (waits ? "the session waits for an answer" : next.failure.text));
    }
    const SessionUsage usage =
        co_await read_usage(plan.tapes, tape_of(plan), pipeline_.model().model.spec());
    const std::filesystem::path directory = std::filesystem::current_path();
    PromptFiles files;
    files.instructions = bub::read_instructions(directory, bub::InstructionScope::user).text;
    const bub::FoundSkills skills = bub::find_skills(bub::skill_directories(directory, true, {}));
    files.skills = bub::skills_block(skills.skills, {});
    const RequestParts parts = parts_of(*next.request, 1, files, usage.context);
    const std::int64_t window = shown_spec(pipeline_.model())->context_window.value_or(0);
    renderer_.print(context_text(parts, window, usage.context > 0));
}

RequestParts parts_of(const ModelRequest& request, std::size_t omitted, const PromptFiles& files,
                      std::int64_t counted) {
    RequestParts parts;
    const std::string prompt(request.system_prompt.str());
    parts.instructions = tokens_within(prompt, files.instructions);
    parts.skills = tokens_within(prompt, files.skills);
    parts.system_prompt = tokens_in(prompt.size()) - parts.instructions - parts.skills;
    if (request.tools) {
        for (const ToolDefinition& tool : *request.tools) {
            parts.tools += tokens_in(tool.name.size() + tool.description.size() +
                                     (tool.parameters ? json_text(*tool.parameters).size() : 0));
            ++parts.tool_count;
        }
    }
    const std::size_t count =
        request.messages.size() > omitted ? request.messages.size() - omitted : 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Message& message = request.messages[i];
        const std::int64_t tokens = tokens_of(message);
        if (message.role() == Role::user && message.text().starts_with(summary_prefix)) {
            parts.summary += tokens;
            continue;
        }
        ++parts.message_count;
        if (message.role() == Role::user) parts.prompts += tokens;
        if (message.role() == Role::assistant) parts.answers += tokens;
        if (message.role() == Role::tool_result) parts.results += tokens;
    }
    std::int64_t* const all[] = {&parts.system_prompt, &parts.instructions, &parts.skills,
                                 &parts.tools,         &parts.summary,      &parts.prompts,
                                 &parts.answers,       &parts.results};
    for (const std::int64_t* one : all) parts.total += *one;
    if (counted <= 0 || parts.total <= 0) return parts;
    for (std::int64_t* one : all)
        *one = static_cast<std::int64_t>(static_cast<double>(*one) * static_cast<double>(counted) /
                                         static_cast<double>(parts.total));
    parts.total = counted;
    return parts;
}

std::string context_text(const RequestParts& parts, std::int64_t window, bool is_counted) {
    std::string text = "The next request has about " + count_text(parts.total) + " tokens";
    if (window > 0)
        text += ", " + share_text(parts.total, window) + " of the window of " + count_text(window);
    text += is_counted ? " (as the server counted; the parts are estimates).\n"
                       : " (estimated; the server has not counted yet).\n";
    const auto row = [&](const char* label, std::int64_t tokens, const std::string& more = {}) {
        if (tokens <= 0) return;
        std::string line = "  " + std::string(label);
        line.resize(18, ' ');
        line += padded_left(count_text(tokens), 11) + padded_left(share_text(tokens, window), 8);
        text += line + (more.empty() ? "" : "  " + more) + "\n";
    };
    row("system prompt", parts.system_prompt);
    row("instructions", parts.instructions, "AGENTS.md");
    row("skills", parts.skills);
    row("tools", parts.tools,
        std::to_string(parts.tool_count) + (parts.tool_count == 1 ? " tool" : " tools"));
    row("summary", parts.summary, "in place of earlier messages");
    row("prompts", parts.prompts);
    row("answers", parts.answers, "with their calls");
    row("tool results", parts.results);
    if (window > parts.total) row("free", window - parts.total);
    return text;
}

}  // namespace cubepi::app
