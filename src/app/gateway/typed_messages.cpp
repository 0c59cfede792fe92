#include "typed_messages.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/trimmed.hpp>

#include "../chat_commands.hpp"
#include "../conversation/attachments.hpp"
#include "../conversation/prompt_templates.hpp"
#include "../terminal/popup.hpp"
#include "gateway_api.hpp"
#include "gateway_instance.hpp"

// Slash commands, and files after `@`, as in the terminal, for operators who type in the console.

namespace cubepi::app {

namespace {

constexpr std::size_t most_files = 20;
/// While a user types a name, its characters are not requests to git.
constexpr std::chrono::seconds names_lifetime{3};

Task<PromptTemplates> templates_of(std::shared_ptr<GatewayInstance> instance) {
    // Not the instance: a worker that ends late must not be the one that destroys it.
    std::vector<ProjectPrompt> prompts = instance->project_prompts();
    auto reading = [prompts = std::move(prompts)] { return load_templates(prompts); };
    Task<PromptTemplates> loading = offload(*Runtime::standard()->workers, std::move(reading));
    PromptTemplates loaded = co_await std::move(loading);
    co_return loaded;
}

ChatAbilities abilities_with(const PromptTemplates& templates) {
    ChatAbilities chat;
    chat.trusted = true;
    chat.templates = &templates;
    return chat;
}

/// Returns true for what the terminal itself does.
bool is_of_terminal(const ChatInput& input) {
    return input.is_aside ||
           (input.kind == ChatInput::Kind::action && input.action != ChatAction::help);
}

/// Returns true if the console takes the command, with an argument or without.
bool is_taken(const std::string& name, const ChatAbilities& chat) {
    return name.starts_with('/') && !is_of_terminal(read_chat_input(name, chat)) &&
           !is_of_terminal(read_chat_input(name + " x", chat));
}

ChatInput read_input(const std::string& text, const PromptTemplates& templates) {
    ChatInput input = read_chat_input(text, abilities_with(templates));
    if (input.kind == ChatInput::Kind::refused)
        throw Error(ErrorCode::invalid_argument, input.text);
    if (is_of_terminal(input))
        throw Error(ErrorCode::invalid_argument,
                    "'" + std::string(detail::trimmed(text)) + "' is a command of the terminal");
    if (input.kind == ChatInput::Kind::action) {
        input.kind = ChatInput::Kind::pipeline;
        input.text = ",help";
    }
    // The text of a template is never a command (B11).
    if (input.argument && detail::trimmed(input.text).starts_with(','))
        throw Error(ErrorCode::invalid_argument, "the text of this template begins with a comma");
    return input;
}

}  // namespace

Task<TypedMessage> read_typed(std::shared_ptr<GatewayInstance> instance, std::string session,
                              std::string text) {
    const PromptTemplates templates = co_await templates_of(instance);
    ChatInput input = read_input(text, templates);
    TypedMessage typed;
    typed.text = std::move(input.text);
    // Of a template only the user's part names files.
    const std::string naming = input.argument.value_or(typed.text);
    const std::filesystem::path directory = instance->workspace_of(session);
    const bool names_files = input.kind == ChatInput::Kind::prompt && !directory.empty() &&
                             naming.find('@') != std::string::npos;
    if (!names_files) co_return typed;
    auto reading = [naming, directory] { return attach_files(naming, directory); };
    Task<Attachments> attaching = offload(*Runtime::standard()->workers, std::move(reading));
    Attachments attached = co_await std::move(attaching);
    typed.text += attached.text.substr(naming.size());
    typed.media = std::move(attached.media);
    typed.attached = std::move(attached.remark);
    co_return typed;
}

Task<TypedCommands> GatewayApi::commands(NoArguments) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const PromptTemplates templates = co_await templates_of(instance);
    const ChatAbilities chat = abilities_with(templates);
    TypedCommands known;
    for (const Command& command : chat_completions(chat)) {
        const std::string name(detail::trimmed(command.name));
        if (!is_taken(name, chat)) continue;
        TypedCommand one;
        one.name = name;
        one.help = command.help;
        one.takes_argument = command.name.ends_with(' ');
        known.commands.push_back(std::move(one));
    }
    co_return known;
}

Task<SessionFileNames> GatewayApi::files(FileNameArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    SessionFileNames found;
    const std::filesystem::path directory = instance->workspace_of(which.id);
    if (directory.empty()) co_return found;
    const Clock::time_point now = Runtime::standard()->clock->now();
    std::shared_ptr<const ListedFiles> listed = listed_files_;
    if (!listed || listed->directory != directory || now - listed->read > names_lifetime) {
        auto reading = std::make_shared<ListedFiles>();
        reading->directory = directory;
        reading->read = now;
        Task<std::vector<std::string>> naming = project_names(Runtime::standard(), directory);
        reading->names = co_await std::move(naming);
        listed = reading;
        listed_files_ = reading;
    }
    for (const std::size_t index : fuzzy_matches(which.search, listed->names, most_files, true))
        found.files.push_back(listed->names[index]);
    co_return found;
}

}  // namespace cubepi::app
