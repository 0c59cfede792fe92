#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "../project/project.hpp"

namespace cubepi::app {

/// A prompt that a slash command stands for: `/review src` sends its text with the argument in place of `$ARGUMENTS`.
struct PromptTemplate {
    /// The author of the text.
    enum class Source : std::uint8_t { program, user, project };

    std::string name = {};           ///< without the slash: lower-case letters and hyphens
    std::string description = {};    ///< one line
    std::string argument_hint = {};  ///< as `/help` shows it; empty: none
    std::string text = {};
    Source source = Source::program;
    bool is_aside = false;  ///< a side question: not a part of the session

    /// Returns the prompt: `$ARGUMENTS` stands for all of the argument, `$1` to `$9` for its words, of which quoted ones may have
    /// blanks. Placeholders in the argument are not replaced. A text without placeholders is followed by the argument.
    std::string expanded(std::string_view argument) const;
};

/// The templates of a chat: those of the user, then those that the program ships, then those of the project. The first one of a name
/// wins, so that a project replaces none.
struct PromptTemplates {
    std::vector<PromptTemplate> all = {};
    std::vector<std::string> problems = {};  ///< files that were not loaded, a sentence each

    /// Null: there is none.
    const PromptTemplate* find(std::string_view name) const;
    void add(PromptTemplates more);
};

/// `/review`, `/init` and `/btw`.
PromptTemplates shipped_templates();
/// Those of the user's configuration directory: `prompts/*.md`.
PromptTemplates user_templates(const std::filesystem::path& configuration);
/// Those of a project: `.cubepi/prompts/*.md`, of which the user trusts these.
PromptTemplates project_templates(const std::vector<ProjectPrompt>& trusted);
/// All of them. Blocks.
PromptTemplates load_templates(const std::vector<ProjectPrompt>& trusted);

}  // namespace cubepi::app
