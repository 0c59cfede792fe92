#include "session.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
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

Task<std::size_t> choose_at_terminal(std::shared_ptr<LineEditor> editor, std::string question,
                                     std::vector<std::string> models) {
    std::cout << question << '\n';
    for (std::size_t i = 0; i < models.size(); ++i)
        std::cout << "  " << i + 1 << "  " << printable(models[i]) << '\n';
    for (;;) {
        std::optional<std::string> answer = co_await editor->read("number > ");
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

void add_tools(AgentOptions& options, const ConversationFlags& flags, const ConfigFile& config,
               const SessionParts& parts) {
    auto spill = std::make_shared<FileSpillSink>();
    WorkspacePolicy policy = WorkspacePolicy().also_read(spill->directory());
    for (std::string& name : key_variables(config))
        policy.hidden_variables.push_back(std::move(name));
    auto workspace =
        std::make_shared<LocalWorkspace>(std::filesystem::current_path(), std::move(policy));
    StandardToolOptions tools;
    tools.shell.spill = spill;
    options.tools = standard_tools(workspace, std::move(tools));
    options.spill = spill;
    Approval::Options approval;
    approval.allow_all = flags.yes;
    approval.before_question = parts.before_question;
    approval.save_rule = [](const std::string& rule) { save_allow_rule(config_path(), rule); };
    auto gate = std::make_shared<Approval>(policy_of(config), parts.editor, parts.style,
                                           std::move(approval));
    options.middleware.emplace_back(gate);
}

}  // namespace

Task<Session> open_session(ConversationFlags flags, SessionParts parts) {
    Session session;
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
    ModelSources sources = model_sources(flags.model, config, parts.editor != nullptr);
    const std::shared_ptr<LineEditor> editor = parts.editor;
    ChooseModel choose = [editor](std::string question, std::vector<std::string> models) {
        return choose_at_terminal(editor, std::move(question), std::move(models));
    };
    session.model =
        co_await choose_model(std::move(sources), transport_of(*runtime), std::move(choose));

    AgentOptions options;
    options.model = session.model.model;
    options.runtime = runtime;
    if (!flags.no_tools) add_tools(options, flags, config, parts);
    options.system_prompt =
        flags.system_prompt.empty()
            ? system_prompt(std::filesystem::current_path().string(), !flags.no_tools)
            : flags.system_prompt;
    if (flags.max_turns > 0) options.limits.max_turns = static_cast<std::size_t>(flags.max_turns);
    if (session.store) {
        options.checkpointer = session.store;
        options.thread_id = session.name;
    }
    session.agent = std::make_unique<Agent>(std::move(options));
    co_return session;
}

}  // namespace cubepi::app
