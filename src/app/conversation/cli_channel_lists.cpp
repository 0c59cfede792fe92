#include "cli_channel.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <bub/builtin/project_files.hpp>
#include <bub/builtin/reasoning_effort.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>

#include "../config/config_file.hpp"
#include "../config/paths.hpp"
#include "../mcp/mcp_offers.hpp"
#include "../shell_quoting.hpp"
#include "../terminal/console.hpp"
#include "../terminal/session_picker.hpp"
#include "attachments.hpp"

// The lists of a chat: what the prompt offers while the user types, and what the user picks on the whole screen.

namespace cubepi::app {

void CliChannel::set_up_prompt() {
    PopupSources sources;
    sources.commands = chat_completions(abilities());
    sources.want_files = [this] { want_files(); };
    sources.want_resources = [this](const std::string& word) {
        if (work_) work_->spawn(resources_.complete(word));
    };
    console_.set_sources(std::move(sources));
    console_.set_picture_test(picture_word);
}

/// Lists the files and resources again; until then the popup has those of the last time.
void CliChannel::want_files() {
    if (!work_) return;
    work_->spawn(resources_.list());
    if (!std::exchange(listing_files_, true)) work_->spawn(list_files());
}

Task<> CliChannel::list_files() {
    Outcome<std::vector<std::string>> names =
        co_await outcome_of(project_names(Runtime::standard(), std::filesystem::current_path()));
    listing_files_ = false;
    if (!names) {
        if (names.cancelled()) names.rethrow();
        co_return;  // the user can type the name
    }
    console_.set_files(std::make_shared<const std::vector<std::string>>(std::move(names).value()));
}

/// The skills whose names the popup offers after `$`.
Task<> CliChannel::list_skills() {
    const bool is_trusted = conversation_.pipeline().plan().trusts_project;
    auto work = [directory =
                     is_trusted ? std::filesystem::current_path() : std::filesystem::path()] {
        return bub::find_skills(bub::skill_directories(directory, true, {}));
    };
    const bub::FoundSkills found = co_await offload(*Runtime::standard()->workers, std::move(work));
    std::vector<Command> skills;
    for (const bub::Skill& skill : found.skills) {
        Command entry;
        entry.name = "$" + skill.name;
        entry.help = skill.description;
        skills.push_back(std::move(entry));
    }
    console_.set_skills(std::move(skills));
}

/// The prompts of MCP servers, which the popup offers after `/`.
Task<> CliChannel::list_server_prompts() {
    constexpr auto longest_wait = std::chrono::seconds(15);
    const std::shared_ptr<McpHub> servers = conversation_.plan().servers;
    if (!servers) co_return;
    const std::vector<McpPromptName> prompts = co_await list_mcp_prompts(servers, longest_wait);
    if (prompts.empty()) co_return;
    std::vector<Command> commands = chat_completions(abilities());
    for (const McpPromptName& prompt : prompts) {
        Command entry;
        entry.name = prompt.text + (prompt.takes_arguments ? " " : "");
        entry.help = prompt.help;
        entry.needs_argument = prompt.needs_arguments;
        commands.push_back(std::move(entry));
    }
    console_.set_commands(std::move(commands));
}

/// The list of sessions may have changed the title of this one.
Task<> CliChannel::show_title() {
    const SessionPlan& plan = conversation_.plan();
    if (plan.name.empty()) co_return;
    const std::string title = session_title(co_await plan.tapes->read_state(tape_of(plan)));
    if (title.empty()) co_return;
    view_.name_session(title);
    console_.attention().set_title(title);
}

/// Opens another session in place of this one. Without a name the user picks it.
Task<> CliChannel::resume(std::string wanted) {
    if (running_ || !pending_.empty())
        co_return view_.problem("an answer is in progress; stop it with Esc before /resume");
    const SavedSessions saved = SavedSessions::here();
    view_.show_work(TerminalView("reading the sessions; Esc stops"));
    ListedSession picked;
    std::exception_ptr failure;
    try {
        if (wanted.empty()) {
            std::optional<ListedSession> chosen =
                co_await pick_session(parts_.console, saved, false, tape_of(conversation_.plan()));
            co_await show_title();
            if (chosen) picked = std::move(*chosen);
        } else {
            Task<std::string> finding = find_session_named(saved, std::move(wanted));
            std::optional<std::string> found =
                co_await unless_interrupted(parts_.console, std::move(finding));
            if (found) picked.name = std::move(*found);
        }
    } catch (...) {
        failure = std::current_exception();
    }
    view_.show_work({});
    if (failure) co_return show_failure(failure);
    if (picked.name.empty()) co_return;
    if (!picked.is_here) {
        co_return view_.note("That session belongs to another directory: cubepi resume " +
                             shell_word(picked.name) + " -C " + shell_word(picked.workspace));
    }
    if (picked.name == conversation_.plan().name)
        co_return view_.note("This is that session already.");
    if (running_ || !pending_.empty())
        co_return view_.problem("an answer has begun meanwhile; stop it with Esc before /resume");
    leaving_ = true;
    parts_.switch_to(std::move(picked.name));
}

/// Lets the user pick the model of the next turns.
Task<> CliChannel::pick_model() {
    const std::shared_ptr<SessionModel> models = conversation_.plan().models;
    view_.show_work(TerminalView("asking for the models; Esc stops"));
    Task<std::optional<SessionModel::Offer>> asking =
        unless_interrupted(parts_.console, models->offer());
    Outcome<std::optional<SessionModel::Offer>> answer = co_await outcome_of(std::move(asking));
    view_.show_work({});
    if (!answer) co_return show_failure(answer.failure());
    const std::optional<SessionModel::Offer> offered = std::move(answer).value();
    if (!offered) co_return;
    if (!offered->problem.empty()) view_.problem(offered->problem);
    PickList list;
    list.heading = offered->heading;
    if (!offered->providers.empty())
        list.heading += "; of " + offered->providers + ": /model PROVIDER/ID";
    const auto add = [&](const std::string& id) {
        PickList::Row row;
        row.text = id;
        row.is_current = id == offered->current;
        list.rows.push_back(std::move(row));
    };
    const std::vector<std::string>& ids = offered->ids;
    const bool is_listed = std::find(ids.begin(), ids.end(), offered->current) != ids.end();
    if (!is_listed && !offered->current.empty()) add(offered->current);
    for (const std::string& id : ids) add(id);
    Task<> picking = pick_argument("/model ", std::move(list));
    co_await std::move(picking);
}

/// Lets the user pick how hard the model thinks in the next turns.
Task<> CliChannel::pick_effort() {
    const SessionPlan& plan = conversation_.plan();
    const std::string current = co_await bub::stored_effort(plan.tapes, tape_of(plan));
    PickList list;
    list.heading = "How hard the model thinks";
    for (const std::string_view effort : bub::reasoning_efforts) {
        PickList::Row row;
        row.text = effort;
        row.is_current = effort == current;
        if (effort == bub::reasoning_efforts.front()) row.note = "the model decides";
        list.rows.push_back(std::move(row));
    }
    Task<> picking = pick_argument("/effort ", std::move(list));
    co_await std::move(picking);
}

/// Changes the colors, also for later chats. Without a name the user picks it.
Task<> CliChannel::choose_theme(std::string name) {
    Attention& window = console_.attention();
    if (name.empty()) {
        PickList list;
        list.heading = "Colors of the chat";
        for (const auto& [word, theme] : theme_names) {
            PickList::Row row;
            row.text = word;
            row.is_current = theme == window.theme();
            if (theme == ThemeKind::automatic) row.note = "by the background of the terminal";
            list.rows.push_back(std::move(row));
        }
        Task<std::string> picking = picked_text(std::move(list));
        name = co_await std::move(picking);
        if (name.empty()) co_return;
    }
    const auto* const found = std::find_if(theme_names.begin(), theme_names.end(),
                                           [&](const auto& one) { return one.first == name; });
    if (found == theme_names.end())
        co_return view_.problem("'" + visible(name) + "' is not a theme; use auto, dark or light");
    window.set_theme(found->second);
    try {
        const JsonObject before = config_values(config_path());
        JsonObject wanted = before;
        wanted["theme"] = name;
        save_config(config_path(), before, wanted);
        view_.note("Theme " + name + ", saved in " + config_path().string() + ".");
    } catch (const Error& error) {
        view_.note("Theme " + name + " for this chat; it is not saved: " + error.what());
    }
}

/// Lets the user pick a row. Empty: none, or the current one.
Task<std::string> CliChannel::picked_text(PickList list) {
    const PickList shown = list;
    Task<std::optional<std::size_t>> picking = console_.pick(std::move(list));
    const std::optional<std::optional<std::size_t>> ended =
        co_await unless_interrupted(parts_.console, std::move(picking));
    const std::optional<std::size_t> picked = ended.value_or(std::nullopt);
    std::string text;
    if (picked && !shown.rows[*picked].is_current) text = shown.rows[*picked].text;
    co_return text;
}

/// Lets the user pick the argument of a command, and enters the command.
Task<> CliChannel::pick_argument(std::string command, PickList list) {
    Task<std::string> picking = picked_text(std::move(list));
    const std::string picked = co_await std::move(picking);
    if (picked.empty()) co_return;
    command += picked;
    const ChatInput input = read_chat_input(command, abilities());
    if (input.kind != ChatInput::Kind::pipeline) co_return;
    Pending pending;
    pending.later = true;
    pending.text = input.text;
    pending.typed = std::move(command);
    enter(std::move(pending));
}

}  // namespace cubepi::app
