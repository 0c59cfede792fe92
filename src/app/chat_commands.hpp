#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/prompt_templates.hpp"
#include "terminal/prompt.hpp"

namespace cubepi::app {

// The commands of a chat: one table for the live chat and the chat of plain lines, used for dispatch, `/help` and the
// completion menu.

/// The effect of a command of a chat.
enum class ChatAction : std::uint8_t {
    help,
    new_session,
    status,
    permissions,
    mode,
    cost,
    tasks,
    servers,
    copy,
    export_file,
    rename,
    resume,
    pick_model,
    pick_effort,
    theme,
    undo,
    redo,
    rewind,
    fork,
    diff,
    context,
    later,
    details,
    stop,
    quit
};

/// Returns true for the commands of ChangeActions.
bool is_change_action(ChatAction action) noexcept;

/// Which chat reads the input.
struct ChatAbilities {
    bool live = false;     ///< the prompt can be used while an answer arrives
    bool trusted = false;  ///< typed by the user; text from a pipe contains no commands (B11)
    const PromptTemplates* templates = nullptr;  ///< null: none; outlives the use
};

/// An input of the user, as interpreted.
struct ChatInput {
    enum class Kind : std::uint8_t {
        nothing,   ///< blank
        prompt,    ///< `text` goes to the model
        action,    ///< `action` with the argument `text`
        pipeline,  ///< `text` is a comma command (B11)
        refused    ///< `text` has the reason
    };
    Kind kind = Kind::nothing;
    ChatAction action = ChatAction::help;
    std::string text = {};
    /// A prompt that is the text of a template: what the user has typed after its name. Files that the text of the template names are
    /// not attached, and it is never a command.
    std::optional<std::string> argument = {};
    bool is_aside = false;  ///< a side question
};

/// A first word of `/` and lower-case letters is a command; `//word` is the prompt "/word", and a path or a text with
/// a leading space is a prompt. `/model`, `!command` and a text that begins with a comma are comma commands.
ChatInput read_chat_input(const std::string& text, ChatAbilities chat);

/// The text of `/help`.
std::string chat_help(ChatAbilities chat);

/// For the completion menu.
std::vector<Command> chat_completions(ChatAbilities chat);

}  // namespace cubepi::app
