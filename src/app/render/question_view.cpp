#include "question_view.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/workspace/command_policy.hpp>

#include "../terminal/code_view.hpp"
#include "../terminal/event_text.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

// The prompt, the status line below it, and the line that says what is hidden.
constexpr std::size_t rows_around = 5;
constexpr std::size_t fewest_rows = 4;
// No user reads every page of a longer value: its ends are shown, and the question states how much is missing.
constexpr std::size_t longest_value = 1024 * 1024;
constexpr std::size_t longest_name = 40;

std::size_t lines_in(std::string_view text) {
    const auto feeds = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    return feeds + (text.empty() || text.ends_with('\n') ? 0 : 1);
}

TerminalText counted(std::size_t count, TerminalView one, TerminalView many) {
    return TerminalText::number(count) + " " + (count == 1 ? one : many);
}

TerminalText size_text(std::string_view value) {
    return counted(lines_in(value), "line", "lines") + ", " +
           counted(value.size(), "byte", "bytes");
}

/// Bytes of the beginning of `text` that end between characters.
std::size_t whole_prefix(std::string_view text, std::size_t size) {
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
    return size;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

void add_diff(std::vector<TerminalText>& rows, const FileChange& change, const Style& style,
              std::size_t columns) {
    const DiffView view = diff_view(DiffSource{change.diff, change.path, change.hidden}, style, 0);
    const std::string& text = view.text.str();
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        // The diff has its own margin: line numbers.
        add_framed(rows, TerminalText::assembled(text.substr(at, end - at)), columns,
                   Frame{{}, "      ┊ "});
        at = end + 1;
    }
}

}  // namespace

namespace {

/// The sentence of the rules without the arguments, which follow it, and with the name of an MCP tool as the chat shows it.
std::string question_of(const QuestionView::Call& call) {
    std::string question(first_line(call.decision.question));
    question.resize(std::min(question.find(" with {"), question.size()));
    const std::size_t name = question.find(call.tool);
    if (name != std::string::npos) question.replace(name, call.tool.size(), tool_title(call.tool));
    return question;
}

/// The effect of the answer "always". The digest of a definition tells the user nothing.
TerminalText always_text(const ApprovalRule& rule) {
    if (rule.tool == "shell" && rule.match.starts_with("cd ")) {
        CommandRule command = CommandRule::parse(rule.match);
        const std::string directory = std::exchange(command.directory, {});
        std::error_code gone;
        const std::filesystem::path here = std::filesystem::current_path(gone);
        const bool is_here = !gone && directory == here.string();
        return "always adds: shell: " + spelled_out(command.text()) + " (only in " +
               (is_here ? TerminalText("this directory") : spelled_out(directory)) + ")";
    }
    if (!rule.match.starts_with("sha256:")) return "always adds: " + spelled_out(rule.text());
    return "always allows " + spelled_out(tool_title(rule.tool)) + ", as its server defines it now";
}

}  // namespace

QuestionView::QuestionView(const Call& call, const Style& style, ScreenSize screen)
    : style_(style), screen_(screen) {
    add_call(call);
    add_notes(call.decision);
    const std::size_t taken = notes_.size() + rows_around;
    const std::size_t visible_rows =
        std::max(screen_.rows > taken ? screen_.rows - taken : 0, fewest_rows);
    if (content_.size() <= visible_rows) return;
    // More of the beginning, since it names what is called; the end, since a command may hide its last part there.
    const std::size_t end = std::max<std::size_t>(visible_rows / 3, 1);
    hidden_begin_ = visible_rows - end;
    hidden_end_ = content_.size() - end;
}

void QuestionView::add_call(const Call& call) {
    TerminalText sign = style_.yellow() + "? " + style_.off();
    const Frame frame{{}, "  ┊ "};
    // The question of other calls names them.
    if (!call.agents.empty() && (call.change || call.tool == "shell"))
        sign += "The sub-agent " + spelled_out(call.agents) + " asks: ";
    if (call.change) {
        TerminalText title =
            sign + spelled_out(call.tool) + " " + spelled_out(call.change->summary());
        if (call.change->compared && call.change->kind != FileChange::Kind::creates)
            title += " (+" + TerminalText::number(call.change->added) + " -" +
                     TerminalText::number(call.change->removed) + ")";
        add_framed(content_, title, screen_.columns, frame);
        return add_change(*call.change, call.args);
    }
    TerminalText title("Run this command");
    if (call.tool != "shell") title = spelled_out(question_of(call));
    if (call.tool == "shell" && detail::flag_member(call.args, "without_sandbox"))
        title += " once without the sandbox";
    add_framed(content_, sign + title, screen_.columns, frame);
    add_arguments(call.tool, call.args);
}

void QuestionView::add_change(const FileChange& change, const JsonObject& args) {
    if (!change.compared) {
        add_remark(style_.dim(), "No diff: the file is binary or too large to compare.");
        return add_arguments(change.kind == FileChange::Kind::edits ? "edit" : "write", args);
    }
    if (change.diff.empty()) {
        return add_remark(style_.dim(), "The content stays the same.");
    }
    add_diff(content_, change, style_, screen_.columns);
}

/// Adds a row that is not part of the call.
void QuestionView::add_remark(TerminalView style, TerminalView text) {
    add_framed(content_, style + text + style_.off(), screen_.columns, Frame{"  ", "  "});
}

void QuestionView::add_arguments(const std::string& tool, const JsonObject& args) {
    constexpr std::array<std::string_view, 4> standard{"shell", "write", "edit", "fetch"};
    const bool is_standard = std::find(standard.begin(), standard.end(), tool) != standard.end();
    for (const auto& [key, value] : args) {
        // Options of the standard tools that are off would only hide the rest. Of other tools, "off" may be what matters.
        const bool is_off = value.is_null() || (value.is_bool() && !value.get_bool());
        if (is_off && is_standard) continue;
        const std::string name(key);
        const std::string text =
            value.is_string() ? std::string(value.get_string()) : json_text(value);
        if (tool == "edit" && name == "old_text") {
            add_value(name, text, Frame{"  │ - ", "  ┊ - "}, style_.red());
        } else if (tool == "edit" && name == "new_text") {
            add_value(name, text, Frame{"  │ + ", "  ┊ + "}, style_.green());
        } else {
            add_value(name, text, Frame(), {});
        }
    }
}

void QuestionView::add_value(const std::string& name, std::string_view value, Frame frame,
                             TerminalView style) {
    const TerminalText label = line_for_terminal(visible(name), longest_name);
    const TerminalText line =
        style_.dim() + label + ": " + style_.off() + spelled_out(value.substr(0, 400));
    const bool short_one = value.size() < 400 && style.empty() &&
                           value.find('\n') == std::string_view::npos &&
                           display_width(line) + 6 < screen_.columns;
    if (short_one) return add_framed(content_, line, screen_.columns, frame);
    add_remark(style_.dim(), label + " (" + size_text(value) + "):");
    if (value.size() <= longest_value) {
        return add_framed_lines(content_, value, screen_.columns, frame, style,
                                style.empty() ? TerminalView() : style_.off());
    }
    const std::size_t begin = whole_prefix(value, longest_value / 2);
    const std::size_t end = whole_prefix(value, value.size() - longest_value / 2);
    add_framed_lines(content_, value.substr(0, begin), screen_.columns, frame);
    add_remark(style_.red(), TerminalText::number(end - begin) +
                                 " bytes in the middle are not shown: the value is too long.");
    add_framed_lines(content_, value.substr(end), screen_.columns, frame);
}

/// Adds what the rules state about the call, and the rule that "always" would add.
void QuestionView::add_notes(const RuleDecision& decision) {
    const Frame frame{"  ", "  "};
    const std::size_t feed = decision.question.find('\n');
    if (feed != std::string::npos) {
        std::string text =
            wrapped(visible(decision.question.substr(feed + 1)), screen_.columns - 4);
        add_framed_lines(notes_, text, screen_.columns, frame, style_.dim(), style_.off());
    }
    if (decision.always) {
        add_framed(notes_, style_.dim() + always_text(*decision.always) + style_.off(),
                   screen_.columns, Frame{"  ", "  ┊ "});
    }
}

TerminalText QuestionView::rows(std::size_t begin, std::size_t end) const {
    TerminalText text;
    for (std::size_t i = begin; i < std::min(end, content_.size()); ++i) text += content_[i] + "\n";
    return text;
}

TerminalText QuestionView::hidden_note() const {
    if (complete()) return {};
    const TerminalText note = "  " + style_.yellow() + "… " +
                              counted(hidden_end_ - hidden_begin_, "row", "rows") + " of " +
                              TerminalText::number(content_.size()) + " not shown" + style_.off();
    return shortened(note, screen_.columns - 1) + "\n";
}

TerminalText QuestionView::opening() {
    TerminalText text = rows(0, complete() ? content_.size() : hidden_begin_);
    if (!complete()) text += hidden_note() + rows(hidden_end_, content_.size());
    for (const TerminalText& note : notes_) text += note + "\n";
    return text;
}

TerminalText QuestionView::next_page() {
    const std::size_t page = std::max<std::size_t>(screen_.rows > 6 ? screen_.rows - 6 : 1, 4);
    const std::size_t begin = hidden_begin_;
    hidden_begin_ = std::min(begin + page, hidden_end_);
    return rows(begin, hidden_begin_) + hidden_note();
}

TerminalText change_text(const FileChange& change, const Style& style, std::size_t columns) {
    std::vector<TerminalText> rows;
    add_diff(rows, change, style, columns);
    TerminalText text;
    for (const TerminalText& row : rows) text += row + "\n";
    return text;
}

TerminalText QuestionView::rest() {
    const std::size_t begin = std::exchange(hidden_begin_, hidden_end_);
    return rows(begin, hidden_end_);
}

}  // namespace cubepi::app
