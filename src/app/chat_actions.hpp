#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <cubepi/core/task.hpp>

#include "chat_commands.hpp"
#include "pipeline.hpp"

namespace cubepi::app {

/// The commands of a chat that concern its session: `/new`, `/status`, `/cost`, `/copy` and `/export`. Used on one
/// executor.
class ChatActions {
public:
    struct Parts {
        std::function<void(const std::string& text)> print = {};
        std::function<void(const std::string& text)> problem = {};
        /// Writes an escape sequence to the terminal; null: the terminal knows none.
        std::function<void(const TerminalText& sequence)> write_control = {};
        std::function<void()> on_new_session = {};
    };
    /// `pipeline` outlives it.
    ChatActions(Pipeline& pipeline, Parts parts);

    /// Performs one of these commands; failures are shown. Does nothing for other commands.
    Task<> perform(ChatAction action, std::string argument);

private:
    Task<> act(ChatAction action, std::string argument);
    void begin_session();
    Task<> show_status();
    Task<> show_cost();
    Task<> copy_answer();
    Task<> export_to(std::string file);
    Task<MessageList> conversation() const;

    Pipeline& pipeline_;
    Parts parts_;
};

/// The sequence with which a terminal copies `text` to the clipboard (OSC 52).
TerminalText clipboard_sequence(std::string_view text);

}  // namespace cubepi::app
