#include <cubepi/workspace/tool_rules.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json/visible_text.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/workspace/fetch_tool.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/file_access.hpp>
#include <cubepi/workspace/files/path_pattern.hpp>
#include <cubepi/workspace/shell/shell_commands.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi {

namespace {

/// Normalizes a component as the most lenient file systems compare it: HFS+ ignores some characters beyond ASCII, NTFS blanks
/// and dots at the end and everything after a colon, and both ignore case.
std::string folded(std::string_view component) {
    std::string name;
    for (const char c : component.substr(0, component.find(':'))) {
        if (c >= 'A' && c <= 'Z')
            name += static_cast<char>(c - 'A' + 'a');
        else if (c >= ' ')
            name += c;
    }
    while (name.ends_with('.') || name.ends_with(' ')) name.pop_back();
    return name;
}

std::string_view reason_of(const std::string& name) {
    if (name.ends_with(".git") || name == "git~1")
        return "git runs programs named in this directory";
    if (name == ".agents" || name == ".agent") return "skills become instructions of later turns";
    if (name == ".cubepi" || name == ".mcp.json") return "it decides which programs and calls run";
    if (name == "agents.md" || name == "agents.override.md" || name == "claude.md")
        return "it becomes instructions of later turns";
    return {};
}

/// Returns why a write to this path always needs approval: it would change which programs run or the instructions of later
/// sessions. Empty for any other path. Compares names regardless of case, of characters that some file systems ignore, and of
/// empty components.
std::string_view protected_because(std::string_view path) {
    std::string name;
    while (!path.empty()) {
        const auto end = path.find_first_of("/\\");
        const std::string_view component = path.substr(0, end);
        if (!component.empty()) name = folded(component);
        if (const std::string_view reason = reason_of(name); !reason.empty()) return reason;
        path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
    }
    // With a file HEAD a directory can be taken for a bare repository, whose configuration git reads.
    if (name == "head") return "git treats a directory with that file as a repository";
    return {};
}

constexpr std::size_t max_shown = 2000;

/// Converts a text to one line without characters that could hide or forge text where it is shown.
std::string shown(std::string_view text) {
    std::string out;
    for (std::size_t feed; (feed = text.find('\n')) != text.npos; text.remove_prefix(feed + 1))
        out += detail::visible(text.substr(0, feed)) + "\\n";
    return out + detail::visible(text);
}

std::string size_of(const std::string& content) {
    auto lines = std::count(content.begin(), content.end(), '\n');
    if (!content.empty() && content.back() != '\n') ++lines;
    return std::to_string(lines) + (lines == 1 ? " line" : " lines");
}

/// `confinement`: empty: the command is not confined. `leaves`: it leaves its sandbox.
std::string describe_command(const std::string& command, const std::string& directory,
                             const std::string& effect, const std::string& confinement,
                             bool leaves) {
    std::string question =
        leaves ? "Run this command once without the sandbox" : "Run this command";
    if (!directory.empty()) question += " in " + shown(directory);
    question += ": " + shown(command) + "\n";
    if (!effect.empty()) question += "Known: " + shown(effect) + ". ";
    if (leaves || confinement.empty()) return question.append(shell_warning);
    return question + confinement;
}

std::string describe(std::string_view tool, ToolRisk risk, const JsonObject& arguments) {
    const std::string path = shown(detail::text_member(arguments, "path"));
    if (tool == "write")
        return "Write " + path + " (" + size_of(detail::text_member(arguments, "content")) + ")";
    if (tool == "edit") {
        const bool every = detail::flag_member(arguments, "all");
        return "Edit " + path + ": replace " + size_of(detail::text_member(arguments, "old_text")) +
               " by " + size_of(detail::text_member(arguments, "new_text")) +
               (every ? ", wherever they occur" : "");
    }
    if (tool == "fetch") return "Fetch " + shown(detail::text_member(arguments, "url"));
    const std::string json = json_text(arguments);
    const std::string_view begin = detail::cut_text(json, max_shown);
    std::string sentence = "Call the tool " + shown(tool) + " (" + std::string(to_string(risk)) +
                           ") with " + shown(begin);
    if (begin.size() < json.size())
        sentence += " (" + std::to_string(json.size() - begin.size()) + " more bytes)";
    if (risk != ToolRisk::irreversible) return sentence;
    // All tools of MCP servers have this risk, whatever they declare.
    sentence += tool.starts_with("mcp__")
                    ? "\nA server decides what the tool does: the call is treated as irreversible."
                    : "\nThe tool declares that its effects cannot be undone.";
    return sentence;
}

/// Returns true for the digest of a tool of an MCP server, "sha256:..." (D148). The host compares it, because only the host has the
/// definition of the tool.
bool is_definition(std::string_view match) {
    constexpr std::string_view prefix = "sha256:";
    return match.starts_with(prefix) && match.size() == prefix.size() + 32 &&
           match.find_first_not_of("0123456789abcdef", prefix.size()) == std::string_view::npos;
}

/// The words of a restricting rule for commands; empty: all commands. Throws Error(invalid_argument).
std::vector<std::string> restricted_words(const ApprovalRule& rule) {
    if (rule.match == "*") return {};
    CommandRule command = CommandRule::parse(rule.match);
    if (!command.directory.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "The rule " + rule.text() +
                        " names a directory. A rule that asks or denies holds in all of them: " +
                        "leave out cd.");
    }
    return std::move(command.words);
}

bool names_tool(const ApprovalRule& rule, std::string_view tool) {
    if (!rule.tool.ends_with('*')) return rule.tool == tool;
    return tool.starts_with(std::string_view(rule.tool).substr(0, rule.tool.size() - 1));
}

/// The tools whose argument `path` names a file or a directory of the workspace.
constexpr std::string_view file_tools[] = {"read", "grep", "send_file", "list", "write", "edit"};

/// Returns true if the file of the argument `path` may be changed; send_file only reads it.
bool may_write(std::string_view tool, ToolRisk risk) {
    return risk != ToolRisk::read_only && tool != "send_file";
}

bool is_search(std::string_view tool) { return tool == "grep" || tool == "list"; }

bool is_file_tool(std::string_view tool) {
    return std::find(std::begin(file_tools), std::end(file_tools), tool) != std::end(file_tools);
}

/// Returns true if a rule with a pattern of paths holds for a tool.
bool covers_file_tool(const ApprovalRule& rule, std::string_view tool) {
    if (!is_file_tool(tool)) return false;
    if (names_tool(rule, tool)) return true;
    const bool writes = tool == "write" || tool == "edit";
    if (writes && (names_tool(rule, "write") || names_tool(rule, "edit"))) return true;
    // The errors of edit show lines of the file.
    return (tool == "grep" || tool == "send_file" || tool == "edit") && names_tool(rule, "read");
}

/// Returns true for a restricting rule with a pattern of paths.
bool is_path_rule(const ApprovalRule& rule) {
    return rule.match != "*" && rule.tool != "shell" && rule.tool != "fetch" &&
           std::any_of(std::begin(file_tools), std::end(file_tools),
                       [&](std::string_view tool) { return covers_file_tool(rule, tool); });
}

/// Returns a path without links relative to the root of the workspace, if it is below that.
std::string in_workspace(const std::filesystem::path& real, const std::string& root) {
    std::error_code failed;
    const std::filesystem::path below =
        real.lexically_relative(std::filesystem::weakly_canonical(root, failed));
    const bool is_below = !failed && !below.empty() && *below.begin() != "..";
    return (is_below ? below : real).string();
}

std::string home() {
    const char* const found = std::getenv("HOME");
    return found ? found : "";
}

}  // namespace

/// The file of a call, for rules with patterns of paths.
struct ToolRules::CalledFile {
    std::string root;
    /// As the call names it, and where its links lead; absolute and normal. Empty: the call names none.
    std::vector<std::string> spellings;
    bool is_unknown = false;  ///< it cannot be resolved, so it may be any file
};

namespace {

detail::NamedCommand path_relation(const RestrictingRule& rule, std::string_view tool,
                                   const std::string& root, bool is_unknown,
                                   const std::vector<std::string>& spellings) {
    using detail::NamedCommand;
    if (!covers_file_tool(rule.rule, tool)) return NamedCommand::no;
    if (is_unknown) return NamedCommand::yes;
    const auto is_excepted = [&rule](const std::string& path) {
        return detail::PathPattern(rule.except, {}, {}).matches(path);
    };
    if (!rule.except.empty() && std::all_of(spellings.begin(), spellings.end(), is_excepted))
        return NamedCommand::no;
    const detail::PathPattern pattern(rule.rule.match, rule.base.empty() ? root : rule.base,
                                      home());
    const auto any = [&spellings](auto&& is) {
        return std::any_of(spellings.begin(), spellings.end(), is);
    };
    if (any([&](const std::string& path) { return pattern.matches(path); }))
        return NamedCommand::yes;
    const bool contains = is_search(tool) && any([&](const std::string& path) {
                              return pattern.may_match_below(path);
                          });
    return contains ? NamedCommand::unknown : NamedCommand::no;
}

/// The relation of a call to a restricting rule.
detail::NamedCommand relation(const ApprovalRule& rule, std::string_view tool,
                              const JsonObject& arguments) {
    using detail::NamedCommand;
    if (rule.match == "*" && (names_tool(rule, tool) || covers_file_tool(rule, tool)))
        return NamedCommand::yes;
    if (!names_tool(rule, tool)) return NamedCommand::no;
    if (tool == "shell") {
        return detail::find_named_command(detail::text_member(arguments, "command"),
                                          restricted_words(rule));
    }
    const bool restricts =
        tool == "fetch" &&
        detail::restricts_fetch(rule.match, detail::text_member(arguments, "url"));
    return restricts ? NamedCommand::yes : NamedCommand::no;
}

/// Throws Error(invalid_argument) for a rule that its tool does not support.
void require_supported(const ApprovalRule& rule, RuleEffect effect) {
    const bool restricts = effect != RuleEffect::allow;
    if (restricts && rule.tool == "shell") {
        (void)restricted_words(rule);
        return;
    }
    if (restricts && rule.tool == "fetch" && rule.match != "*" &&
        (detail::rule_origin(rule.match).empty() ||
         rule.match.find('*', rule.match.starts_with("*.") ? 1 : 0) != std::string::npos)) {
        throw Error(ErrorCode::invalid_argument,
                    "The rule " + rule.text() +
                        " names neither an origin such as https://example.org nor a host, which "
                        "may begin with *. and have no other *.");
    }
    if (restricts && is_path_rule(rule)) return;
    if (rule.tool == "shell") {
        (void)CommandRule::parse(rule.match);
    } else if (!restricts && rule.tool.starts_with("mcp__") && is_definition(rule.match)) {
        return;
    } else if (rule.tool != "fetch" && rule.match != "*") {
        throw Error(ErrorCode::invalid_argument, "The rule " + rule.text() + " matches nothing: " +
                                                     rule.tool + " supports only *.");
    }
}

}  // namespace

std::string_view to_string(RuleEffect effect) noexcept {
    switch (effect) {
        case RuleEffect::allow: return "allow";
        case RuleEffect::ask: return "ask";
        case RuleEffect::deny: return "deny";
    }
    return {};
}

ApprovalRule ApprovalRule::parse(std::string_view text, RuleEffect effect) {
    const auto colon = text.find(':');
    ApprovalRule rule;
    if (colon != std::string_view::npos) {
        rule.tool = text.substr(0, colon);
        rule.match = text.substr(colon + 1);
        const auto begin = rule.match.find_first_not_of(' ');
        rule.match.erase(0, begin == std::string::npos ? rule.match.size() : begin);
    }
    if (rule.tool.empty() || rule.match.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "\"" + std::string(text) +
                        "\" is not an approval rule. Examples: shell: cd * && git status *, fetch: "
                        "example.org, write: *.");
    }
    require_supported(rule, effect);
    return rule;
}

std::string ApprovalRule::problem() const {
    if (tool == "shell") return CommandRule::parse(match).problem();
    if (tool == "fetch" && match != "*" && detail::rule_origin(match).empty()) {
        return "it is neither an origin such as https://example.org nor a host";
    }
    return {};
}

ToolRules::ToolRules() {
    std::error_code unknown;
    workspace_ = std::filesystem::current_path(unknown).string();
}

void ToolRules::allow(const ApprovalRule& rule) {
    require_supported(rule, RuleEffect::allow);
    if (rule.tool == "shell") commands_.allow(CommandRule::parse(rule.match));
    if (!has(rule.tool, rule.match)) rules_.push_back(rule);
}

bool ToolRules::withdraw(const ApprovalRule& rule) {
    if (std::erase(rules_, rule) == 0) return false;
    commands_ = CommandPolicy();
    for (const ApprovalRule& one : rules_) {
        if (one.tool == "shell") commands_.allow(CommandRule::parse(one.match));
    }
    return true;
}

void ToolRules::restrict(RestrictingRule rule) {
    if (rule.effect == RuleEffect::allow)
        throw Error(ErrorCode::invalid_argument, "A rule that allows calls does not restrict any.");
    require_supported(rule.rule, rule.effect);
    if (std::find(restrictions_.begin(), restrictions_.end(), rule) == restrictions_.end())
        restrictions_.push_back(std::move(rule));
}

bool ToolRules::withdraw(const RestrictingRule& rule) {
    return std::erase(restrictions_, rule) > 0;
}

/// Restricts what the permissions have decided.
void ToolRules::apply_restrictions(RuleDecision& decision, std::string_view tool, ToolRisk risk,
                                   const JsonObject& arguments, const CalledFile& file) const {
    const RestrictingRule* asks = nullptr;
    const RestrictingRule* unknown = nullptr;
    for (const RestrictingRule& one : restrictions_) {
        const detail::NamedCommand found =
            is_path_rule(one.rule)
                ? path_relation(one, tool, file.root, file.is_unknown, file.spellings)
                : relation(one.rule, tool, arguments);
        if (found == detail::NamedCommand::unknown) unknown = &one;
        if (found != detail::NamedCommand::yes) continue;
        asks = &one;
        if (one.effect != RuleEffect::deny) continue;
        decision.refusal = "Refused by the rule '" + one.text() + "'";
        if (!one.source.empty()) decision.refusal += " of " + one.source;
        decision.refusal += ".";
        break;
    }
    if (!asks && !unknown) return;
    decision.allowed = false;
    decision.always_asks = true;
    decision.always.reset();
    if (decision.question.empty()) decision.question = describe(tool, risk, arguments);
    decision.question += "\nAlways needs approval: ";
    decision.question +=
        asks ? "the rule '" + shown(asks->text()) + "'."
             : (tool == "shell" ? "this command computes what it runs, so that the rule '"
                                : "below this directory may be files of the rule, so that '") +
                   shown(unknown->text()) + "' cannot be checked.";
}

bool ToolRules::has(std::string_view tool, std::string_view match) const {
    return std::any_of(rules_.begin(), rules_.end(), [&](const ApprovalRule& rule) {
        return rule.tool == tool && rule.match == match;
    });
}

bool ToolRules::allows_fetch(std::string_view origin) const {
    return std::any_of(rules_.begin(), rules_.end(), [&](const ApprovalRule& rule) {
        return rule.tool == "fetch" && !origin.empty() && detail::rule_origin(rule.match) == origin;
    });
}

/// The working directory of a command; empty: unknown. Links are not resolved: "x/.." can be anywhere.
std::string ToolRules::directory_of(const JsonObject& arguments) const {
    const std::string given = detail::text_member(arguments, "working_directory");
    if (workspace_.empty() || given.find('\0') != std::string::npos) return {};
    const std::string tidy = detail::tidy_path(given);
    if (("/" + tidy + "/").find("/../") != std::string::npos) return {};
    if (given.starts_with('/')) return "/" + tidy;
    if (tidy.empty()) return workspace_;
    return workspace_ == "/" ? "/" + tidy : workspace_ + "/" + tidy;
}

void ToolRules::decide_command(RuleDecision& decision, const JsonObject& arguments) const {
    const std::string command = detail::text_member(arguments, "command");
    const std::string directory = directory_of(arguments);
    const std::string effect = known_command_effect(command);
    if (!effect.empty()) decision.risk = ToolRisk::irreversible;
    const bool leaves = detail::flag_member(arguments, "without_sandbox");
    decision.question =
        describe_command(command, detail::text_member(arguments, "working_directory"), effect,
                         confinement_.text, leaves);
    if (leaves) {
        decision.always_asks = true;
        return;
    }
    const bool reads = confinement_.reads_unasked && only_reads(command);
    decision.allowed = reads || commands_.allows(command, directory);
    if (const auto rule = rule_for(command, directory))
        decision.always = ApprovalRule{"shell", rule->text()};
}

RuleDecision ToolRules::decide(std::string_view tool, ToolRisk risk,
                               const JsonObject& arguments) const {
    return decide(tool, risk, arguments, detail::text_member(arguments, "path"));
}

RuleDecision ToolRules::decide(std::string_view tool, ToolRisk risk, const JsonObject& arguments,
                               const std::optional<std::string>& write_target) const {
    CalledFile file;
    file.root = workspace_.empty() ? "/" : workspace_;
    const std::string path = detail::text_member(arguments, "path");
    file.spellings = {detail::absolute_path(file.root, path)};
    if (write_target) file.spellings.push_back(detail::absolute_path(file.root, *write_target));
    return decide_about(tool, risk, arguments, write_target, file);
}

RuleDecision ToolRules::decide(std::string_view tool, ToolRisk risk, const JsonObject& arguments,
                               Workspace& workspace) const {
    const std::string path = detail::text_member(arguments, "path");
    CalledFile file;
    file.root = workspace.root();
    file.spellings = {detail::absolute_path(file.root, path)};
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::weakly_canonical(
        path.starts_with('/') ? std::filesystem::path(path)
                              : std::filesystem::path(file.root) / path,
        failed);
    file.is_unknown = static_cast<bool>(failed);
    // A path that cannot be resolved is opened without following links.
    JudgedFile judged{path, path};
    if (!failed) {
        file.spellings.push_back(detail::absolute_path(file.root, real.string()));
        judged.target = in_workspace(real, file.root);
        file.spellings.push_back(detail::absolute_path(file.root, judged.target));
    }
    std::optional<std::string> target = path;
    if (may_write(tool, risk)) {
        try {
            target = workspace.write_target(path);
            file.spellings.push_back(detail::absolute_path(file.root, *target));
            judged.target = *target;
        } catch (const Error&) {
            // The tool reports what is wrong with the path. That of another tool may not be one of the workspace, and is judged by where
            // it leads.
            if (is_file_tool(tool)) {
                target.reset();
            } else if (!failed) {
                target = real.string();
            }
        }
    }
    RuleDecision decision = decide_about(tool, risk, arguments, target, file);
    const bool leads_elsewhere =
        detail::absolute_path(file.root, judged.target) != file.spellings.front();
    if (leads_elsewhere && is_file_tool(tool) && !decision.question.empty())
        decision.question += "\nThe path leads to " + shown(judged.target) + ".";
    if (!path.empty() && is_file_tool(tool)) decision.file = std::move(judged);
    return decision;
}

bool ToolRules::follows_path(const AgentTool& tool, const JsonObject& arguments) const {
    const Json* const path = arguments.if_contains("path");
    if (path && path->is_string() && may_write(tool.name.str(), tool.risk_level)) return true;
    return std::any_of(restrictions_.begin(), restrictions_.end(), [&](const RestrictingRule& one) {
        return is_path_rule(one.rule) && covers_file_tool(one.rule, tool.name.str());
    });
}

RuleDecision ToolRules::decide_about(std::string_view tool, ToolRisk risk,
                                     const JsonObject& arguments,
                                     const std::optional<std::string>& write_target,
                                     const CalledFile& file) const {
    RuleDecision decision = decide_by_permissions(tool, risk, arguments, write_target);
    apply_restrictions(decision, tool, risk, arguments, file);
    return decision;
}

RuleDecision ToolRules::decide_by_permissions(
    std::string_view tool, ToolRisk risk, const JsonObject& arguments,
    const std::optional<std::string>& write_target) const {
    RuleDecision decision;
    decision.risk = risk;
    // Ending a command that the user has allowed needs no further approval.
    // The paths of `memory` are not those of the workspace.
    const bool is_memory = tool == "memory" && has(tool, "*");
    if (risk == ToolRisk::read_only || tool == "shell_kill" || is_memory) {
        decision.allowed = true;
        return decision;
    }
    if (tool == "shell") {
        decide_command(decision, arguments);
        return decision;
    }
    std::string match = "*";
    decision.allowed = has(tool, "*");
    if (tool == "fetch") {
        const std::string url = detail::text_member(arguments, "url");
        match = detail::url_origin(url);
        decision.refusal = detail::fetch_refusal(url);
        decision.allowed = decision.allowed || allows_fetch(match);
    }
    decision.question = describe(tool, risk, arguments);
    std::string_view why = protected_because(detail::text_member(arguments, "path"));
    if (why.empty() && write_target) why = protected_because(*write_target);
    if (why.empty() && !write_target) why = "the target of the write is unknown";
    if (!why.empty()) {
        decision.allowed = false;
        decision.always_asks = true;
        decision.question += "\nAlways needs approval: " + std::string(why) + ".";
    } else if (risk != ToolRisk::irreversible && !match.empty()) {
        decision.always = ApprovalRule{std::string(tool), std::move(match)};
    }
    return decision;
}

}  // namespace cubepi
