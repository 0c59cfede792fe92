#include "open_project.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t max_effects = 100;
constexpr std::size_t max_effect_bytes = 2000;

bub::LoadedFiles look_at(const Project& project) {
    return bub::look_at_project_files(std::filesystem::current_path(), true, {},
                                      bub::InstructionScope::user, project.is_trusted);
}

/// The files that the question is about, and what they would do.
std::string facts_of(const Project& project, const bub::LoadedFiles& files) {
    std::string text = project.root.string();
    if (!files.untrusted.empty()) text += "\nfor the model: " + files.untrusted;
    std::vector<std::string> effects = effects_of_untrusted(project);
    for (std::size_t i = 0; i < std::min(effects.size(), max_effects); ++i)
        text += "\n" + std::string(detail::cut_text(effects[i], max_effect_bytes));
    if (effects.size() > max_effects)
        text += "\nand " + std::to_string(effects.size() - max_effects) + " more";
    return text;
}

Choice choice(char key, TerminalView label) {
    Choice made;
    made.key = key;
    made.label = label;
    return made;
}

Choices trust_choices() {
    Choices choices;
    choices.text = TerminalView("  Trust them?");
    choices.all = {choice('y', "[y]es"), choice('o', "[o]nce"), choice('n', "[n]o")};
    choices.on_escape = 'n';
    return choices;
}

/// Returns the key of the answer. The end of the input is a refusal.
Task<char> ask(std::shared_ptr<Prompter> prompter, std::string facts, bool is_change) {
    co_await prompter->prepare();
    prompter->say(is_change ? TerminalView("? These files are new or have changed since you "
                                           "trusted this directory:\n")
                            : TerminalView("? This directory has files that act on the chat:\n"));
    prompter->say(framed(facts, prompter->size().columns));
    for (;;) {
        Choices choices = trust_choices();
        const std::optional<Chosen> chosen = co_await prompter->choose(std::move(choices));
        if (!chosen) co_return 'n';
        if (chosen->key != 0) co_return chosen->key;
        prompter->say(
            framed("Answer y (trust what the files contain now), o (for this chat only) or n "
                   "(do not load them); Esc is n, Ctrl-C ends the program.",
                   prompter->size().columns, Frame{"  ", "  "}));
    }
}

}  // namespace

std::string untrusted_note(const Project& project, const bub::LoadedFiles& files) {
    std::string names = files.untrusted;
    const std::string bound = project.untrusted_text();
    if (!bound.empty()) names += (names.empty() ? "" : ", ") + bound;
    if (names.empty()) return names;
    return "Not loaded, because " +
           std::string(project.is_trusted ? "you have not trusted this content"
                                          : "this directory is not trusted") +
           ": " + names + ". To trust: cubepi trust add (for one run: --trust)";
}

Task<OpenedProject> open_project(TrustSettings settings, std::shared_ptr<Prompter> prompter) {
    OpenedProject opened;
    opened.project = find_project(std::filesystem::current_path(), settings);
    opened.files = look_at(opened.project);
    const bool has_more = !opened.project.untrusted.empty() || !opened.files.untrusted.empty();
    if (has_more && prompter && prompter->can_ask()) {
        std::string facts = facts_of(opened.project, opened.files);
        const char answer =
            co_await ask(std::move(prompter), std::move(facts), opened.project.is_trusted);
        if (answer == 'y') {
            try {
                record_trust(opened.project);
            } catch (const Error& error) {
                opened.warnings.push_back("The trust holds for this chat only: " +
                                          std::string(error.what()));
            }
        }
        if (answer != 'n') {
            opened.project.trust();
            opened.files = look_at(opened.project);
        }
    }
    if (!opened.files.summary.empty()) opened.notes.push_back(opened.files.summary);
    std::string note = untrusted_note(opened.project, opened.files);
    if (!note.empty()) opened.notes.push_back(std::move(note));
    for (const std::string& problem : opened.files.problems) opened.warnings.push_back(problem);
    co_return opened;
}

}  // namespace cubepi::app
