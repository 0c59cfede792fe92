#include "event_text.hpp"

#include <algorithm>
#include <charconv>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_text.hpp>

#include "terminal_text.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t saved_text = 64 * 1024;

constexpr std::size_t shown_issues = 3;

const Json* detail_of(const ToolExecutionEndEvent& event, std::string_view name) {
    const JsonObject* details = event.result.details.if_object();
    return details ? details->if_contains(name) : nullptr;
}

std::optional<std::int64_t> number_of(const ToolExecutionEndEvent& event, std::string_view name) {
    const Json* value = detail_of(event, name);
    if (!value || !value->is_number()) return std::nullopt;
    boost::system::error_code failed;
    const auto number = value->to_number<std::int64_t>(failed);
    return failed ? std::nullopt : std::optional<std::int64_t>(number);
}

std::string counted(std::int64_t count, std::string_view one, std::string_view many) {
    return count_text(count) + " " + std::string(count == 1 ? one : many);
}

std::string lines_text(std::int64_t count) { return counted(count, "line", "lines"); }

/// The lines of a text that are not blank.
std::vector<std::string_view> lines_with_text(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        const auto begin = line.find_first_not_of(" \t\r");
        if (begin != std::string_view::npos) lines.push_back(line.substr(begin));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

/// "path: field required; count: expected integer"; empty if the text does not list the problems of a call's arguments
/// (format_issues() in schema/issue.hpp).
std::string issues_text(const std::vector<std::string_view>& lines) {
    constexpr std::string_view mark = "- ";
    std::string text;
    if (lines.empty() || !lines.front().starts_with("Invalid arguments for tool ")) return text;
    const std::size_t shown = std::min(lines.size() - 1, shown_issues);
    for (std::size_t i = 1; i <= shown; ++i) {
        if (!lines[i].starts_with(mark)) return {};
        text += (i == 1 ? "" : "; ") + std::string(lines[i].substr(mark.size()));
    }
    if (lines.size() - 1 > shown) text += "; and more";
    return text;
}

std::string change_text(const ToolExecutionEndEvent& event, std::string_view change) {
    std::string text(change);
    const auto lines = number_of(event, "lines");
    if (event.tool_name == "write" && lines) text = "wrote " + lines_text(*lines) + ", " + text;
    const auto added = number_of(event, "added");
    const auto removed = number_of(event, "removed");
    if (added && removed && !change.starts_with("creates "))
        text += " (+" + count_text(*added) + " -" + count_text(*removed) + ")";
    return text;
}

/// The end of a command and, if it failed, the last line that it printed.
std::string command_text(const ToolExecutionEndEvent& event, const std::string& ending,
                         bool failed) {
    const std::string text = event.result.text();
    std::vector<std::string_view> lines = lines_with_text(text);
    // The tool's note about the end.
    if (!lines.empty() && lines.back().starts_with('[') && lines.back().ends_with(']'))
        lines.pop_back();
    if (lines.empty() || lines.front() == "(no output)") return ending;
    if (failed) return ending + ": " + std::string(lines.back());
    const auto printed = static_cast<std::int64_t>(lines.size());
    return ending + ", " + lines_text(number_of(event, "output_lines").value_or(printed)) +
           " of output";
}

/// "HTTP 200, text/plain, 27 bytes, http://host/": the address is the last one after redirects.
std::string fetched_text(const ToolExecutionEndEvent& event, std::int64_t status,
                         std::int64_t bytes) {
    std::string text = "HTTP " + std::to_string(status);
    const Json* type = detail_of(event, "content_type");
    if (type && type->is_string() && !type->get_string().empty())
        text += ", " + std::string(type->get_string());
    text += ", " + counted(bytes, "byte", "bytes");
    const Json* url = detail_of(event, "url");
    if (url && url->is_string()) text += ", " + std::string(url->get_string());
    return text;
}

/// Empty if the details are unknown.
std::string text_of_details(const ToolExecutionEndEvent& event) {
    if (const auto todos = todos_set_by(event)) {
        const auto done = std::count_if(todos->begin(), todos->end(), [](const Todo& todo) {
            return todo.status == TodoStatus::completed;
        });
        return count_text(done) + " of " + count_text(static_cast<std::int64_t>(todos->size())) +
               " completed";
    }
    const Json* change = detail_of(event, "change");
    if (change && change->is_string()) return change_text(event, change->get_string());
    if (const auto code = number_of(event, "exit_code"))
        return command_text(event, "exit status " + std::to_string(*code), *code != 0);
    if (const auto signal = number_of(event, "signal"))
        return command_text(event, "ended by signal " + std::to_string(*signal), true);
    if (event.tool_name == "read") {
        if (const auto lines = number_of(event, "lines")) return "read " + lines_text(*lines);
        if (const auto bytes = number_of(event, "bytes"))
            return "read an image, " + counted(*bytes, "byte", "bytes");
    }
    const auto matches = number_of(event, "matches");
    const auto files = number_of(event, "files");
    if (event.tool_name == "grep" && matches && files) {
        return *matches == 0 ? "no matches"
                             : counted(*matches, "match", "matches") + " in " +
                                   counted(*files, "file", "files");
    }
    if (const auto entries = number_of(event, "entries"); event.tool_name == "list" && entries)
        return "listed " + counted(*entries, "entry", "entries");
    if (event.tool_name == "fetch") {
        const auto status = number_of(event, "status");
        const auto bytes = number_of(event, "bytes");
        if (status && bytes) return fetched_text(event, *status, *bytes);
    }
    return {};
}

constexpr std::size_t longest_question = 300;

/// The objects of a list; other members, of a model that errs, are left out.
std::vector<const JsonObject*> objects_in(const JsonObject& object, std::string_view name) {
    std::vector<const JsonObject*> found;
    const Json* const list = object.if_contains(name);
    if (!list || !list->is_array()) return found;
    for (const Json& one : list->get_array()) {
        if (const JsonObject* const item = one.if_object()) found.push_back(item);
    }
    return found;
}

std::string prompt_of(const JsonObject& question) {
    std::string text = detail::text_member(question, "prompt");
    std::replace(text.begin(), text.end(), '\n', ' ');
    return one_line(text, longest_question);
}

/// An option as the user has seen it.
std::string label_of(const JsonObject& question, const std::string& value) {
    for (const JsonObject* const option : objects_in(question, "options")) {
        const std::string label = detail::text_member(*option, "label");
        if (detail::text_member(*option, "value") == value && !label.empty()) return label;
    }
    return value;
}

std::string answer_of(const JsonObject& question, const Json& answer) {
    if (answer.is_string()) return label_of(question, std::string(answer.get_string()));
    if (!answer.is_array()) return json_text(answer);
    std::string text;
    for (const Json& one : answer.get_array())
        text += (text.empty() ? "" : ", ") + answer_of(question, one);
    return text;
}

/// An answer of several lines is indented.
void add_answer(std::string& text, const std::string& question, std::string_view answer) {
    text += question + " → ";
    for (const char c : answer) {
        text += c;
        if (c == '\n') text += "  ";
    }
    text += '\n';
}

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

std::string count_text(std::int64_t count) {
    std::string digits = std::to_string(count);
    for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
    return digits;
}

std::string short_count_text(std::int64_t count) {
    if (count < 10'000) return count_text(count);
    std::ostringstream text;
    text << std::fixed << std::setprecision(count < 100'000 ? 1 : 0)
         << static_cast<double>(count) / 1000 << "k";
    return text.str();
}

std::string age_text(std::chrono::seconds age) {
    struct Unit {
        std::int64_t seconds;
        const char* name;
    };
    static constexpr Unit units[] = {{std::int64_t{365} * 86400, "year"},
                                     {std::int64_t{30} * 86400, "month"},
                                     {std::int64_t{7} * 86400, "week"},
                                     {86400, "day"},
                                     {3600, "hour"},
                                     {60, "minute"}};
    for (const Unit& unit : units) {
        const std::int64_t count = age.count() / unit.seconds;
        if (count < 1) continue;
        return std::to_string(count) + " " + unit.name + (count == 1 ? " ago" : "s ago");
    }
    return "just now";
}

std::string arguments_text(const JsonObject& args) {
    std::string text;
    for (const auto& [key, value] : args) {
        if (!text.empty()) text += ", ";
        text += std::string(key) + ": " +
                (value.is_string() ? std::string(value.get_string()) : json_text(value));
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

std::string tool_title(const std::string& tool) {
    constexpr std::string_view prefix = "mcp__";
    const std::size_t end = tool.find("__", prefix.size());
    if (!tool.starts_with(prefix) || end == std::string::npos || end == prefix.size()) return tool;
    return tool.substr(prefix.size(), end - prefix.size()) + ":" + tool.substr(end + 2);
}

std::string call_text(const std::string& tool, const JsonObject& args) {
    if (tool == "write_todos" || tool == "ask_user") return {};
    const Json* const path = args.if_contains("path");
    const bool changes_file = tool == "write" || tool == "edit";
    if (!changes_file || !path || !path->is_string()) return arguments_text(args);
    return std::string(path->get_string());
}

std::string long_arguments_text(const JsonObject& args) {
    std::string text;
    for (const auto& [key, value] : args) {
        if (!value.is_string()) continue;
        const std::string_view shown = value.get_string();
        if (shown.find('\n') == std::string_view::npos && shown.size() < 60) continue;
        text += std::string(key) + ":\n" + std::string(shown.substr(0, saved_text));
        if (!text.ends_with('\n')) text += "\n";
    }
    return text;
}

bool shows_notice(const Notice& notice) noexcept {
    if (notice.code == "hitl_request_ended") return false;
    if (notice.code != "failover") return true;
    // The error of the run reports the last failure of a chain.
    const Json* to = notice.details.if_contains("to");
    const Json* cause = notice.details.if_contains("cause");
    return !to || !to->is_null() || !cause || *cause != Json("failed");
}

const JsonObject* edited_arguments(const Json& details) {
    const JsonObject* const all = details.if_object();
    const JsonObject* const hitl = all ? detail::object_member(*all, "hitl") : nullptr;
    return hitl ? detail::object_member(*hitl, "edited_args") : nullptr;
}

void EditedCalls::note(const AgentEvent& event) {
    if (const auto* const asked = event.get_if<HitlRequestEvent>()) {
        const auto* const call = std::get_if<ApproveRequest>(&asked->request.payload);
        // The calls of a sub-agent have no events here.
        if (call && bub::asking_agents(asked->request).empty())
            asked_[asked->request.request_id] = call->tool_call_id;
        return;
    }
    const auto* const given = event.get_if<HitlAnswerEvent>();
    const auto found = given ? asked_.find(given->request_id) : asked_.end();
    if (found == asked_.end()) return;
    const JsonObject* const answer = given->answer.if_object();
    const JsonObject* const edited =
        answer ? detail::object_member(*answer, "edited_args") : nullptr;
    if (edited) edits_[found->second] = *edited;
    asked_.erase(found);
}

const JsonObject* EditedCalls::find(const std::string& tool_call_id) const {
    const auto found = edits_.find(tool_call_id);
    return found == edits_.end() ? nullptr : &found->second;
}

std::string outcome_text(const ToolExecutionEndEvent& event) {
    if (const std::string text = text_of_details(event); !text.empty()) return visible(text);
    const std::string text = event.result.text();
    const std::vector<std::string_view> lines = lines_with_text(text);
    if (lines.empty()) return event.is_error ? "failed" : "done";
    if (event.is_error) {
        if (const std::string issues = issues_text(lines); !issues.empty()) return visible(issues);
    }
    // The answers are shown below.
    if (event.tool_name == "ask_user" && !event.is_error) return "answered";
    // The last line of an error is the most specific.
    std::string line = visible(event.is_error ? lines.back() : lines.front());
    if (lines.size() > 1)
        line += " (+" + lines_text(static_cast<std::int64_t>(lines.size()) - 1) + ")";
    return line;
}

CommandOutput last_output_lines(std::string_view output, std::size_t max_lines) {
    const std::size_t last = output.find_last_not_of(" \t\r\n");
    output = output.substr(0, last == std::string_view::npos ? 0 : last + 1);
    std::size_t begin = output.size();
    std::size_t lines = 0;
    while (begin > 0 && lines < max_lines) {
        const std::size_t feed = output.rfind('\n', begin - 1);
        ++lines;
        if (feed == std::string_view::npos) {
            begin = 0;
        } else {
            begin = feed;
        }
    }
    CommandOutput end;
    std::string_view tail = output.substr(begin);
    if (tail.starts_with('\n')) tail.remove_prefix(1);
    const std::string_view before = output.substr(0, begin);
    if (begin > 0)
        end.earlier = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    while (!tail.empty()) {
        std::string_view line = tail.substr(0, tail.find('\n'));
        tail.remove_prefix(std::min(line.size() + 1, tail.size()));
        while (line.ends_with('\r')) line.remove_suffix(1);
        const std::size_t overwritten = line.rfind('\r');
        if (overwritten != std::string_view::npos) line.remove_prefix(overwritten + 1);
        end.tail += std::string(line) + "\n";
    }
    return end;
}

CommandOutput command_output(const ToolExecutionEndEvent& event, std::size_t max_lines) {
    if (!number_of(event, "exit_code") && !number_of(event, "signal")) return {};
    const std::string text = event.result.text();
    std::string_view output = text;
    const std::size_t feed = output.rfind('\n');
    const std::string_view last = feed == std::string::npos ? output : output.substr(feed + 1);
    if (last.starts_with('[') && last.ends_with(']'))
        output = output.substr(0, feed == std::string::npos ? 0 : feed);
    if (output == "(no output)") output = {};
    CommandOutput end = last_output_lines(output, max_lines);
    const auto shown =
        static_cast<std::int64_t>(std::count(end.tail.begin(), end.tail.end(), '\n'));
    if (const auto printed = number_of(event, "output_lines"); printed && *printed > shown)
        end.earlier = static_cast<std::size_t>(*printed - shown);
    return end;
}

std::string whole_output_file(const ToolExecutionEndEvent& event) {
    const Json* const file = detail_of(event, "output_file");
    return file && file->is_string() ? std::string(file->get_string()) : std::string();
}

TerminalText todo_view(const std::vector<Todo>& todos, const Style& style, std::size_t columns,
                       std::size_t max_items) {
    const auto open = std::find_if(todos.begin(), todos.end(), [](const Todo& todo) {
        return todo.status != TodoStatus::completed;
    });
    // The last completed item stays, so that the user sees what has changed.
    std::size_t first = static_cast<std::size_t>(open - todos.begin());
    first = first > 0 ? first - 1 : 0;
    if (max_items == 0 || todos.size() <= max_items) first = 0;
    const std::size_t last =
        max_items == 0 ? todos.size() : std::min(todos.size(), first + max_items);
    TerminalText text;
    const auto count = [&](std::size_t number, TerminalView what) {
        text +=
            "    " + style.dim() + "… " + TerminalText::number(number) + what + style.off() + "\n";
    };
    if (first > 0) count(first, " completed");
    for (std::size_t i = first; i < last; ++i) {
        const Todo& todo = todos[i];
        const bool active = todo.status == TodoStatus::in_progress;
        const TerminalView color = todo.status == TodoStatus::completed ? style.dim()
                                   : active                             ? style.bold()
                                                                        : TerminalView();
        text += "    " + color + for_terminal(todo_mark(todo.status)) + " " +
                line_for_terminal(todo.content, columns > 16 ? columns - 6 : 10) +
                (color.empty() ? TerminalView() : style.off()) + "\n";
    }
    if (last < todos.size()) count(todos.size() - last, " more");
    return text;
}

DiffSource diff_source_of(const ToolExecutionEndEvent& event) {
    DiffSource source;
    const Json* diff = detail_of(event, "diff");
    if (!detail_of(event, "change") || !diff || !diff->is_string()) return source;
    source.diff = diff->get_string();
    const Json* path = detail_of(event, "path");
    if (path && path->is_string()) source.path = path->get_string();
    source.hidden =
        static_cast<std::size_t>(std::max<std::int64_t>(0, number_of(event, "hidden").value_or(0)));
    return source;
}

std::string questions_text(const JsonObject& arguments) {
    std::string text;
    for (const JsonObject* const question : objects_in(arguments, "questions")) {
        std::string options;
        for (const JsonObject* const option : objects_in(*question, "options"))
            options += (options.empty() ? "" : ", ") + detail::text_member(*option, "label");
        text += prompt_of(*question) + (options.empty() ? "" : " (" + options + ")") + "\n";
    }
    return text;
}

std::string answers_text(const JsonObject& arguments, const Json& details) {
    const JsonObject* const all = details.if_object();
    const JsonObject* const hitl = all ? detail::object_member(*all, "hitl") : nullptr;
    const JsonObject* const answers = hitl ? detail::object_member(*hitl, "answers") : nullptr;
    std::string text;
    if (!answers) return text;
    JsonObject left = *answers;
    for (const JsonObject* const question : objects_in(arguments, "questions")) {
        const std::string key = detail::text_member(*question, "key");
        const Json* const answer = left.if_contains(key);
        add_answer(text, prompt_of(*question),
                   answer ? answer_of(*question, *answer) : std::string("(no answer)"));
        left.erase(key);
    }
    // Without the call only the keys are known.
    for (const auto& [key, answer] : left)
        add_answer(text, std::string(key), answer_of(JsonObject(), answer));
    return text;
}

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
