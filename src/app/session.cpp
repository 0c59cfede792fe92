#include "session.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <cubepi/core/runtime.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/spill.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "config/config_file.hpp"
#include "config/paths.hpp"
#include "system_prompt.hpp"

namespace cubepi::app {

namespace {

Task<std::size_t> choose_at_terminal(std::shared_ptr<Asker> asker, std::string question,
                                     std::vector<std::string> models) {
    question += '\n';
    for (std::size_t i = 0; i < models.size(); ++i)
        question += "  " + std::to_string(i + 1) + "  " + printable(models[i]) + "\n";
    asker->say(question);
    for (;;) {
        std::optional<std::string> answer = co_await asker->read("number > ");
        if (!answer) throw Error(ErrorCode::cancelled, "no model was chosen");
        const std::size_t number =
            static_cast<std::size_t>(std::strtoul(answer->c_str(), nullptr, 10));
        if (number >= 1 && number <= models.size()) co_return number - 1;
    }
}

/// The session that was used last.
Task<std::string> last_session(std::shared_ptr<SQLiteCheckpointer> store) {
    std::vector<ThreadInfo> threads = co_await store->list_threads();
    if (threads.empty()) {
        throw Error(ErrorCode::not_found,
                    "there is no session to continue; begin one: cubepi chat --session NAME");
    }
    const auto newest = std::max_element(
        threads.begin(), threads.end(), [](const ThreadInfo& a, const ThreadInfo& b) {
            return a.updated_at.value_or(0) < b.updated_at.value_or(0);
        });
    co_return newest->thread_id;
}

ApprovalPolicy policy_of(const ConfigFile& config) {
    ApprovalPolicy policy;
    for (const std::string& rule : config.allow) policy.allow(ApprovalRule::parse(rule));
    return policy;
}

/// The tools of this folder and who is asked before they act; shared by the agents of a conversation.
struct Toolbox {
    std::shared_ptr<FileSpillSink> spill = {};
    std::shared_ptr<LocalWorkspace> workspace = {};
    std::shared_ptr<Approval> gate = {};
};

Toolbox make_toolbox(const ConversationFlags& flags, const ConfigFile& config,
                     const SessionParts& parts) {
    Toolbox box;
    box.spill = std::make_shared<FileSpillSink>();
    WorkspacePolicy policy = WorkspacePolicy().also_read(box.spill->directory());
    for (std::string& name : key_variables(config))
        policy.hidden_variables.push_back(std::move(name));
    box.workspace =
        std::make_shared<LocalWorkspace>(std::filesystem::current_path(), std::move(policy));
    Approval::Options approval;
    approval.allow_all = flags.yes;
    approval.before_question = parts.before_question;
    approval.save_rule = [](const std::string& rule) { save_allow_rule(config_path(), rule); };
    box.gate = std::make_shared<Approval>(policy_of(config), parts.asker, parts.style,
                                          std::move(approval));
    return box;
}

void add_tools(AgentOptions& options, const Toolbox& box) {
    StandardToolOptions tools;
    tools.shell.spill = box.spill;
    for (AgentTool& tool : standard_tools(box.workspace, std::move(tools)))
        options.tools.push_back(std::move(tool));
    options.spill = box.spill;
    options.middleware.emplace_back(box.gate);
}

/// Everything that the flags say about an agent, the model excepted.
std::function<void(AgentOptions&)> equipment(const ConversationFlags& flags,
                                             const SessionPlan& plan,
                                             std::optional<Toolbox> tools) {
    return [flags, store = plan.store, name = plan.name,
            tools = std::move(tools)](AgentOptions& options) {
        if (tools) add_tools(options, *tools);
        if (!flags.system_prompt.empty()) options.system_prompt = flags.system_prompt;
        if (flags.max_turns > 0)
            options.limits.max_turns = static_cast<std::size_t>(flags.max_turns);
        if (!store) return;
        options.checkpointer = store;
        options.thread_id = name;
        // They speak of a tape, and this conversation is kept elsewhere.
        std::erase_if(options.tools,
                      [](const AgentTool& tool) { return tool.name.str().starts_with("tape"); });
    };
}

}  // namespace

Task<SessionPlan> plan_session(ConversationFlags flags, SessionParts parts) {
    SessionPlan session;
    const ConfigFile config = read_config(config_path());
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    if (!flags.session.empty() || flags.continue_last) {
        make_private_folder(sessions_path());
        SQLiteOptions options;
        options.path = sessions_path().string();
        session.store = std::make_shared<SQLiteCheckpointer>(std::move(options));
        co_await session.store->open();
        session.name = flags.session;
        if (session.name.empty()) session.name = co_await last_session(session.store);
    }
    ModelSources sources = model_sources(flags.model, config, parts.asker != nullptr);
    const std::shared_ptr<Asker> asker = parts.asker;
    ChooseModel choose = [asker](std::string question, std::vector<std::string> models) {
        return choose_at_terminal(asker, std::move(question), std::move(models));
    };
    session.model =
        co_await choose_model(std::move(sources), transport_of(*runtime), std::move(choose));

    session.system_prompt =
        flags.system_prompt.empty()
            ? system_prompt(std::filesystem::current_path().string(), !flags.no_tools)
            : flags.system_prompt;
    std::optional<Toolbox> tools;
    if (!flags.no_tools) tools = make_toolbox(flags, config, parts);
    session.equip = equipment(flags, session, std::move(tools));
    co_return session;
}

Task<Session> open_session(ConversationFlags flags, SessionParts parts) {
    SessionPlan plan = co_await plan_session(std::move(flags), std::move(parts));
    Session session;
    session.store = plan.store;
    session.name = plan.name;
    session.model = plan.model;
    AgentOptions options;
    options.model = plan.model.model;
    options.runtime = Runtime::standard();
    options.system_prompt = plan.system_prompt;
    plan.equip(options);
    session.agent = std::make_unique<Agent>(std::move(options));
    co_return session;
}

}  // namespace cubepi::app
