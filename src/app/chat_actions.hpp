#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

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

/// The parts of a request, in estimated tokens: a quarter of their bytes, scaled to `total` if the server has counted.
struct RequestParts {
    std::int64_t system_prompt = 0;  ///< without the parts below
    std::int64_t instructions = 0;
    std::int64_t skills = 0;
    std::int64_t tools = 0;
    std::int64_t summary = 0;  ///< in place of the messages before it
    std::int64_t prompts = 0;
    std::int64_t answers = 0;  ///< with calls
    std::int64_t results = 0;
    std::size_t tool_count = 0;
    std::size_t message_count = 0;
    std::int64_t total = 0;
};

/// The files that are a part of the system prompt, as the model gets them.
struct PromptFiles {
    std::string instructions = {};
    std::string skills = {};
};

/// Measures a request without its last `omitted` messages. `counted`: tokens of the request as known from the server; 0: unknown.
RequestParts parts_of(const ModelRequest& request, std::size_t omitted, const PromptFiles& files,
                      std::int64_t counted);

/// The text of `/context`. `window`: of the model; 0: unknown.
std::string context_text(const RequestParts& parts, std::int64_t window, bool is_counted);

}  // namespace cubepi::app
