#include "highlighter.hpp"

#include <algorithm>
#include <string>

#include <cubepi/core/support/lower_case.hpp>

namespace cubepi::app {

namespace {

constexpr std::size_t longest_name = 40;

constexpr CodeBlockMarks c_comment{"/*", "*/"};
constexpr CodeBlockMarks backticks{"`", "`"};

constexpr CodeLanguage languages[] = {
    {"bash",
     "bash sh shell zsh ksh",
     "sh bash zsh",
     ".bashrc .profile .zshrc PKGBUILD",
     "bash sh dash zsh ksh",
     {{{"'", "'"}, {"\"", "\""}}},
     false},
    {"c", "c h", "c", "", "", {{c_comment}}, false},
    {"cpp",
     "cpp c++ cxx cc hpp hxx cuda arduino",
     "cpp cc cxx c++ h hpp hh hxx ipp inl ino",
     "",
     "",
     {{c_comment}},
     false},
    {"css", "css", "css", "", "", {{c_comment}}, true},
    {"go", "go golang", "go", "", "", {{c_comment, backticks}}, false},
    {"html", "html htm xhtml", "html htm xhtml", "", "", {{{"<!--", "-->"}}}, false},
    {"java", "java", "java", "", "", {{c_comment}}, false},
    {"javascript",
     "javascript js jsx mjs cjs node",
     "js jsx mjs cjs",
     "",
     "node",
     {{c_comment, backticks}},
     false},
    {"json",
     "json jsonc json5 jsonl",
     "json jsonl webmanifest",
     ".eslintrc composer.lock",
     "",
     {},
     true},
    {"python",
     "python py python3 pyi",
     "py pyi pyw",
     "SConstruct",
     "python",
     {{{"\"\"\"", "\"\"\""}, {"'''", "'''"}}},
     false},
    {"rust", "rust rs", "rs", "", "", {{c_comment, {"\"", "\""}}}, false},
    {"tsx",
     "typescript ts tsx mts cts",
     "ts tsx mts cts",
     "",
     "deno bun ts-node",
     {{c_comment, backticks}},
     false},
    {"yaml", "yaml yml", "yaml yml", ".clang-format .clang-tidy", "", {}, true},
};

bool has_word(std::string_view words, std::string_view wanted) {
    while (!words.empty()) {
        const std::size_t end = std::min(words.find(' '), words.size());
        if (words.substr(0, end) == wanted) return true;
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return false;
}

/// True if one of `words` is the beginning of `name`, before a version at most: python3.11.
bool has_interpreter(std::string_view words, std::string_view name) {
    const std::size_t version = std::min(name.find_first_of("0123456789"), name.size());
    return has_word(words, name.substr(0, version));
}

template <class Matches>
const CodeLanguage* find_language(const Matches& matches) {
    if (!can_highlight()) return nullptr;
    const auto* const found = std::find_if(std::begin(languages), std::end(languages), matches);
    return found == std::end(languages) ? nullptr : found;
}

const CodeLanguage* language_of_interpreter(std::string_view line) {
    if (!line.starts_with("#!")) return nullptr;
    line.remove_prefix(2);
    line = line.substr(0, std::min(line.find_first_of("\r\n"), std::size_t{200}));
    while (!line.empty()) {
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        std::string_view word = line.substr(0, line.find(' '));
        line.remove_prefix(word.size());
        word.remove_prefix(std::min(word.rfind('/') + 1, word.size()));
        // "/usr/bin/env -S NAME=VALUE python3"
        if (word.empty() || word == "env" || word.starts_with('-') ||
            word.find('=') != std::string_view::npos)
            continue;
        return find_language([word](const CodeLanguage& language) {
            return has_interpreter(language.interpreters, word);
        });
    }
    return nullptr;
}

}  // namespace

const CodeLanguage* language_of_fence(std::string_view info) {
    info.remove_prefix(std::min(info.find_first_not_of(" \t{."), info.size()));
    // "rust,ignore", "{.python .numberLines}", "js:app.js"
    info = info.substr(0, info.find_first_of(" \t,:;{}."));
    if (info.empty() || info.size() > longest_name) return nullptr;
    const std::string name = detail::lower_case(info);
    return find_language(
        [&name](const CodeLanguage& language) { return has_word(language.names, name); });
}

const CodeLanguage* language_of_file(std::string_view path, std::string_view first_line) {
    const std::string_view file = path.substr(path.rfind('/') + 1);
    if (!file.empty() && file.size() < 256) {
        const auto has_name = [file](const CodeLanguage& language) {
            return has_word(language.files, file);
        };
        if (const CodeLanguage* language = find_language(has_name)) return language;
        const std::size_t dot = file.rfind('.');
        if (dot != std::string_view::npos && dot > 0 && file.size() - dot <= longest_name) {
            const std::string ending = detail::lower_case(file.substr(dot + 1));
            const auto has_ending = [&ending](const CodeLanguage& language) {
                return has_word(language.endings, ending);
            };
            if (const CodeLanguage* language = find_language(has_ending)) return language;
        }
    }
    return language_of_interpreter(first_line);
}

}  // namespace cubepi::app
