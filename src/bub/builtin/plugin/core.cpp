#include <bub/builtin/plugin/core.hpp>

#include <cstdlib>
#include <utility>

#include <bub/builtin/tools/subagent_tool.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/provider/fallback.hpp>

namespace bub::detail {

namespace {

cubepi::BoundModel limited(const cubepi::BoundModel& model,
                           const std::optional<std::int64_t>& max_tokens) {
    if (!max_tokens || model.spec().max_tokens) return model;
    cubepi::Model spec = model.spec();
    spec.max_tokens = max_tokens;
    return cubepi::BoundModel(model.provider(), std::move(spec));
}

cubepi::BoundModel default_model(const BuiltinOptions& options) {
    cubepi::BoundModel first = limited(options.model, options.max_tokens);
    if (!first || options.fallback_models.empty()) return first;
    std::vector<cubepi::BoundModel> chain{std::move(first)};
    for (const cubepi::BoundModel& model : options.fallback_models)
        chain.push_back(limited(model, options.max_tokens));
    return cubepi::FallbackBoundModel(std::move(chain));
}

/// Removes the objects that no turn uses, each of which has a descriptor, unless there is only one: each session of a gateway has a
/// workspace of its own.
template <class T>
void drop_unused(std::map<std::string, std::shared_ptr<T>>& objects) {
    if (objects.size() <= 1) return;
    std::erase_if(objects, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace

bool is_temporary(std::string_view session_id) noexcept { return session_id.starts_with("temp/"); }

BuiltinCore::BuiltinCore(Framework& owner, BuiltinOptions given)
    : framework_(owner), options_(std::move(given)), default_model_(default_model(options_)) {
    if (options_.home.empty()) options_.home = default_bub_home();
    if (!options_.commands) options_.commands = std::make_shared<SessionCommands>();
    if (!options_.agents) options_.agents = std::make_shared<SessionAgents>();
    if (!options_.command_hooks.empty())
        hooks_ = std::make_shared<const CommandHookTable>(options_.command_hooks);
}

std::shared_ptr<CommandHooks> BuiltinCore::command_hooks(std::string session_id,
                                                         std::filesystem::path directory,
                                                         bool is_subagent) const {
    if (!hooks_) return nullptr;
    HookTurn turn{std::move(session_id), std::move(directory),
                  cubepi::child_environment(options_.environment), framework_.runtime(),
                  is_subagent};
    return std::make_shared<CommandHooks>(hooks_, std::move(turn));
}

std::filesystem::path BuiltinCore::workspace_of(const TurnState& state) const {
    const std::string directory = state.text(TurnState::workspace_key);
    return directory.empty() ? framework_.workspace() : std::filesystem::path(directory);
}

std::shared_ptr<cubepi::FileSpillSink> BuiltinCore::spill(const std::filesystem::path& directory) {
    if (options_.shell.spill) return options_.shell.spill;
    const std::lock_guard lock(mutex_);
    std::shared_ptr<cubepi::FileSpillSink>& sink = spills_[directory.string()];
    if (sink) return sink;
    // They are there in later turns, and after a restart: tapes speak of them.
    const std::filesystem::path place = spill_directory(options_.home, directory);
    try {
        sink = std::make_shared<cubepi::FileSpillSink>(cubepi::FileSpillOptions().in(place));
    } catch (const cubepi::Error& error) {
        runtime().log.write(cubepi::LogLevel::warning, "pipeline.spill_directory_failed",
                            {{"error", cubepi::to_string(error.code())}});
        const auto& warn = framework_.options().on_warning;
        if (warn) {
            warn("long results are found until the end of this process only: " +
                 std::string(error.what()));
        }
        sink = std::make_shared<cubepi::FileSpillSink>();
    }
    return sink;
}

std::shared_ptr<cubepi::Workspace> BuiltinCore::workspace(const std::filesystem::path& directory) {
    const std::filesystem::path spilled = spill(directory)->directory();
    const std::lock_guard lock(mutex_);
    std::shared_ptr<cubepi::Workspace>& place = workspaces_[directory.string()];
    if (!place) {
        cubepi::WorkspacePolicy policy = cubepi::WorkspacePolicy().also_read(spilled);
        policy.environment = options_.environment;
        if (variables_) policy.environment.set = *variables_;
        if (options_.sandbox)
            policy.sandbox = [make = options_.sandbox, directory] { return make(directory); };
        place = std::make_shared<cubepi::LocalWorkspace>(directory, std::move(policy));
    }
    return place;
}

std::shared_ptr<cubepi::ShellSessions> BuiltinCore::shells(const std::string& session_id,
                                                           const std::filesystem::path& directory) {
    cubepi::ShellOptions shell = options_.shell;
    shell.spill = spill(directory);
    if (shell.background_note.empty()) {
        shell.background_note =
            is_temporary(session_id) ? "it ends with this turn" : "it ends with this session";
    }
    if (!shell.on_survivors) {
        shell.on_survivors = [warn = framework_.options().on_warning](const std::string& text) {
            if (warn) warn("a command's processes " + text);
        };
    }
    const std::shared_ptr<cubepi::Workspace> place = workspace(directory);
    return options_.commands->open(
        session_id, [&] { return cubepi::ShellSessions::create(place, std::move(shell)); });
}

std::shared_ptr<AgentsOfSession> BuiltinCore::agents(const std::string& session_id) {
    return options_.agents->open(session_id, [&] {
        // The agents may outlive this object, but not the options' functions.
        const auto holder = std::make_shared<std::weak_ptr<AgentsOfSession>>();
        auto on_end = [holder, session_id, changed = options_.on_tasks,
                       deliver = options_.deliver_results](const cubepi::SubagentTask& task) {
            const std::shared_ptr<AgentsOfSession> agents = holder->lock();
            if (!agents) return;
            auto message = agents->messages.extract(task.id);
            if (changed) changed(session_id);
            if (message.empty()) return;
            if (const std::shared_ptr<HeldTurn>& held = message.mapped().held) {
                held->begin();
            } else if (deliver) {
                deliver(std::move(message.mapped()));
            }
        };
        auto made = std::make_shared<AgentsOfSession>(options_.subagents, std::move(on_end));
        *holder = made;
        return made;
    });
}

void BuiltinCore::end_session(const std::string& session_id) {
    (void)options_.commands->end(session_id);
    (void)options_.agents->end(session_id);
}

void BuiltinCore::release_session(const std::string& session_id) {
    if (is_temporary(session_id)) {
        end_session(session_id);
    } else {
        options_.commands->release(session_id);
        options_.agents->release(session_id);
    }
    const std::lock_guard lock(mutex_);
    drop_unused(workspaces_);
    drop_unused(spills_);
}

Task<std::shared_ptr<TapeStore>> BuiltinCore::store(const TurnState& state) {
    std::shared_ptr<TapeStore> tapes;
    if (const auto own = state.service<TurnTapes>()) tapes = own->base;
    if (!tapes) tapes = co_await framework_.tape_store();
    co_return tapes;
}

Task<Tape> BuiltinCore::tape(std::string session_id, const TurnState& state) {
    std::shared_ptr<TapeStore> tapes;
    if (const auto own = state.service<TurnTapes>()) tapes = own->store;
    if (!tapes) tapes = co_await store(state);
    if (!tapes) {
        throw cubepi::Error(
            cubepi::ErrorCode::not_found,
            "there is no tape store: no plugin has a provide_tape_store hook that returns one");
    }
    std::vector<std::string> sidecars = co_await framework_.tape_sidecars();
    std::string name = co_await session_tape_name(tapes, state, std::move(session_id));
    co_return Tape(std::move(tapes), std::move(name), std::move(sidecars));
}

Task<> BuiltinCore::load_environment() {
    {
        const std::lock_guard lock(mutex_);
        if (variables_) co_return;
    }
    EnvironmentVariables variables = co_await framework_.environment();
    const std::lock_guard lock(mutex_);
    variables_ = std::move(variables);
}

Task<std::shared_ptr<ProjectTexts>> BuiltinCore::project_texts(std::filesystem::path directory) {
    auto read = [directory = std::move(directory), user_skills = options_.with_user_skills,
                 more = options_.skill_directories, scope = options_.instructions,
                 trusts = options_.trusts] {
        const bool is_trusted = !trusts || trusts(directory);
        auto found = std::make_shared<ProjectTexts>();
        Instructions instructions =
            read_instructions(directory, is_trusted ? scope : without_workspace(scope));
        found->instructions = std::move(instructions.text);
        FoundSkills skills = find_skills(
            skill_directories(is_trusted ? directory : std::filesystem::path(), user_skills, more));
        found->skills = std::move(skills.skills);
        return found;
    };
    return cubepi::offload(*runtime().workers, std::move(read));
}

Task<> BuiltinCore::announce_files(std::filesystem::path directory) {
    if (!options_.loaded_files || !framework_.options().on_warning) co_return;
    auto look = [directory = std::move(directory), user_skills = options_.with_user_skills,
                 skills = options_.skill_directories, scope = options_.instructions,
                 trusts = options_.trusts] {
        const bool is_trusted = !trusts || trusts(directory);
        return look_at_project_files(directory, user_skills, skills, scope, is_trusted);
    };
    LoadedFiles loaded = co_await cubepi::offload(*runtime().workers, std::move(look));
    {
        const std::lock_guard lock(mutex_);
        if (loaded == *options_.loaded_files) co_return;
        options_.loaded_files = loaded;
    }
    std::string summary = loaded.summary.empty() ? "nothing is loaded" : loaded.summary;
    if (!loaded.untrusted.empty())
        summary += "; not loaded from a directory that is not trusted: " + loaded.untrusted;
    framework_.options().on_warning("The project's files have changed: " + summary);
    for (const std::string& problem : loaded.problems) framework_.options().on_warning(problem);
}

std::optional<cubepi::CompactionOptions> BuiltinCore::compaction(
    const cubepi::BoundModel& model) const {
    std::optional<cubepi::CompactionOptions> how = options_.compaction;
    if (!how) return how;
    if (!how->summary_model) how->summary_model = model;
    if (!how->summary_model) return std::nullopt;
    if (!how->context_window && options_.context_window)
        how->context_window = options_.context_window(model);
    if (!how->find_window && options_.find_context_window)
        how->find_window = [find = options_.find_context_window, model] { return find(model); };
    // A reference to each message would make every record on the tape longer.
    how->all_message_refs = false;
    return how;
}

cubepi::BoundModel BuiltinCore::metered(const cubepi::BoundModel& model,
                                        const JsonObject& origin) const {
    return options_.metered_model ? options_.metered_model(model, origin) : model;
}

cubepi::BoundModel BuiltinCore::model(const TurnState& state) const {
    const std::string chosen = state.text("model");
    if (!chosen.empty() && options_.find_model) return options_.find_model(chosen);
    if (!options_.model) {
        throw cubepi::Error(cubepi::ErrorCode::not_found,
                            "no model is configured; run `cubepi onboard`, or give "
                            "BuiltinOptions::model one");
    }
    if (chosen.empty()) return default_model_;
    cubepi::Model spec = options_.model.spec();
    spec.id = chosen;
    return limited(cubepi::BoundModel(options_.model.provider(), std::move(spec)),
                   options_.max_tokens);
}

}  // namespace bub::detail

namespace bub {

std::filesystem::path spill_directory(const std::filesystem::path& home,
                                      const std::filesystem::path& workspace) {
    // The part of a tape's name that stands for the workspace.
    const std::string name = tape_name(workspace, {});
    return home / "spill" / name.substr(0, name.find("__"));
}

std::filesystem::path memory_directory(const std::filesystem::path& home,
                                       const std::filesystem::path& workspace,
                                       std::string_view session_id, MemoryScope scope) {
    const std::string name = tape_name(workspace, session_id);
    const bool is_shared = scope == MemoryScope::workspace;
    return home / "memory" / (is_shared ? name.substr(0, name.find("__")) : name);
}

std::filesystem::path default_bub_home() {
    const char* home = std::getenv("BUB_HOME");
    if (home && *home) return home;
    return home_directory() / ".bub";
}

}  // namespace bub
