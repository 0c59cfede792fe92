#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/workspace/file_change.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "../terminal/prompter.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

/// The text of a question about a call: its size, its beginning and its end as far as they fit on the screen, and the rest
/// page by page. Each row of the call's content begins with a frame.
class QuestionView {
public:
    struct Call {
        const std::string& tool;
        const JsonObject& args;
        const RuleDecision& decision;
        const FileChange* change = nullptr;  ///< of write and edit, if known
        std::string agents = {};             ///< bub::asking_agents()
    };
    QuestionView(const Call& call, const Style& style, ScreenSize screen);

    /// The question, as far as it fits on the screen.
    TerminalText opening();
    /// True once every row has been on the screen.
    bool complete() const noexcept { return hidden_begin_ >= hidden_end_; }
    /// Returns the next rows that were not shown yet, one screen at most.
    TerminalText next_page();
    /// Returns all rows that were not shown yet.
    TerminalText rest();

private:
    void add_call(const Call& call);
    void add_change(const FileChange& change, const JsonObject& args);
    void add_remark(TerminalView style, TerminalView text);
    void add_arguments(const std::string& tool, const JsonObject& args);
    void add_value(const std::string& name, std::string_view value, Frame frame,
                   TerminalView style);
    void add_notes(const RuleDecision& decision);
    TerminalText rows(std::size_t begin, std::size_t end) const;
    TerminalText hidden_note() const;

    Style style_;
    ScreenSize screen_;
    std::vector<TerminalText> content_;
    std::vector<TerminalText> notes_;
    std::size_t hidden_begin_ = 0;  // rows of the content that were not shown yet
    std::size_t hidden_end_ = 0;
};

/// The complete change of a file.
TerminalText change_text(const FileChange& change, const Style& style, std::size_t columns);

}  // namespace cubepi::app
