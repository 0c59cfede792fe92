#include "transcript.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <bub/tape/prompt_context.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_text.hpp>

#include "terminal/event_text.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"
#include "terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

/// Anchors are only messages for a model.
MessageList messages_of(std::vector<bub::TapeEntry> entries) {
    std::erase_if(
        entries, [](const bub::TapeEntry& entry) { return entry.kind == bub::entry_kind::anchor; });
    return bub::agent_messages(entries);
}

/// Those that read_end() has taken, newest first.
struct NewestEntries {
    std::vector<bub::TapeEntry> found = {};
    std::size_t bytes = 0;
};

bool is_prompt(const Message& message) {
    return message.role() == Role::user && !is_synthetic_message(message);
}

/// The prompt as the user has entered it.
std::string prompt_text(const Message& message) {
    return std::string(bub::without_context(message.text()));
}

/// A fence that is longer than every run of backticks in `text`.
std::string fence_for(std::string_view text) {
    std::size_t longest = 2;
    std::size_t run = 0;
    for (const char c : text) {
        run = c == '`' ? run + 1 : 0;
        longest = std::max(longest, run);
    }
    return std::string(longest + 1, '`');
}

void add_fenced(std::string& to, std::string_view text, std::string_view language) {
    const std::string fence = fence_for(text);
    to += fence + std::string(language) + "\n" + std::string(text);
    if (!text.ends_with('\n')) to += '\n';
    to += fence + "\n\n";
}

std::size_t rows_of(std::string_view text, std::size_t columns) {
    std::size_t rows = 0;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        rows += 1 + display_width(text.substr(at, end - at)) / std::max<std::size_t>(columns, 1);
        at = end + 1;
    }
    return rows;
}

/// Estimates the rows of a message; a card of a tool has two.
std::size_t rows_of(const Message& message, std::size_t columns) {
    if (message.role() == Role::tool_result) return 2;
    const std::string text = is_prompt(message) ? prompt_text(message) : message.text();
    return text.empty() ? 0 : rows_of(text, columns) + 1;
}

void add_work(SessionUsage& sums, const SubagentWork& work) {
    const auto turns = static_cast<std::size_t>(work.turns);
    sums.calls += turns;
    sums.tokens_in += work.tokens_in;
    sums.tokens_out += work.tokens_out;
    sums.cost += work.cost.value_or(0);
    if (!work.cost) sums.unpriced += turns;
}

/// The work of a sub-agent that the user has called by a command, whose result is not a message.
std::optional<SubagentWork> work_of_command(const bub::TapeEntry& entry) {
    if (bub::entry_name(entry) != "command") return std::nullopt;
    const Json* const data = entry.payload.if_contains("data");
    return data ? subagent_work(*data) : std::nullopt;
}

bool has_result(const MessageList& messages, const SubagentTask& task) {
    return std::any_of(messages.begin(), messages.end(), [&](const Message& message) {
        return is_subagent_task_result(message) && message.id().ends_with("/" + task.id);
    });
}

/// The last `rows` lines of a long text, from the beginning of a paragraph if possible.
std::string last_lines(const std::string& text, std::size_t rows) {
    std::size_t from = text.size();
    for (std::size_t i = 0; i < rows && from > 0; ++i) {
        const std::size_t before = text.rfind('\n', from - 1);
        from = before == std::string::npos ? 0 : before;
    }
    if (from == 0) return text;
    const std::size_t paragraph = text.find("\n\n", from);
    const bool near_enough = paragraph != std::string::npos && paragraph + 2 < text.size();
    return "…\n\n" + text.substr(near_enough ? paragraph + 2 : from + 1);
}

void replay_tool(const MessageList& messages, std::size_t position, const Replay& replay) {
    const ToolResultMessage& result = *messages[position].tool_result();
    ToolExecutionStartEvent start;
    start.tool_call_id = result.tool_call_id;
    start.tool_name = result.tool_name;
    if (const ToolCall* call = call_of_result(messages, position)) start.args = call->arguments;
    ToolExecutionEndEvent end;
    end.tool_call_id = result.tool_call_id;
    end.tool_name = result.tool_name;
    end.result.content = result.content;
    end.result.details = result.details;
    end.is_error = result.is_error;
    if (result.is_error) end.result.is_error = true;
    AgentEvent event;
    event.body = std::move(start);
    replay.tool(event);
    event.body = std::move(end);
    replay.tool(event);
}

void replay_thinking(const AssistantMessage& answer, const Replay& replay) {
    for (const AssistantContent& block : answer.content) {
        const auto* thinking = std::get_if<ThinkingContent>(&block);
        if (thinking && !thinking->thinking.empty()) replay.thinking(thinking->thinking);
    }
}

constexpr std::string_view page_template =
#include "session_page_html.inc"
    ;

constexpr std::array<std::string_view, 4> shown_pictures = {"image/png", "image/jpeg", "image/gif",
                                                            "image/webp"};

bool is_base64(std::string_view text) {
    constexpr std::string_view allowed =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

/// Text with its fenced code blocks set off. The rest of its Markdown stays as written.
std::string prose(std::string_view text) {
    std::string html;
    std::string part;
    bool code = false;
    const auto end_part = [&] {
        if (part.find_first_not_of(" \n") != std::string::npos)
            html += (code ? "<pre>" : "<div class=\"text\">") + html_text(part) +
                    (code ? "</pre>\n" : "</div>\n");
        part.clear();
    };
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (line.starts_with("```")) {
            end_part();
            code = !code;
            continue;
        }
        part += std::string(line) + (text.empty() ? "" : "\n");
    }
    end_part();
    return html;
}

std::string folded(const std::string& summary, std::string_view text) {
    return "<details><summary>" + summary + "</summary><pre>" + html_text(text) +
           "</pre></details>\n";
}

std::string picture(const ImageContent& image) {
    const std::string type = image.media_type.str();
    const bool shown =
        std::find(shown_pictures.begin(), shown_pictures.end(), type) != shown_pictures.end();
    if (!shown || !is_base64(image.source)) return "<p class=\"facts\">[picture]</p>\n";
    return "<p><img alt=\"picture\" src=\"data:" + type + ";base64," + image.source + "\"></p>\n";
}

template <class Blocks>
std::string pictures(const Blocks& content) {
    std::string html;
    for (const auto& block : content) {
        if (const auto* image = std::get_if<ImageContent>(&block)) html += picture(*image);
    }
    return html;
}

std::string article(const char* kind, const std::string& heading, const std::string& content) {
    if (content.empty()) return {};
    return "<article class=\"" + std::string(kind) + "\"><h2>" + heading + "</h2>\n" + content +
           "</article>\n";
}

std::string answer_html(const AssistantMessage& answer) {
    std::string html;
    for (const AssistantContent& block : answer.content) {
        if (const auto* text = std::get_if<TextContent>(&block)) html += prose(text->text);
        if (const auto* image = std::get_if<ImageContent>(&block)) html += picture(*image);
        const auto* thinking = std::get_if<ThinkingContent>(&block);
        if (thinking && !thinking->thinking.empty()) html += folded("thinking", thinking->thinking);
        const auto* const call = std::get_if<ToolCall>(&block);
        if (!call) continue;
        const std::string asked =
            call->name == "ask_user" ? questions_text(call->arguments) : std::string();
        html += folded("call <code>" + html_text(call->name.str()) + "</code>",
                       asked.empty() ? json_text(call->arguments) : asked);
    }
    return html;
}

std::string message_html(const MessageList& messages, std::size_t position) {
    const Message& message = messages[position];
    if (const AssistantMessage* answer = message.assistant())
        return article("assistant", "Assistant", answer_html(*answer));
    if (const ToolResultMessage* result = message.tool_result()) {
        std::string summary = "result of <code>" + html_text(result->tool_name.str()) + "</code>";
        if (result->is_error) summary += " <span class=\"failed\">failed</span>";
        return folded(summary, result_text(messages, position)) + pictures(result->content);
    }
    if (message.role() != Role::user || is_synthetic_message(message)) return {};
    std::string html = prose(bub::without_context(message.text()));
    if (const UserMessage* user = message.user()) html += pictures(user->content);
    return article("user", "User", html);
}

}  // namespace

Task<MessageList> read_conversation(std::shared_ptr<bub::TapeStore> tapes, std::string tape) {
    std::vector<bub::TapeEntry> entries = co_await tapes->fetch(std::move(tape), bub::TapeQuery());
    co_return messages_of(std::move(entries));
}

Task<MessageList> read_beginning(std::shared_ptr<bub::TapeStore> tapes, std::string tape,
                                 std::size_t most) {
    bub::TapeQuery oldest =
        bub::TapeQuery().kinds({std::string(bub::entry_kind::message)}).limit(most);
    std::vector<bub::TapeEntry> found = co_await tapes->fetch(std::move(tape), std::move(oldest));
    co_return messages_of(std::move(found));
}

Task<MessageList> read_end(std::shared_ptr<bub::TapeStore> tapes, std::string tape,
                           std::size_t entries, std::size_t bytes) {
    const auto newest = std::make_shared<NewestEntries>();
    std::function<bool(const bub::TapeEntry&)> take = [newest, bytes](const bub::TapeEntry& entry) {
        // A store that repeats a transaction begins again.
        const bool begins = newest->found.empty() || entry.id >= newest->found.back().id;
        if (begins) *newest = NewestEntries();
        newest->bytes += json_text(entry.payload).size() + json_text(entry.meta).size();
        newest->found.push_back(entry);
        return newest->bytes < bytes;
    };
    bub::TapeQuery query = bub::TapeQuery().newest_first().limit(entries);
    co_await tapes->visit(std::move(tape), std::move(query), std::move(take));
    std::reverse(newest->found.begin(), newest->found.end());
    co_return messages_of(std::move(newest->found));
}

std::string title_of(const MessageList& messages) {
    const auto prompt = std::find_if(messages.begin(), messages.end(), is_prompt);
    return prompt == messages.end() ? std::string() : one_line(prompt_text(*prompt), 60);
}

std::string last_answer(const MessageList& messages) {
    for (auto message = messages.end(); message != messages.begin();) {
        --message;
        if (message->role() != Role::assistant) continue;
        if (std::string text = message->text(); !text.empty()) return text;
    }
    return {};
}

const ToolCall* call_of_result(const MessageList& messages, std::size_t position) {
    const ToolResultMessage* const result = messages[position].tool_result();
    for (std::size_t i = position; result && i > 0; --i) {
        const AssistantMessage* const answer = messages[i - 1].assistant();
        if (!answer) continue;
        for (const ToolCall* call : answer->tool_calls()) {
            if (call->id == result->tool_call_id) return call;
        }
    }
    return nullptr;
}

namespace {

/// A call of ask_user is text, as its user has seen it; other calls are JSON.
void add_call(std::string& text, const ToolCall& call) {
    text += "Tool call: `" + call.name.str() + "`\n\n";
    const std::string questions =
        call.name == "ask_user" ? questions_text(call.arguments) : std::string();
    if (questions.empty()) {
        add_fenced(text, json_text(call.arguments), "json");
    } else {
        add_fenced(text, questions, "text");
    }
}

void add_result(std::string& text, const MessageList& messages, std::size_t position) {
    const ToolResultMessage& result = *messages[position].tool_result();
    text += "### Result of `" + result.tool_name.str() + "`" + (result.is_error ? " (error)" : "") +
            "\n\n";
    add_fenced(text, result_text(messages, position), "text");
}

}  // namespace

std::string result_text(const MessageList& messages, std::size_t position) {
    const ToolResultMessage* const result = messages[position].tool_result();
    std::string answers;
    if (result && result->tool_name == "ask_user") {
        const ToolCall* const call = call_of_result(messages, position);
        answers = answers_text(call ? call->arguments : JsonObject(), result->details);
    }
    if (!answers.empty()) return answers;
    const JsonObject* const edited = result ? edited_arguments(result->details) : nullptr;
    std::string text;
    if (edited) text = "(The user changed the arguments to " + json_text(*edited) + ")\n\n";
    return text + messages[position].text();
}

std::string to_markdown(const MessageList& messages, std::string_view title) {
    std::string text = "# " + std::string(title) + "\n\n";
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const Message& message = messages[i];
        if (message.role() == Role::user) {
            if (!is_prompt(message)) continue;
            text += "## User\n\n" + prompt_text(message) + "\n\n";
        } else if (const AssistantMessage* answer = message.assistant()) {
            const std::string content = answer->text();
            const std::vector<const ToolCall*> calls = answer->tool_calls();
            if (content.empty() && calls.empty()) continue;
            text += "## Assistant\n\n";
            if (!content.empty()) text += content + "\n\n";
            for (const ToolCall* call : calls) add_call(text, *call);
        } else if (message.tool_result()) {
            add_result(text, messages, i);
        }
    }
    return text;
}

std::vector<EarlierPrompt> prompts_of(const MessageList& messages) {
    std::vector<EarlierPrompt> prompts;
    std::string run;
    for (const Message& message : messages) {
        if (message.run_id().empty() || message.run_id() == run) continue;
        run = message.run_id().str();
        if (is_prompt(message)) prompts.emplace_back().text = prompt_text(message);
        if (!prompts.empty()) prompts.back().runs.push_back(run);
    }
    return prompts;
}

SessionUsage usage_of(const MessageList& messages, const Model& asked) {
    SessionUsage sums;
    for (const Message& message : messages) {
        if (const auto work = subagent_work(message)) add_work(sums, *work);
        const AssistantMessage* answer = message.assistant();
        if (!answer || !answer->usage) continue;
        const Usage& usage = *answer->usage;
        const std::int64_t in = usage.input_tokens.value_or(0) +
                                usage.cache_read_tokens.value_or(0) +
                                usage.cache_write_tokens.value_or(0);
        ++sums.calls;
        sums.tokens_in += in;
        sums.tokens_out += usage.output_tokens.value_or(0);
        sums.context = in + usage.output_tokens.value_or(0);
        if (!answer->model_id.empty()) sums.last_model = answer->model_id.str();
        const std::optional<double> cost = cost_of(*answer, asked);
        if (cost) {
            sums.cost += *cost;
        } else {
            ++sums.unpriced;
        }
    }
    return sums;
}

Task<SessionUsage> read_usage(std::shared_ptr<bub::TapeStore> tapes, std::string tape, Model asked,
                              std::vector<SubagentTask> tasks) {
    const std::vector<bub::TapeEntry> entries =
        co_await tapes->fetch(std::move(tape), bub::TapeQuery());
    const MessageList messages = messages_of(entries);
    SessionUsage sums = usage_of(messages, asked);
    for (const bub::TapeEntry& entry : entries) {
        if (const auto work = work_of_command(entry)) add_work(sums, *work);
    }
    for (const SubagentTask& task : tasks) {
        if (!has_result(messages, task)) add_work(sums, work_of(task.result));
    }
    std::optional<std::int64_t> context;
    for (const bub::TapeEntry& entry : entries) {
        const bool is_answer = entry.kind == bub::entry_kind::message &&
                               detail::string_member(entry.payload, "role") == "assistant";
        if (is_answer) context.reset();
        if (bub::entry_name(entry) != "compaction") continue;
        const JsonObject* data = detail::object_member(entry.payload, "data");
        const JsonObject* counts = data ? detail::object_member(*data, "usage") : nullptr;
        if (!counts) continue;
        context = detail::integer_member(*data, "after");
        if (counts->empty()) continue;
        const Usage usage = usage_from_json(*counts);
        ++sums.calls;
        sums.tokens_in += usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0) +
                          usage.cache_write_tokens.value_or(0);
        sums.tokens_out += usage.output_tokens.value_or(0);
        const Json* cost = data->if_contains("cost");
        if (cost && cost->is_number()) {
            sums.cost += cost->to_number<double>();
        } else {
            ++sums.unpriced;
        }
    }
    if (context) sums.context = *context;
    co_return sums;
}

std::size_t replay_end(const MessageList& messages, std::size_t columns, std::size_t rows,
                       const Replay& replay) {
    auto first = messages.end();
    for (std::size_t used = 0; first != messages.begin();) {
        used += rows_of(*std::prev(first), columns);
        if (used > rows && first != messages.end()) break;
        --first;
    }
    for (auto message = first; message != messages.end(); ++message) {
        if (is_prompt(*message)) {
            if (replay.prompt) replay.prompt(prompt_text(*message));
        } else if (message->tool_result()) {
            const auto position = static_cast<std::size_t>(message - messages.begin());
            replay_tool(messages, position, replay);
        } else if (const AssistantMessage* answer = message->assistant()) {
            if (replay.thinking) replay_thinking(*answer, replay);
            const std::string text = answer->text();
            if (!text.empty() && replay.answer) replay.answer(last_lines(text, rows));
        }
    }
    return static_cast<std::size_t>(first - messages.begin());
}

std::string html_text(std::string_view text) {
    std::string html;
    for (const char c : printable(text)) {
        switch (c) {
            case '&': html += "&amp;"; break;
            case '<': html += "&lt;"; break;
            case '>': html += "&gt;"; break;
            case '"': html += "&quot;"; break;
            case '\'': html += "&#39;"; break;
            default: html += c;
        }
    }
    return html;
}

std::string session_page(const MessageList& messages, const SessionPageHead& head) {
    std::string page;
    std::string_view rest = page_template;
    for (;;) {
        const std::size_t at = rest.find("{{");
        page += rest.substr(0, at);
        if (at == std::string_view::npos) return page;
        const std::size_t end = rest.find("}}", at);
        const std::string_view name = rest.substr(at + 2, end - at - 2);
        if (name == "title") page += html_text(head.title);
        if (name == "details") page += html_text(head.details);
        if (name == "messages") {
            for (std::size_t i = 0; i < messages.size(); ++i) page += message_html(messages, i);
        }
        rest.remove_prefix(end + 2);
    }
}

}  // namespace cubepi::app
