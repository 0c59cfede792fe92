#include "prompt_templates.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

#include "../config/paths.hpp"
#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t largest_file = 64 * 1024;
constexpr std::size_t most_files = 200;
constexpr std::size_t longest_name = 40;
constexpr std::size_t longest_description = 200;
constexpr std::size_t longest_first_line = 60;  // columns, of one that describes the prompt

constexpr std::string_view review_text =
    R"(Review the changes in this repository. $ARGUMENTS

If nothing is named above, review the uncommitted changes (git status, git diff, git diff --cached, and new files); if there are none,
the last commit (git show). Read the code around a change before you judge it. Do not change anything.

Report only what matters, the most serious first: errors, lost data, security, races, broken interfaces, missing tests of new behavior.
For each finding state the file and line, what goes wrong in which case, and a fix in a sentence. Do not report style. If you find
nothing, say so in one line.)";

constexpr std::string_view init_text =
    R"(Write a file AGENTS.md in this directory for agents that will work on this project. $ARGUMENTS

First look at the files: the build, the tests, the README, the layout of the source. If an AGENTS.md exists, read it and improve it
instead of replacing it. State the commands to build, to run all tests and to run one test, where things are, and the rules that the
code follows and that are easy to break. State facts that you have seen in the files and nothing that is true of every project. At most
60 lines.)";

constexpr std::string_view aside_text =
    R"(This is a side question; it does not change the task. Answer it briefly from the conversation, without tools:

$ARGUMENTS)";

bool is_name(std::string_view name) {
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    return !name.empty() && name.size() <= longest_name && is_letter(name.front()) &&
           std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || c == '-'; });
}

/// The words of an argument; a quoted one may have blanks.
std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    char quote = 0;
    bool begun = false;
    for (const char c : text) {
        if (quote != 0 && c == quote) {
            quote = 0;
        } else if (quote == 0 && (c == '"' || c == '\'')) {
            quote = c;
            begun = true;
        } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
            if (begun) words.push_back(std::exchange(word, {}));
            begun = false;
        } else {
            word += c;
            begun = true;
        }
    }
    if (begun) words.push_back(std::move(word));
    return words;
}

/// A value of the front matter, without quotes.
std::string value_of(std::string_view value) {
    value = detail::trimmed(value);
    const bool quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
                        value.back() == value.front();
    if (quoted) value = value.substr(1, value.size() - 2);
    return one_line(visible(value), longest_description);
}

/// The first line of a text without front matter, as its description.
std::string first_line_of(std::string_view text) {
    std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t begin = line.find_first_not_of("# ");
    line.remove_prefix(std::min(begin, line.size()));
    return one_line(visible(std::string(detail::trimmed(line))), longest_first_line);
}

/// Takes the lines between `---` at the beginning of `text`.
void take_front_matter(std::string& text, PromptTemplate& made) {
    if (!text.starts_with("---\n")) return;
    const std::size_t end = text.find("\n---", 3);
    if (end == std::string::npos) return;
    std::string_view lines = std::string_view(text).substr(4, end > 4 ? end - 4 : 0);
    while (!lines.empty()) {
        const std::string_view line = lines.substr(0, lines.find('\n'));
        lines.remove_prefix(std::min(line.size() + 1, lines.size()));
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        const std::string_view key = detail::trimmed(line.substr(0, colon));
        const std::string value = value_of(line.substr(colon + 1));
        if (key == "description") made.description = value;
        if (key == "argument-hint") made.argument_hint = value;
        if (key == "aside") made.is_aside = value == "true";
    }
    const std::size_t rest = text.find('\n', end + 1);
    text = rest == std::string::npos ? std::string() : text.substr(rest + 1);
}

/// Reads a regular file that is not a symbolic link; nothing otherwise.
std::optional<std::string> read_plain_file(const std::filesystem::path& path) {
    const detail::UniqueFd file =
        detail::open_file(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat status = {};
    if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    std::string text(largest_file + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        size += static_cast<std::size_t>(count);
    }
    text.resize(size);
    return text;
}

/// Adds the template of one file; `text` is nothing for a file that cannot be read.
void add_file(PromptTemplates& found, std::string name, std::optional<std::string> text,
              PromptTemplate::Source source) {
    PromptTemplate made;
    made.name = std::move(name);
    made.source = source;
    std::string problem;
    if (!is_name(made.name)) problem = "a name has lower-case letters and hyphens";
    if (!text) problem = "it is not a regular file that can be read";
    if (text && text->size() > largest_file) problem = "it has more than 64 KiB";
    if (text && !is_utf8(*text)) problem = "it is not UTF-8";
    if (!problem.empty()) {
        found.problems.push_back("The prompt " + visible(made.name) +
                                 ".md was not loaded: " + problem + ".");
        return;
    }
    take_front_matter(*text, made);
    made.text = std::string(detail::trimmed(*text));
    if (made.description.empty()) made.description = first_line_of(made.text);
    found.all.push_back(std::move(made));
}

PromptTemplates templates_in(const std::filesystem::path& directory) {
    PromptTemplates found;
    std::error_code failed;
    std::vector<std::filesystem::path> files;
    std::filesystem::directory_iterator entry(directory, failed);
    for (; !failed && entry != std::filesystem::directory_iterator() && files.size() < most_files;
         entry.increment(failed)) {
        if (entry->path().extension() == ".md") files.push_back(entry->path());
    }
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& path : files)
        add_file(found, path.stem().string(), read_plain_file(path), PromptTemplate::Source::user);
    return found;
}

PromptTemplate shipped(std::string name, std::string description, std::string hint,
                       std::string_view text) {
    PromptTemplate made;
    made.name = std::move(name);
    made.description = std::move(description);
    made.argument_hint = std::move(hint);
    made.text = text;
    return made;
}

}  // namespace

std::string PromptTemplate::expanded(std::string_view argument) const {
    constexpr std::string_view all_words = "$ARGUMENTS";
    argument = detail::trimmed(argument);
    const std::vector<std::string> words = words_of(argument);
    std::string prompt;
    bool used = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::string_view rest = std::string_view(text).substr(at);
        if (rest.starts_with(all_words)) {
            prompt += argument;
            at += all_words.size();
            used = true;
        } else if (rest.size() > 1 && rest[0] == '$' && rest[1] >= '1' && rest[1] <= '9') {
            const auto number = static_cast<std::size_t>(rest[1] - '1');
            if (number < words.size()) prompt += words[number];
            at += 2;
            used = true;
        } else {
            prompt += text[at++];
        }
    }
    if (!used && !argument.empty()) prompt += "\n\n" + std::string(argument);
    return prompt;
}

const PromptTemplate* PromptTemplates::find(std::string_view name) const {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const PromptTemplate& one) { return one.name == name; });
    return found == all.end() ? nullptr : &*found;
}

void PromptTemplates::add(PromptTemplates more) {
    for (PromptTemplate& one : more.all) {
        if (find(one.name)) {
            // A user's own prompt replaces one that ships; a project must not.
            if (one.source == PromptTemplate::Source::project)
                problems.push_back("The prompt /" + one.name +
                                   " of the project was not loaded: the name is in use.");
            continue;
        }
        all.push_back(std::move(one));
    }
    for (std::string& problem : more.problems) problems.push_back(std::move(problem));
}

PromptTemplates shipped_templates() {
    PromptTemplates made;
    made.all.push_back(shipped("review", "review the uncommitted changes, or what is named",
                               "[WHAT]", review_text));
    made.all.push_back(
        shipped("init", "write an AGENTS.md for this project", "[FOCUS]", init_text));
    made.all.push_back(shipped("btw", "ask a side question, which is not stored in the session",
                               "QUESTION", aside_text));
    made.all.back().is_aside = true;
    return made;
}

PromptTemplates user_templates(const std::filesystem::path& configuration) {
    return templates_in(configuration / "prompts");
}

PromptTemplates project_templates(const std::vector<ProjectPrompt>& trusted) {
    PromptTemplates found;
    for (const ProjectPrompt& one : trusted)
        add_file(found, one.name, one.text, PromptTemplate::Source::project);
    return found;
}

PromptTemplates load_templates(const std::vector<ProjectPrompt>& trusted) {
    PromptTemplates made;
    made.add(user_templates(config_path().parent_path()));
    made.add(shipped_templates());
    made.add(project_templates(trusted));
    return made;
}

}  // namespace cubepi::app
