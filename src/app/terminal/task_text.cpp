#include "task_text.hpp"

#include <algorithm>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/cost.hpp>

#include "event_text.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_call = 500;

/// A stored number may be damaged.
std::int64_t count_in(const JsonObject& work, std::string_view key) {
    return std::max<std::int64_t>(detail::integer_member(work, key).value_or(0), 0);
}

std::optional<SubagentWork> read_work(const Json* reported) {
    const JsonObject* const found = reported ? reported->if_object() : nullptr;
    if (!found) return std::nullopt;
    SubagentWork work;
    work.turns = count_in(*found, "turns");
    work.calls = count_in(*found, "calls");
    work.tokens_in = count_in(*found, "input_tokens");
    work.tokens_out = count_in(*found, "output_tokens");
    const Json* const cost = found->if_contains("cost");
    if (cost && cost->is_number()) work.cost = std::max(cost->to_number<double>(), 0.0);
    return work;
}

}  // namespace

std::optional<SubagentWork> subagent_work(const Json& reported) {
    const JsonObject* const all = reported.if_object();
    return all ? read_work(all->if_contains("subagent")) : std::nullopt;
}

std::optional<SubagentWork> subagent_work(const Message& message) {
    if (const ToolResultMessage* result = message.tool_result())
        return result->tool_name == "subagent" ? subagent_work(result->details) : std::nullopt;
    return is_subagent_task_result(message) ? read_work(message.metadata().find("subagent"))
                                            : std::nullopt;
}

SubagentWork work_of(const SubagentResult& result) {
    const auto tokens = [](const auto& count) { return count.value_or(0); };
    SubagentWork work;
    work.turns = static_cast<std::int64_t>(result.turns);
    work.tokens_in = tokens(result.usage.input_tokens) + tokens(result.usage.cache_read_tokens) +
                     tokens(result.usage.cache_write_tokens);
    work.tokens_out = tokens(result.usage.output_tokens);
    work.cost = result.cost;
    return work;
}

std::string subagent_call(const Json& reported) {
    const JsonObject* const all = reported.if_object();
    const Json* const work = all ? all->if_contains("subagent") : nullptr;
    const JsonObject* const members = work ? work->if_object() : nullptr;
    const Json* const found = members ? members->if_contains("call") : nullptr;
    const JsonObject* const call = found ? found->if_object() : nullptr;
    if (!call) return {};
    std::string tool(detail::string_member(*call, "tool"));
    const Json* const arguments = call->if_contains("arguments");
    if (tool.empty() || !arguments || !arguments->is_object()) return tool;
    return one_line(visible(tool_title(tool) + " " + call_text(tool, arguments->get_object())),
                    longest_call);
}

std::string work_text(const SubagentWork& work) {
    const std::int64_t count = work.calls > 0 ? work.calls : work.turns;
    std::string text = count_text(count) + (work.calls > 0 ? " call" : " turn");
    if (count != 1) text += "s";
    if (const std::int64_t tokens = work.tokens_in + work.tokens_out; tokens > 0)
        text += ", " + short_count_text(tokens) + " tokens";
    if (work.cost && *work.cost > 0) text += ", " + money_text(*work.cost);
    return text;
}

std::vector<TerminalText> task_lines(const std::vector<SubagentTask>& tasks, const Style& style,
                                     std::size_t columns) {
    std::vector<TerminalText> lines;
    for (const SubagentTask& task : tasks) {
        if (task.state != SubagentTaskState::running) continue;
        const TerminalText work = for_terminal(work_text(work_of(task.result)));
        const std::size_t used = display_width(work) + 6;
        const TerminalText title =
            line_for_terminal((task.name.empty() ? task.type : task.name) + ": " + task.task, 200);
        lines.push_back(style.cyan() + "◇" + style.off() + " " +
                        shortened(title, columns > used + 10 ? columns - used : 10) + style.dim() +
                        "  " + work + style.off());
    }
    return lines;
}

}  // namespace cubepi::app
