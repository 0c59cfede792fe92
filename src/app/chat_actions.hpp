#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/task.hpp>

#include "chat_commands.hpp"
#include "conversation/pipeline.hpp"
#include "render/renderer.hpp"

namespace cubepi::app {

/// The commands of a chat that concern its session: `/new`, `/status`, `/cost`, `/copy` and `/export`. Used on one
/// executor.
class ChatActions {
public:
    /// Both outlive the object.
    ChatActions(Pipeline& pipeline, Renderer& renderer);

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
    Renderer& renderer_;
};

/// The sequence with which a terminal copies `text` to the clipboard (OSC 52).
TerminalText clipboard_sequence(std::string_view text);

}  // namespace cubepi::app
