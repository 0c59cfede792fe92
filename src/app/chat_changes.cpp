#include "chat_changes.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/process/environment.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/line_diff.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/workspace.hpp>

#include "conversation/attachments.hpp"
#include "project/git.hpp"
#include "saved_sessions.hpp"
#include "sessions.hpp"
#include "shell_quoting.hpp"
#include "terminal/event_text.hpp"
#include "terminal/full_screen.hpp"
#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

// The changes of files as diffs, an item per file.

constexpr std::size_t max_file = std::size_t{1} << 20;
constexpr std::size_t max_untracked = 200;
/// The tree of no files, as which a repository without a commit is compared.
constexpr const char* empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

bool is_in_repository(std::filesystem::path directory) {
    for (;;) {
        std::error_code failed;
        if (std::filesystem::exists(directory / ".git", failed)) return true;
        if (directory == directory.parent_path()) return false;
        directory = directory.parent_path();
    }
}

PagerItem item_of(TerminalText title, std::string text, std::string_view path = {}) {
    PagerItem item;
    item.path = path;
    item.title = std::move(title);
    item.is_diff = text.starts_with("@@");
    item.text = std::move(text);
    return item;
}

/// The name of a file after "+++ b/" or "--- a/"; a tab ends a name with a blank in it.
std::string_view name_in(std::string_view line) {
    return line.size() > 6 ? line.substr(6, line.find('\t') - 6) : std::string_view();
}

/// Makes an item of the part of a diff that begins with "diff --git ".
PagerItem item_of_part(std::string_view part) {
    const std::size_t hunks = part.find("\n@@");
    const std::string_view head = part.substr(0, hunks);
    std::string_view name;
    std::string_view state;
    std::string notes;
    for (const std::string_view line : parts_of(head, '\n')) {
        if (line.starts_with("diff --git ")) {
            const std::size_t second = line.rfind(" b/");
            if (second != line.npos) name = line.substr(second + 3);
        }
        if (line.starts_with("+++ b/") || (line.starts_with("--- a/"))) name = name_in(line);
        if (line.starts_with("new file")) state = " (new)";
        if (line.starts_with("deleted file")) state = " (deleted)";
        if (line.starts_with("old mode") || line.starts_with("new mode") ||
            line.starts_with("rename ") || line.starts_with("Binary files")) {
            notes += std::string(line) + "\n";
        }
    }
    std::string text = hunks == part.npos ? std::string() : std::string(part.substr(hunks + 1));
    if (text.empty()) text = notes.empty() ? "(empty)\n" : std::move(notes);
    return item_of(for_terminal(name) + for_terminal(state), std::move(text), name);
}

void add_tracked(std::vector<PagerItem>& items, std::string_view diff) {
    constexpr std::string_view begin = "diff --git ";
    while (diff.starts_with(begin)) {
        const std::size_t next = diff.find("\ndiff --git ");
        items.push_back(item_of_part(diff.substr(0, next)));
        if (next == diff.npos) return;
        diff.remove_prefix(next + 1);
    }
}

std::optional<std::string> content_of(Workspace& workspace, const std::string& path,
                                      std::string& problem) {
    try {
        return workspace.read(path, max_file);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) problem = error.what();
        return std::nullopt;
    }
}

/// The difference of two versions, of which one may not exist.
PagerItem compared(const std::string& path, const std::optional<std::string>& before,
                   const std::optional<std::string>& after) {
    const std::string old_text = before.value_or(std::string());
    const std::string new_text = after.value_or(std::string());
    TerminalText title = for_terminal(path);
    if (!before) title += " (new)";
    if (!after) title += " (deleted)";
    const bool binary =
        cubepi::detail::looks_binary(old_text) || cubepi::detail::looks_binary(new_text);
    if (binary) return item_of(std::move(title), "(not a text)\n");
    std::string diff = cubepi::detail::diff_lines(old_text, new_text).text;
    if (diff.empty()) diff = "(empty)\n";
    return item_of(std::move(title), std::move(diff), path);
}

void add_untracked(std::vector<PagerItem>& items, std::string_view names,
                   const std::filesystem::path& directory) {
    LocalWorkspace workspace(directory, WorkspacePolicy().read_only());
    std::size_t count = 0;
    for (const std::string_view name : parts_of(names, '\0')) {
        if (++count > max_untracked) continue;
        std::string problem;
        const std::optional<std::string> content =
            content_of(workspace, std::string(name), problem);
        items.push_back(content ? compared(std::string(name), std::nullopt, content)
                                : item_of(for_terminal(name) + " (new)", problem + "\n"));
    }
    if (count > max_untracked) {
        items.push_back(item_of(TerminalText("more files that git does not track"),
                                std::to_string(count - max_untracked) + " of them\n"));
    }
}

/// Returns the difference between the last commit and the files of a git repository below `directory`, with the files that git neither
/// tracks nor ignores. Absent: there is no repository, or git cannot be run. Nothing that the configuration of the repository names is
/// executed. Throws Error if git fails.
Task<std::optional<std::vector<PagerItem>>> git_changes(std::filesystem::path directory,
                                                        EnvironmentPolicy environment) {
    std::optional<std::vector<PagerItem>> items;
    if (!is_in_repository(directory)) co_return items;
    GitProcess git(directory.string(), std::move(environment));
    GitOutput head;
    bool is_installed = true;
    std::vector<std::string> arguments = {"rev-parse", "--verify", "-q", "HEAD"};
    try {
        head = co_await git.run(std::move(arguments));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
        is_installed = false;
    }
    if (!is_installed) co_return items;
    co_await disarm_filters(git);
    std::string base(cubepi::detail::trimmed(head.text));
    if (!head.ok || base.empty()) base = empty_tree;
    arguments = {"--no-pager",
                 "diff",
                 "--no-color",
                 "--no-ext-diff",
                 "--no-textconv",
                 "--no-renames",
                 "--ignore-submodules=dirty",
                 "--relative",
                 "--src-prefix=a/",
                 "--dst-prefix=b/",
                 base,
                 "--",
                 "."};
    const GitOutput tracked = co_await git.run(std::move(arguments));
    if (!tracked.ok)
        throw Error(ErrorCode::io, "git diff failed: " + tracked.errors.substr(0, 500));
    arguments = {"ls-files", "--others", "--exclude-standard", "-z", "--", "."};
    const GitOutput untracked = co_await git.run(std::move(arguments));
    items.emplace();
    add_tracked(*items, tracked.text);
    if (tracked.cut && !items->empty())
        items->back().text += "[the rest is not shown: the diff is too long]\n";
    add_untracked(*items, untracked.text, directory);
    co_return items;
}

/// Returns the difference between earlier versions of files and the present ones. Blocks.
std::vector<PagerItem> changes_since(const std::vector<EarlierFile>& files, Workspace& workspace) {
    std::vector<PagerItem> items;
    for (const EarlierFile& file : files) {
        std::string problem;
        const std::optional<std::string> now = content_of(workspace, file.path, problem);
        if (problem.empty() && file.existed && !file.content)
            problem = "There is no copy of it from before.";
        if (!problem.empty()) {
            items.push_back(item_of(for_terminal(file.path), problem + "\n"));
        } else if (now != file.content) {
            items.push_back(compared(file.path, file.content, now));
        }
    }
    return items;
}

using FileOutcome = RestoredFile::Outcome;

constexpr std::size_t shown_prompts = 1000;
constexpr std::size_t longest_prompt = 200;  // columns
constexpr std::size_t shown_files = 40;
constexpr std::string_view not_covered =
    "Changes that commands (shell) have made are not covered.\n";

std::string count_of(std::size_t count, std::string_view what) {
    return count_text(static_cast<std::int64_t>(count)) + " " + std::string(what) +
           (count == 1 ? "" : "s");
}

std::string quoted(const std::string& prompt) {
    if (prompt.empty()) return "a prompt that is not in this conversation";
    return "“" + visible(one_line(without_attachments(prompt), 60)) + "”";
}

bool has_changed(const RestoredFile& file) {
    return file.outcome == FileOutcome::restored || file.outcome == FileOutcome::created ||
           file.outcome == FileOutcome::removed;
}

std::string_view word_of(FileOutcome outcome) {
    switch (outcome) {
        case FileOutcome::restored: return "restored";
        case FileOutcome::created: return "created";
        case FileOutcome::removed: return "removed";
        case FileOutcome::unchanged: return "unchanged";
        case FileOutcome::conflict:
        case FileOutcome::failed: break;
    }
    return "left";
}

std::string line_of(const RestoredFile& file) {
    std::string text = "  " + std::string(word_of(file.outcome));
    text.resize(13, ' ');
    text += visible(file.path);
    if (!file.reason.empty()) text += ": " + one_line(visible(file.reason), 200);
    if (file.is_partial && has_changed(file))
        text += " (as it was after something else had changed it)";
    return text + "\n";
}

/// The name of a session without the number that makes it unique.
std::string base_name(const std::string& name) {
    const std::size_t dash = name.rfind('-');
    const bool numbered = dash != std::string::npos && dash > 0 && dash + 1 < name.size() &&
                          name.find_first_not_of("0123456789", dash + 1) == std::string::npos;
    return numbered ? name.substr(0, dash) : name;
}

Choice choice(char key, TerminalView label) {
    Choice made;
    made.key = key;
    made.label = label;
    return made;
}

}  // namespace

/// The changes of one prompt of the conversation, or of one that is not in it.
struct ChangeActions::Group {
    /// Twice the index of the prompt in the conversation; one more for a prompt after it that is not there.
    std::ptrdiff_t order = 0;
    std::string text = {};
    std::vector<std::string> runs = {};
    std::vector<std::string> files = {};  // with changes that are not taken back
};

struct ChangeActions::State {
    std::vector<EarlierPrompt> prompts = {};
    std::vector<Group> groups = {};  // by order
    std::uint64_t dropped = 0;

    void add(const PromptChanges& changes, std::ptrdiff_t& last) {
        const auto prompt =
            std::find_if(prompts.begin(), prompts.end(), [&](const EarlierPrompt& one) {
                return std::find(one.runs.begin(), one.runs.end(), changes.prompt) !=
                       one.runs.end();
            });
        const bool known = prompt != prompts.end();
        if (known) last = 2 * (prompt - prompts.begin());
        const std::ptrdiff_t order = known ? last : last + 1;
        const auto same = [&](const Group& one) {
            return one.order == order && (known || one.runs.front() == changes.prompt);
        };
        auto group = std::find_if(groups.begin(), groups.end(), same);
        if (group == groups.end()) {
            const auto after =
                std::find_if(groups.begin(), groups.end(),
                             [order](const Group& one) { return one.order > order; });
            group = groups.insert(after, Group());
            group->order = order;
            if (known) group->text = prompt->text;
        }
        if (std::find(group->runs.begin(), group->runs.end(), changes.prompt) == group->runs.end())
            group->runs.push_back(changes.prompt);
        group->files.insert(group->files.end(), changes.files.begin(), changes.files.end());
    }
    /// The newest first.
    PickList earlier_prompts() const {
        PickList list;
        list.heading = "Return to the state before a prompt";
        const std::size_t count = prompts.size();
        for (std::size_t i = 1; i <= std::min(count, shown_prompts); ++i) {
            std::size_t files = 0;
            for (const Group& group : groups) {
                if (group.order == 2 * static_cast<std::ptrdiff_t>(count - i))
                    files += group.files.size();
            }
            PickList::Row row;
            // Attached files follow on lines of their own.
            const std::string& whole = prompts[count - i].text;
            row.text = one_line(visible(whole.substr(0, whole.find('\n'))), longest_prompt);
            if (files > 0) row.note = count_of(files, "file");
            list.rows.push_back(std::move(row));
        }
        return list;
    }
    /// Returns the runs of the prompts from this one on, and the number of files with changes.
    std::vector<std::string> runs_from(std::size_t prompt, std::size_t& files) const {
        std::vector<std::string> runs;
        std::set<std::string> paths;
        for (const Group& group : groups) {
            if (group.order < 2 * static_cast<std::ptrdiff_t>(prompt)) continue;
            runs.insert(runs.end(), group.runs.begin(), group.runs.end());
            paths.insert(group.files.begin(), group.files.end());
        }
        files = paths.size();
        return runs;
    }
};

ChangeActions::ChangeActions(Pipeline& pipeline, Renderer& renderer)
    : pipeline_(pipeline), renderer_(renderer) {}

Task<ChangeActions::State> ChangeActions::load() {
    const SessionPlan& plan = pipeline_.plan();
    const std::shared_ptr<SessionChanges> changes = plan.changes;
    State state;
    const MessageList messages = co_await read_conversation(plan.tapes, tape_of(plan));
    state.prompts = prompts_of(messages);
    const std::shared_ptr<FileCheckpoints> checkpoints = changes ? changes->checkpoints() : nullptr;
    if (!checkpoints) co_return state;
    auto work = [changes, checkpoints, state = std::move(state)]() mutable {
        for (const auto& workspace : changes->workspaces()) {
            std::ptrdiff_t last = -2;
            for (const PromptChanges& one : checkpoints->prompts(*workspace)) state.add(one, last);
        }
        state.dropped = checkpoints->dropped();
        return std::move(state);
    };
    State loaded = co_await offload(*Runtime::standard()->workers, std::move(work));
    co_return loaded;
}

Task<std::vector<RestoredFile>> ChangeActions::take_back(std::vector<std::string> runs) {
    auto work = [changes = pipeline_.plan().changes, runs = std::move(runs)] {
        std::vector<RestoredFile> files;
        const std::shared_ptr<FileCheckpoints> checkpoints = changes->checkpoints();
        for (const auto& workspace : changes->workspaces()) {
            for (RestoredFile& file : checkpoints->undo(*workspace, runs))
                files.push_back(std::move(file));
        }
        return files;
    };
    std::vector<RestoredFile> files =
        co_await offload(*Runtime::standard()->workers, std::move(work));
    co_return files;
}

/// Shows what became of the files.
void ChangeActions::show(const std::vector<RestoredFile>& files, const std::string& headline) {
    std::string text = headline + "\n";
    for (std::size_t i = 0; i < std::min(files.size(), shown_files); ++i) text += line_of(files[i]);
    if (files.size() > shown_files)
        text += "  and " + count_of(files.size() - shown_files, "file") + " more\n";
    renderer_.print(text);
}

/// Adds a note for the model to the next prompt: what the user has done with the files.
void ChangeActions::add_note_for_model(const std::vector<RestoredFile>& files,
                                       std::string_view what) {
    std::string changed;
    for (std::size_t i = 0; i < std::min(files.size(), shown_files); ++i) {
        if (has_changed(files[i]))
            changed += (changed.empty() ? "" : ", ") + visible(files[i].path);
    }
    if (!changed.empty())
        pipeline_.add_note_for_model("the user has " + std::string(what) + ": " + changed);
}

Task<> ChangeActions::undo() {
    const State state = co_await load();
    const Group* last = nullptr;
    for (const Group& group : state.groups) {
        if (!group.files.empty() && !passed_.contains(group.runs.front())) last = &group;
    }
    if (!last) {
        std::string text = "There is nothing to undo.\n";
        if (state.dropped > 0)
            text += count_of(state.dropped, "older change") +
                    " cannot be undone: only the newest ones are stored.\n";
        co_return renderer_.print(text + std::string(not_covered));
    }
    std::vector<std::string> runs = last->runs;
    const std::vector<RestoredFile> files = co_await take_back(std::move(runs));
    const bool any = std::any_of(files.begin(), files.end(), has_changed);
    const bool left = std::any_of(files.begin(), files.end(), [](const RestoredFile& file) {
        return file.outcome == FileOutcome::conflict || file.outcome == FileOutcome::failed;
    });
    show(files,
         (any ? "Took back the changes of " : "Took back nothing of ") + quoted(last->text) + ":");
    add_note_for_model(files, "changed these files back");
    if (left) passed_.insert(last->runs.front());
    std::string text(not_covered);
    if (any) text += "/redo makes them again; /undo continues with the prompt before.\n";
    renderer_.print(text);
}

Task<> ChangeActions::redo() {
    std::vector<RestoredFile> files;
    if (const std::shared_ptr<SessionChanges> changes = pipeline_.plan().changes;
        changes && changes->checkpoints()) {
        auto work = [changes] {
            std::vector<RestoredFile> made;
            const std::shared_ptr<FileCheckpoints> checkpoints = changes->checkpoints();
            for (const auto& workspace : changes->workspaces()) {
                for (RestoredFile& file : checkpoints->redo(*workspace))
                    made.push_back(std::move(file));
            }
            return made;
        };
        files = co_await offload(*Runtime::standard()->workers, std::move(work));
    }
    if (files.empty())
        co_return renderer_.print(
            "There is nothing to redo: no undo, or tools have changed files since.\n");
    passed_.clear();
    show(files, "Made the changes again:");
    add_note_for_model(files, "made the changes of these files again");
}

Task<> ChangeActions::diff(std::string argument) {
    if (!argument.empty() && argument != "last")
        throw Error(ErrorCode::invalid_argument, "/diff takes nothing, or `last`");
    std::optional<std::vector<PagerItem>> items;
    if (argument.empty()) {
        items = co_await git_changes(std::filesystem::current_path(), pipeline_.plan().environment);
    }
    const bool by_git = items.has_value();
    const std::shared_ptr<SessionChanges> changes = pipeline_.plan().changes;
    const std::shared_ptr<FileCheckpoints> checkpoints = changes ? changes->checkpoints() : nullptr;
    if (!by_git && checkpoints) {
        const State state = co_await load();
        std::vector<std::string> runs;
        if (argument == "last" && !state.prompts.empty()) {
            std::size_t files = 0;
            runs = state.runs_from(state.prompts.size() - 1, files);
        } else if (argument.empty()) {
            for (const Group& group : state.groups)
                runs.insert(runs.end(), group.runs.begin(), group.runs.end());
        }
        auto work = [changes, checkpoints, runs = std::move(runs)] {
            const std::shared_ptr<Workspace> workspace = changes->workspaces().front();
            return changes_since(checkpoints->before(*workspace, runs), *workspace);
        };
        items = co_await offload(*Runtime::standard()->workers, std::move(work));
    }
    if (items && !items->empty()) co_return renderer_.show_items(std::move(*items));
    std::string text = "Nothing has changed";
    text += by_git               ? " since the last commit.\n"
            : argument == "last" ? " by the tools since the last prompt.\n"
                                 : " by the tools in this session.\n";
    renderer_.print(by_git ? text : text + std::string(not_covered));
}

Task<std::optional<RewindChoice>> ChangeActions::choose(std::string number) {
    std::optional<RewindChoice> chosen;
    const std::shared_ptr<Prompter> prompter = pipeline_.plan().prompter;
    const State state = co_await load();
    const std::size_t count = state.prompts.size();
    if (count == 0) {
        renderer_.print("There is no earlier prompt in this conversation.\n");
        co_return chosen;
    }
    if (!prompter || !prompter->can_ask()) {
        renderer_.problem("/rewind asks what to restore, which needs a terminal");
        co_return chosen;
    }
    co_await prompter->prepare();
    std::size_t index = 0;
    if (number.empty()) {
        PickList list = state.earlier_prompts();
        const std::optional<std::size_t> picked = co_await prompter->pick(std::move(list));
        if (!picked) co_return chosen;
        index = *picked + 1;
    } else {
        index = detail::parsed_number<std::size_t>(number).value_or(0);
        if (index < 1 || index > count) {
            renderer_.problem("'" + visible(number) + "' is not a number from 1 to " +
                              std::to_string(count));
            co_return chosen;
        }
    }
    RewindChoice made;
    made.prompt = count - index;
    std::size_t files = 0;
    (void)state.runs_from(made.prompt, files);
    Choices choices;
    choices.text = for_terminal(
        "  Before " + quoted(state.prompts[made.prompt].text) +
        (files > 0 ? ", " + count_of(files, "changed file") : std::string(", no changed files")) +
        ". Restore");
    if (files > 0) choices.all.push_back(choice('b', "[b]oth"));
    choices.all.push_back(choice('c', "[c]onversation"));
    if (files > 0) choices.all.push_back(choice('f', "[f]iles"));
    choices.all.push_back(choice('n', "[n]othing"));
    const char key = co_await choose_key(prompter, std::move(choices));
    made.conversation = key == 'b' || key == 'c';
    made.files = key == 'b' || key == 'f';
    if (made.conversation || made.files) chosen = made;
    co_return chosen;
}

Task<std::string> ChangeActions::rewind(RewindChoice chosen, std::function<bool()> is_idle) {
    const State state = co_await load();
    std::string prompt;
    if (chosen.prompt >= state.prompts.size()) co_return prompt;
    const SessionPlan& plan = pipeline_.plan();
    // The runs of stopped answers are not part of a fork (D81).
    std::string after;
    std::size_t left_out = 0;
    bub::TapeCheckpointer memory(plan.tapes);
    for (std::size_t i = chosen.prompt; i > 0 && after.empty(); --i) {
        const std::vector<std::string>& runs = state.prompts[i - 1].runs;
        for (auto run = runs.rbegin(); run != runs.rend() && after.empty(); ++run) {
            const bool complete = co_await memory.is_run_complete(tape_of(plan), *run);
            if (complete) after = *run;
        }
        if (after.empty()) ++left_out;
    }
    const std::string text = state.prompts[chosen.prompt].text;
    if (!is_idle()) {
        renderer_.problem("an answer has begun meanwhile; nothing was restored");
        co_return prompt;
    }
    std::vector<RestoredFile> restored;
    if (chosen.files) {
        std::size_t count = 0;
        std::vector<std::string> runs = state.runs_from(chosen.prompt, count);
        restored = co_await take_back(std::move(runs));
        show(restored, "Files as they were before " + quoted(text) + ":");
        renderer_.print(not_covered);
    }
    if (!chosen.conversation) add_note_for_model(restored, "changed these files back");
    if (!chosen.conversation) co_return prompt;
    std::string name;
    Task<bool> moving = move(std::move(after), std::move(name), std::move(is_idle));
    Outcome<bool> moved = co_await outcome_of(std::move(moving));
    // The conversation continues where its files have changed.
    if (!moved || !moved.value()) add_note_for_model(restored, "changed these files back");
    moved.rethrow();
    if (!moved.value()) co_return prompt;
    if (left_out > 0) {
        renderer_.print(count_of(left_out, "prompt") +
                        " before it, whose answer was stopped or failed, left out.\n");
    }
    prompt = without_attachments(text);
    co_return prompt;
}

Task<> ChangeActions::fork(std::string name, std::function<bool()> is_idle) {
    const State state = co_await load();
    const SessionPlan& plan = pipeline_.plan();
    bub::TapeCheckpointer memory(plan.tapes);
    std::string after;
    for (auto one = state.prompts.rbegin(); one != state.prompts.rend() && after.empty(); ++one) {
        for (auto run = one->runs.rbegin(); run != one->runs.rend() && after.empty(); ++run) {
            const bool complete = co_await memory.is_run_complete(tape_of(plan), *run);
            if (complete) after = *run;
        }
    }
    if (after.empty())
        co_return renderer_.problem(
            "there is no complete answer yet from which to continue; "
            "/new begins a session");
    (void)co_await move(std::move(after), std::move(name), std::move(is_idle));
}

namespace {

/// Copies a conversation up to a run, without what later prompts have stored, such as a goal or to-dos.
Task<> copy_until(std::shared_ptr<bub::TapeStore> tapes, std::string from, std::string to,
                  std::string run) {
    bub::TapeCheckpointer memory(tapes);
    co_await memory.fork(from, to, run, std::nullopt);
    JsonObject extra = co_await bub::extra_after_run(tapes, std::move(from), std::move(run));
    const JsonObject copied = co_await bub::stored_extra(tapes, to);
    for (const auto& [key, value] : copied)
        if (!extra.contains(key)) extra[key] = nullptr;
    co_await memory.save_extra(std::move(to), std::move(extra));
}

}  // namespace

/// Continues in a new session with the conversation up to this run; empty: without any. Returns false if it could not.
Task<bool> ChangeActions::move(std::string after_run, std::string name,
                               std::function<bool()> is_idle) {
    const SessionPlan& plan = pipeline_.plan();
    const std::string before = plan.name;
    const std::string to_resume = resume_command(plan);
    const bool temporary = plan.name.empty() && !plan.create;
    SessionLocation place = next_session(plan);
    place.continues_changes = temporary || !after_run.empty();
    if (!after_run.empty() && temporary) {
        const std::string tape = bub::tape_name(std::filesystem::current_path(), place.session_id);
        co_await copy_until(plan.tapes, tape_of(plan), tape, after_run);
    } else if (!after_run.empty()) {
        SavedSessions saved = SavedSessions::here();
        const bool is_named = !name.empty();
        if (!is_named) name = base_name(before);
        place.name = co_await saved.create_named(name, is_named);
        const std::string tape = saved.tape_of(place.name);
        Task<> forking = copy_until(plan.tapes, tape_of(plan), tape, after_run);
        cubepi::Outcome<> forked = co_await outcome_of(std::move(forking));
        if (!forked.ok()) co_await saved.tapes()->remove_tape(tape);
        if (!forked.ok()) forked.rethrow();
        co_await note_fork(plan.tapes, tape, before);
        if (const std::shared_ptr<SessionChanges> changes = plan.changes) {
            auto copy = [changes, tapes = plan.tapes, tape] { changes->copy_to(*tapes, tape); };
            Task<> copying = offload(*Runtime::standard()->workers, std::move(copy));
            const Outcome<> copied = co_await outcome_of(std::move(copying));
            if (copied.cancelled()) copied.rethrow();
            if (!copied)
                renderer_.problem("earlier changes cannot be undone in the new session: " +
                                  bub::describe(copied.failure()));
        }
        place.session_id = session_id_of(place.name);
        place.create = nullptr;
        place.open = co_await mark_open(plan.tapes, tape);
    }
    if (!is_idle()) {
        renderer_.problem(
            "an answer has begun meanwhile" +
            (place.name.empty() ? std::string() : "; the new session is " + visible(place.name)));
        co_return false;
    }
    const std::string new_name = place.name;
    const Pipeline::Ended ended = pipeline_.move_to(std::move(place));
    renderer_.begin_session(new_name);
    std::string text = "Continuing in session " + visible(new_name) + ".\n";
    if (new_name.empty() && after_run.empty()) {
        text = "New session without the earlier conversation.\n";
    } else if (new_name.empty()) {
        text = "Continuing in another temporary session" +
               std::string(name.empty() ? "" : ", which has no name") + ".\n";
    }
    if (!before.empty()) text += "The whole conversation stays: " + to_resume + "\n";
    if (ended.commands > 0)
        text += "Ended " + count_of(ended.commands, "background command") + ".\n";
    if (ended.agents > 0) text += "Ended " + count_of(ended.agents, "background sub-agent") + ".\n";
    renderer_.print(text);
    co_return true;
}

}  // namespace cubepi::app
