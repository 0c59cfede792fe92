#include <bub/builtin/tools/tool_names.hpp>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include <bub/close_matches.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/parsed_number.hpp>

namespace bub::detail {

namespace {

using cubepi::Json;
using cubepi::JsonObject;

struct Renamed {
    std::string_view tool;
    std::string_view theirs;
    std::string_view ours;
};

constexpr Renamed renamed[] = {
    {"bash", "cmd", "command"},          {"bash", "cwd", "working_directory"},
    {"bash_output", "shell_id", "id"},   {"bash_kill", "shell_id", "id"},
    {"fs_read", "offset", "start_line"}, {"fs_read", "limit", "line_count"},
    {"fs_edit", "old", "old_text"},      {"fs_edit", "new", "new_text"},
};

std::string plain(std::string_view name) {
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.front())) != 0)
        name.remove_prefix(1);
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back())) != 0)
        name.remove_suffix(1);
    std::string text(name);
    for (char& c : text)
        c = c == '.' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

/// Tools are in a namespace in the prompts of OpenAI's models, which some servers leave in the names of calls.
std::string_view without_namespace(std::string_view name) {
    for (const std::string_view space : {"functions.", "functions_"}) {
        if (name.starts_with(space)) return name.substr(space.size());
    }
    return name;
}

/// Bub's line numbers start at 0.
Json one_more(const Json& value) {
    if (value.is_int64()) return value.get_int64() + 1;
    if (!value.is_string()) return value;
    const auto number = cubepi::detail::parsed_number<std::int64_t>(value.get_string());
    return number ? Json(std::to_string(*number + 1)) : value;
}

std::string guidance(std::string_view name, const std::vector<std::string>& names) {
    std::string text = "There is no tool named '" + std::string(name) + "'.";
    const std::vector<std::string> close = close_matches(plain(name), names);
    if (!close.empty()) {
        text += " Did you mean ";
        for (std::size_t i = 0; i < close.size(); ++i) {
            if (i > 0) text += i + 1 == close.size() ? " or " : ", ";
            text += "'" + close[i] + "'";
        }
        return text + "?";
    }
    text += " No other has a name like it.";
    if (std::find(names.begin(), names.end(), "skill") != names.end()) {
        text += " If it is the name of a skill, call the tool 'skill' with it.";
    }
    return text;
}

}  // namespace

const std::array<BubTool, 7>& bub_tools() {
    static const std::array<BubTool, 7> tools = {{
        {"fs_read", "read", {"path", "offset", "limit"}},
        {"fs_write", "write", {"path", "content"}},
        {"fs_edit", "edit", {"path", "old", "new", "start"}},
        {"bash", "shell", {"cmd", "cwd", "timeout_seconds", "background"}},
        {"bash_output", "shell_output", {"shell_id", "offset", "limit"}},
        {"bash_kill", "shell_kill", {"shell_id"}},
        {"web_fetch", "fetch", {"url", "headers", "timeout"}},
    }};
    return tools;
}

const BubTool* find_bub_tool(std::string_view name) {
    const std::string wanted = plain(name);
    for (const BubTool& tool : bub_tools()) {
        if (tool.name == wanted) return &tool;
    }
    return nullptr;
}

std::string our_tool_name(std::string_view name) {
    const BubTool* tool = find_bub_tool(name);
    return tool ? std::string(tool->ours) : plain(name);
}

JsonObject our_arguments(const BubTool& tool, JsonObject arguments) {
    for (const Renamed& one : renamed) {
        const Json* value = one.tool == tool.name ? arguments.if_contains(one.theirs) : nullptr;
        if (!value) continue;
        Json given = one.ours == "start_line" ? one_more(*value) : *value;
        arguments.erase(one.theirs);
        arguments[one.ours] = std::move(given);
    }
    return arguments;
}

UnknownTools::UnknownTools(const std::vector<cubepi::AgentTool>& tools,
                           const cubepi::SharedString& form) {
    for (const cubepi::AgentTool& tool : tools) names_.push_back(tool.name.str());
    if (!form.empty()) names_.push_back(form.str());
}

std::optional<cubepi::ToolCall> UnknownTools::resolve_tool_call(cubepi::ToolCall call) const {
    const auto is_offered = [this](std::string_view name) {
        return std::find(names_.begin(), names_.end(), name) != names_.end();
    };
    const std::string asked = call.name.str();
    for (const std::string_view used : {std::string_view(asked), without_namespace(asked)}) {
        if (is_offered(used)) {
            call.name = std::string(used);
            return call;
        }
        // Tools of others may have capitals and dots in their names.
        std::set<std::string> alike;
        for (const std::string& name : names_)
            if (plain(name) == plain(used)) alike.insert(name);
        if (alike.size() > 1) break;
        if (!alike.empty()) {
            call.name = *alike.begin();
            return call;
        }
        const BubTool* const bubs = find_bub_tool(used);
        if (!bubs || !is_offered(bubs->ours)) continue;
        call.arguments = our_arguments(*bubs, std::move(call.arguments));
        call.name = std::string(bubs->ours);
        return call;
    }
    throw cubepi::Error(cubepi::ErrorCode::not_found, guidance(asked, names_));
}

}  // namespace bub::detail
