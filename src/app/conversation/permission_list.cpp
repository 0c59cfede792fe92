#include "permission_list.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <cubepi/core/error.hpp>

#include "../command_tree.hpp"
#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "tool_approval.hpp"

namespace cubepi::app {

namespace {

bool has_rule(const std::vector<std::string>& texts, RuleEffect effect, const ApprovalRule& rule) {
    return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
        return ApprovalRule::parse(text, effect) == rule;
    });
}

}  // namespace

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
    std::size_t number = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end && number >= 1 && number <= list.size())
        return list[number - 1];
    for (const Permission& one : list) {
        if (one.rule.text() == name || one.text() == name) return one;
    }
    throw Error(ErrorCode::invalid_argument, "'" + visible(std::string(name)) +
                                                 "' is not the number of a rule; " +
                                                 std::string(how) + " lists the rules");
}

bool remove_saved(const Permission& permission) {
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
        app.add_subcommand("permissions", "List or remove the rules about tool calls");
    command->footer(permission_examples);
    command->require_subcommand(0, 1);
    command->add_flag("--json", arguments.json, "Print a JSON array");
    CLI::App& list = add_action(*command, "list", "List the rules, and where they come from",
                                arguments.what, What::list);
    list.add_flag("--json", arguments.json, "Print a JSON array");
    CLI::App& remove = add_action(*command, "remove", "Remove a rule from the configuration",
                                  arguments.what, What::remove);
    option(remove, "rule", arguments.rule, "Its number in the list, or its text", "RULE")
        ->required();
    command->callback([&line] { line.verb = Verb::permissions; });
}

int permissions_command(const CommandLine& line) {
    if (line.permissions.what == PermissionArguments::What::remove)
        return remove_permission(line.permissions.rule);
    return list_permissions(line.permissions.json);
}

}  // namespace cubepi::app
