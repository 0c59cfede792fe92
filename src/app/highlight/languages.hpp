#pragma once

#include <array>
#include <string_view>

namespace cubepi::app {

/// A comment or string over several lines, as its first and its last characters.
struct CodeBlockMarks {
    std::string_view open = {};
    std::string_view close = {};
};

/// A language whose code is shown with colors.
struct CodeLanguage {
    std::string_view grammar = {};       ///< the name of its grammar
    std::string_view names = {};         ///< in fences of Markdown, separated by blanks
    std::string_view endings = {};       ///< of file names, separated by blanks
    std::string_view files = {};         ///< complete file names, separated by blanks
    std::string_view interpreters = {};  ///< the beginnings of their names in "#!" lines
    std::array<CodeBlockMarks, 2> blocks = {};
    bool keys = false;  ///< a language of data, whose keys have a color
};

// The languages by the names that others use. All return null for an unknown language, and if the program was built without
// grammars.

/// `info`: the text after the marks that open a block of code in Markdown.
const CodeLanguage* language_of_fence(std::string_view info);

/// By the name of a file or, if that tells nothing, by its first line.
const CodeLanguage* language_of_file(std::string_view path, std::string_view first_line = {});

}  // namespace cubepi::app
