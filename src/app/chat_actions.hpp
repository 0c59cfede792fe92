#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message.hpp>
#include <cubepi/core/task.hpp>

#include "chat_commands.hpp"
#include "conversation/pipeline.hpp"
#include "conversation/tool_approval.hpp"
#include "render/renderer.hpp"

namespace cubepi::app {

/// The commands of a chat that concern its session: `/new`, `/status`, `/permissions`, `/mode`, `/cost`, `/tasks`,
/// `/mcp`, `/copy`, `/export` and `/rename`. Used on one executor.
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
    std::vector<Permission> current_permissions() const;
    void show_permissions();
    void show_modes();
    void set_mode(const std::string& name);
    void withdraw_permission(const std::string& argument);
    Task<> show_cost();
    Task<> show_tasks();
    Task<> show_servers(std::string argument);
    void show_command(const std::string& id);
    void cancel_task(std::string_view id);
    Task<> copy_answer();
    Task<> export_to(std::string file);
    Task<> rename(std::string title);
    Task<> show_context();
    Task<MessageList> conversation() const;

    Pipeline& pipeline_;
    Renderer& renderer_;
};

/// The sequence with which a terminal copies `text` to the clipboard (OSC 52).
TerminalText clipboard_sequence(std::string_view text);

}  // namespace cubepi::app
