#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

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

/// The role of a piece of code, as far as it has a color of its own.
enum class CodeRole : std::uint8_t {
    plain,
    keyword,
    string,
    comment,
    number,  ///< and other constants
    function,
    type,
    tag,  ///< of markup; attributes, annotations
    key,  ///< of data
};

/// A piece of code, in bytes. The pieces of a text are in order, do not overlap, and are not plain.
struct CodeSpan {
    std::size_t begin = 0;
    std::size_t end = 0;
    CodeRole role = CodeRole::plain;

    friend bool operator==(const CodeSpan&, const CodeSpan&) = default;
};

/// Beyond these code has no colors.
struct HighlightLimits {
    std::size_t bytes = std::size_t{64} << 10;   ///< of one text
    std::chrono::microseconds time{300'000};     ///< for each call of add(); 0: unlimited
    std::chrono::microseconds total{1'000'000};  ///< for all calls; 0: unlimited
};

/// True if the program was built with grammars.
bool can_highlight() noexcept;

/// The colors of a text that arrives line by line, such as a block of code in an answer, or as a whole.
///
/// The text is parsed incrementally: a line takes a fraction of a millisecond, a text of 64 KiB as a whole about 20. Colors of a line are
/// final, so a line is judged by what comes before it. Any bytes are accepted. Not thread-safe; several objects are independent of each
/// other.
class Highlighter {
public:
    explicit Highlighter(const CodeLanguage& language, HighlightLimits limits = {});
    ~Highlighter();
    Highlighter(Highlighter&&) noexcept;
    Highlighter& operator=(Highlighter&&) noexcept;

    /// Appends complete lines to the text and returns their pieces, with offsets in `lines`. Empty from the point at which the text
    /// exceeds a limit.
    std::vector<CodeSpan> add(std::string_view lines);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi::app
