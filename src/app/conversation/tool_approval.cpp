#include "tool_approval.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_text.hpp>

#include "../command_tree.hpp"
#include "../config/command_sandbox.hpp"
#include "../config/paths.hpp"
#include "../config/tool_names.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

/// Drops the preview of a call that does not run: one that is refused, or whose question is aborted.
class PreviewGuard {
public:
    PreviewGuard(std::shared_ptr<FilePreviews> previews, std::string key)
        : previews_(std::move(previews)), key_(std::move(key)) {}
    ~PreviewGuard() {
        if (previews_) previews_->forget(key_);
    }
    PreviewGuard(const PreviewGuard&) = delete;
    PreviewGuard& operator=(const PreviewGuard&) = delete;
    void release() noexcept { previews_ = nullptr; }

private:
    std::shared_ptr<FilePreviews> previews_;
    const std::string key_;
};

bool has_rule(const std::vector<std::string>& texts, RuleEffect effect, const ApprovalRule& rule) {
    return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
        return ApprovalRule::parse(text, effect) == rule;
    });
}

}  // namespace

TerminalView name_of(ApprovalMode mode) {
    switch (mode) {
        case ApprovalMode::ask: return "ask";
        case ApprovalMode::accept_edits: return "accept edits";
        case ApprovalMode::plan: return "plan";
        case ApprovalMode::all: return "all";
    }
    return {};
}

TerminalView effect_of(ApprovalMode mode) {
    switch (mode) {
        case ApprovalMode::ask: return "tools that write, run commands or use the network ask";
        case ApprovalMode::accept_edits: return "write and edit do not ask";
        case ApprovalMode::plan: return "only tools that read run; the plan is asked about";
        case ApprovalMode::all: return "nothing asks, except writes to .git, skills, instructions";
    }
    return {};
}

std::optional<ApprovalMode> mode_named(std::string_view name) {
    std::string wanted(name);
    std::replace(wanted.begin(), wanted.end(), '-', ' ');
    const auto found =
        std::find_if(approval_modes.begin(), approval_modes.end(),
                     [&](ApprovalMode mode) { return name_of(mode).str() == wanted; });
    if (found == approval_modes.end()) return std::nullopt;
    return *found;
}

ApprovalMode mode_after(ApprovalMode mode) {
    const auto at = std::find(approval_modes.begin(), approval_modes.end(), mode);
    const auto next = at == approval_modes.end() ? at : at + 1;
    return next == approval_modes.end() ? approval_modes.front() : *next;
}

ToolRules policy_of(const std::vector<std::string>& rules) {
    ToolRules policy;
    try {
        for (const std::string& rule : rules) policy.allow(ApprovalRule::parse(rule));
    } catch (const Error& error) {
        throw Error(error.code(), "'allow' in " + config_path().string() + ": " + error.what());
    }
    return policy;
}

namespace {

/// `base`: where relative paths of the rules begin.
void restrict_calls(ToolRules& rules, const std::vector<std::string>& texts, RuleEffect effect,
                    const std::string& source, const std::string& base = {}) {
    try {
        for (const std::string& text : texts)
            rules.restrict({parse_restriction(text, effect), effect, source, base});
    } catch (const Error& error) {
        throw Error(error.code(),
                    "'" + std::string(to_string(effect)) + "' in " + source + ": " + error.what());
    }
}

}  // namespace

void add_restrictions(ToolRules& rules, const ConfigFile& config) {
    restrict_calls(rules, config.ask, RuleEffect::ask, config_path().string());
    restrict_calls(rules, config.deny, RuleEffect::deny, config_path().string());
}

void add_restrictions(ToolRules& rules, const ProjectSettings& project) {
    // Paths of a project begin at its root, wherever in it the conversation works.
    const std::string root =
        std::filesystem::path(project.source).parent_path().parent_path().string();
    restrict_calls(rules, project.ask, RuleEffect::ask, project.source, root);
    restrict_calls(rules, project.deny, RuleEffect::deny, project.source, root);
    // A rule that cannot be read may be one that denies.
    if (project.has_unread_rules)
        rules.restrict({ApprovalRule{"*", "*"}, RuleEffect::ask, project.source});
}

ToolRules rules_of(const ConfigFile& config, const ProjectSettings& project) {
    ToolRules rules = policy_of(config.allow);
    for (const std::string& text : project.allow) rules.allow(ApprovalRule::parse(text));
    add_restrictions(rules, config);
    add_restrictions(rules, project);
    return rules;
}

std::vector<bub::CommandHook> hooks_of(const ConfigFile& config, const ProjectSettings& project) {
    std::vector<bub::CommandHook> hooks = config.hooks;
    hooks.insert(hooks.end(), project.hooks.begin(), project.hooks.end());
    return hooks;
}

std::vector<std::string> unused_rules(const std::vector<std::string>& rules) {
    std::vector<std::string> notes;
    const ToolRules policy = policy_of(rules);
    for (const ApprovalRule& rule : policy.rules()) {
        const std::string problem = rule.problem();
        if (problem.empty()) continue;
        notes.push_back("The rule '" + rule.text() + "' in " + config_path().string() +
                        " has no effect: " + problem + ".");
    }
    return notes;
}

ToolApproval::ToolApproval(ToolRules rules, std::shared_ptr<HitlChannel> channel,
                           std::shared_ptr<const Prompter> prompter, Options options)
    : rules_(std::move(rules)),
      prompter_(std::move(prompter)),
      options_(std::move(options)),
      middleware_(std::move(channel),
                  [this](const BeforeToolCallContext& call) { return decide(call); }) {
    if (!options_.mode) options_.mode = std::make_shared<ApprovalMode>(ApprovalMode::ask);
    if (!options_.runtime) options_.runtime = Runtime::standard();
}

Task<std::optional<BeforeToolCallResult>> ToolApproval::before_tool_call(
    BeforeToolCallContext& call) {
    PreviewGuard preview(options_.previews, FilePreviews::key_of(call));
    std::optional<BeforeToolCallResult> result = co_await middleware_.before_tool_call(call);
    if (!result || !result->block) preview.release();
    co_return result;
}

bool ToolApproval::has_rule(const ApprovalRule& rule) const {
    const std::vector<ApprovalRule>& rules = rules_.rules();
    return std::find(rules.begin(), rules.end(), rule) != rules.end();
}

bool ToolApproval::allows_fetch(const std::string& url) const {
    const RuleDecision decision =
        rules_.decide("fetch", ToolRisk::network, JsonObject{{"url", url}});
    if (decision.always_asks || options_.has_fetch_hook) return false;
    return mode() == ApprovalMode::all || decision.allowed;
}

Task<CallPreview> ToolApproval::preview(std::string key, std::string tool, JsonObject args,
                                        std::optional<JudgedFile> judged) const {
    CallPreview made;
    if (!options_.previews || !FilePreviews::covers(tool)) co_return made;
    auto work = [previews = options_.previews, key = std::move(key), tool = std::move(tool),
                 args = std::move(args), judged = std::move(judged)] {
        CallPreview preview;
        try {
            preview.change = previews->preview(key, tool, args, judged);
        } catch (const Error& error) {
            preview.problem = error.what();
        }
        return preview;
    };
    made = co_await offload(*options_.runtime->workers, std::move(work));
    co_return made;
}

namespace {

constexpr std::string_view refused_in_plan =
    "Refused: the user has set the mode 'plan', in which only tools that read run. Describe what "
    "you would do; the user decides about it when your answer is complete.";

bool runs_in_plan(const AgentTool& tool) {
    return tool.risk_level == ToolRisk::read_only || tool.name == ToolApproval::subagent_tool;
}

bool mode_allows(ApprovalMode mode, const AgentTool& tool, const RuleDecision& decision) {
    if (decision.always_asks) return false;
    return mode == ApprovalMode::all ||
           (mode == ApprovalMode::accept_edits && FilePreviews::covers(tool.name.str()));
}

}  // namespace

Task<ApprovalDecision> ToolApproval::decide(const BeforeToolCallContext& call) const {
    RuleDecision decision = co_await apply_rules(call);
    if (mode() == ApprovalMode::plan && !runs_in_plan(call.tool))
        co_return Deny{std::string(refused_in_plan)};
    // A run that another process has suspended begins with its calls. The answer to a question about one of them may be stored, and
    // counts more than a mode (D131); it is found by asking.
    const bool may_be_answered = options_.can_wait && !call.context.request;
    if (decision.allowed) co_return Approve();
    if (!may_be_answered && mode_allows(mode(), call.tool, decision)) co_return Approve();
    if (!decision.refusal.empty()) co_return Deny{std::move(decision.refusal)};
    // A call that cannot work is not asked about, also where it could not be.
    const std::string key = FilePreviews::key_of(call);
    CallPreview shown =
        co_await preview(key, call.tool.name.str(), call.args, std::move(decision.file));
    if (!shown.problem.empty()) co_return Deny{std::move(shown.problem)};
    if (!options_.can_wait && (!prompter_ || !prompter_->can_ask())) {
        const bool leaves = detail::flag_member(call.args, "without_sandbox");
        co_return Deny{std::string("Refused: ") +
                       (prompter_ ? "cubepi runs in the background and cannot ask."
                                  : "there is no terminal to ask the user.") +
                       (decision.always_asks
                            ? (leaves ? " Leaving the sandbox needs an answer of the user."
                                      : " Such a call needs an answer of the user.")
                            : " The user can allow such calls with --yes, or with 'allow' in the "
                              "configuration file.")};
    }
    ApprovalDetails details;
    details.question = decision.question;
    if (decision.always) details.always = decision.always->text();
    details.change = std::move(shown.change);
    if (details.change) details.preview = key;
    AskUser question;
    question.details = to_json(details);
    co_return ApprovalDecision(std::move(question));
}

/// A tool of an MCP server is allowed as it is defined now: if its server changes it, it is asked about again (D148).
RuleDecision ToolApproval::with_definition(const AgentTool& tool, RuleDecision decision) const {
    if (decision.allowed || decision.always_asks) return decision;
    const std::optional<std::string> server =
        options_.server_of ? options_.server_of(tool.name.str()) : std::nullopt;
    if (!server) return decision;
    std::optional<ApprovalRule> rule = mcp_tool_rule(tool, *server);
    if (!rule) return decision;
    decision.allowed = has_rule(*rule);
    decision.always = std::move(rule);
    return decision;
}

Task<RuleDecision> ToolApproval::apply_rules(const BeforeToolCallContext& call) const {
    if (!options_.workspace || !rules_.follows_path(call.tool, call.args))
        co_return with_definition(call.tool, rules_.decide(call.tool, call.args));
    // Copies: a call that is aborted does not wait for the thread.
    auto work = [rules = rules_, workspace = options_.workspace, tool = call.tool.name,
                 risk = call.tool.risk_level, arguments = call.args] {
        return rules.decide(tool.str(), risk, arguments, *workspace);
    };
    RuleDecision decision = co_await offload(*options_.runtime->workers, std::move(work));
    if (call.judged_file && decision.file) *call.judged_file = decision.file;
    co_return with_definition(call.tool, std::move(decision));
}

std::optional<ApprovalRule> mcp_tool_rule(const AgentTool& tool, const std::string& server) {
    constexpr std::size_t digits = 32;
    if (!tool.name.str().starts_with("mcp__")) return std::nullopt;
    JsonArray definition;
    definition.emplace_back(server);
    definition.emplace_back(tool.name.str());
    definition.emplace_back(tool.label);
    definition.emplace_back(tool.description.str());
    definition.push_back(tool.parameters.source());
    definition.emplace_back(to_string(tool.risk_level));
    const std::string digest = detail::sha256_hex(json_text(Json(std::move(definition))));
    return ApprovalRule{tool.name.str(), "sha256:" + digest.substr(0, digits)};
}

std::vector<Permission> permissions(const ToolRules& rules, const ConfigFile& config,
                                    const ProjectSettings& project) {
    std::vector<Permission> list;
    const std::string own = config_path().string();
    for (const ApprovalRule& rule : rules.rules()) {
        Permission one{RuleEffect::allow, rule};
        one.is_of_user = has_rule(config.allow, RuleEffect::allow, rule);
        if (one.is_of_user) {
            one.source = own;
        } else if (has_rule(project.allow, RuleEffect::allow, rule)) {
            one.source = project.source;
        }
        list.push_back(std::move(one));
    }
    for (const RuleEffect effect : {RuleEffect::ask, RuleEffect::deny}) {
        for (const RestrictingRule& one : rules.restrictions()) {
            if (one.effect == effect)
                list.push_back({effect, one.rule, one.source, one.source == own});
        }
    }
    return list;
}

std::string permissions_text(const std::vector<Permission>& list) {
    std::string text;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string source = list[i].source.empty() ? "this session" : list[i].source;
        text += "  " + std::to_string(i + 1) + "  " + visible(list[i].text()) + "  (" +
                visible(source) + ")\n";
    }
    return text;
}

Permission permission_named(const std::vector<Permission>& list, std::string_view name,
                            std::string_view how) {
    const std::size_t number = detail::parsed_number<std::size_t>(name).value_or(0);
    if (number >= 1 && number <= list.size()) return list[number - 1];
    for (const Permission& one : list) {
        if (one.rule.text() == name || one.text() == name) return one;
    }
    throw Error(ErrorCode::invalid_argument, "'" + visible(std::string(name)) +
                                                 "' is not the number of a rule; " +
                                                 std::string(how) + " lists the rules");
}

bool remove_saved(const Permission& permission) {
    if (permission.source == hidden_files_source)
        throw Error(ErrorCode::invalid_argument,
                    "commands do not see this file, either; sandbox.readable of " +
                        config_path().string() + " shows keys to both");
    if (!permission.source.empty() && !permission.is_of_user)
        throw Error(ErrorCode::invalid_argument,
                    "the rule belongs to the project; edit " + visible(permission.source));
    return remove_rule(config_path(), permission.effect, permission.rule);
}

// `cubepi permissions`.

namespace {

constexpr const char* permission_examples = R"(Examples:
  cubepi permissions                             the rules of the configuration and of this directory
  cubepi permissions remove 2
  cubepi permissions remove "shell: git status *"

The keys allow, ask and deny of the configuration file, and of .cubepi/config.yaml of a directory, list rules.)";

std::vector<Permission> permissions_here() {
    const ConfigFile config = read_config(config_path());
    const ProjectSettings project =
        settings_of(find_project(std::filesystem::current_path(), TrustSettings{config.trust}));
    for (const std::string& problem : project.problems)
        err() << "cubepi: " << for_terminal(visible(problem)) << "\n";
    return permissions(rules_of(config, project), config, project);
}

int list_permissions(bool as_json) {
    const std::vector<Permission> list = permissions_here();
    if (!as_json) {
        out() << for_terminal(permissions_text(list));
        if (list.empty()) err() << for_terminal(no_permission);
        return exit_ok;
    }
    JsonArray listed;
    for (const Permission& one : list) {
        listed.push_back(JsonObject{
            {"effect", to_string(one.effect)}, {"rule", one.rule.text()}, {"source", one.source}});
    }
    data_output(safe_json(Json(std::move(listed))) + "\n");
    return exit_ok;
}

int remove_permission(const std::string& name) {
    const Permission found =
        permission_named(permissions_here(), name, "'cubepi permissions list'");
    (void)remove_saved(found);
    out() << "Removed: " << for_terminal(visible(found.text())) << "\n";
    return exit_ok;
}

}  // namespace

void add_permission_commands(CLI::App& app, CommandLine& line) {
    using What = PermissionArguments::What;
    PermissionArguments& arguments = line.permissions;
    CLI::App* command =
        add_command(app, line, Verb::permissions, "permissions",
                    "List or remove the rules about tool calls", permission_examples);
    command->require_subcommand(0, 1);
    command->add_flag("--json", arguments.json, "Print a JSON array");
    CLI::App& list = add_action(*command, "list", "List the rules, and where they come from",
                                arguments.what, What::list);
    list.add_flag("--json", arguments.json, "Print a JSON array");
    CLI::App& remove = add_action(*command, "remove", "Remove a rule from the configuration",
                                  arguments.what, What::remove);
    option(remove, "rule", arguments.rule, "Its number in the list, or its text", "RULE")
        ->required();
}

int permissions_command(const CommandLine& line) {
    if (line.permissions.what == PermissionArguments::What::remove)
        return remove_permission(line.permissions.rule);
    return list_permissions(line.permissions.json);
}

}  // namespace cubepi::app
