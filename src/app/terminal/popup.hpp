#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keys.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

/// Returns how well `text` matches a typed pattern, larger is better; nothing if its characters do not all occur in order. ASCII letters
/// match in either case. The beginning of the text or of its last path component counts most, then a part of it as typed, then
/// characters at the beginnings of words. An empty pattern matches everything equally.
std::optional<int> fuzzy_score(std::string_view pattern, std::string_view text);

/// Returns the indexes of the matching texts, the best first; equal ones by length if `shorter_first`, then in their order. At most `most`.
std::vector<std::size_t> fuzzy_matches(std::string_view pattern,
                                       const std::vector<std::string>& texts, std::size_t most,
                                       bool shorter_first);

/// An entry of the popup.
struct Command {
    std::string name = {};  ///< as typed; ends with a space if an argument may follow
    std::string help = {};
    bool needs_argument = false;  ///< Enter does not run it
};

/// The sources of the popup.
struct PopupSources {
    std::vector<Command> commands = {};                          ///< "/new", ",help"
    std::vector<Command> skills = {};                            ///< "$review"
    std::shared_ptr<const std::vector<std::string>> files = {};  ///< null: not known yet
    std::function<void()> want_files = {};  ///< called when an `@` was typed; null: there are none
    std::vector<Command> resources = {};    ///< "@docs:file:///notes.md"
    /// Called with each word that begins with `@` and has a colon; null: resources need no completion.
    std::function<void(const std::string& word)> want_resources = {};
};

/// The list below the prompt while a word that begins with `/`, `,`, `@` or `$` is typed, with the entries that match it. Without
/// I/O. Used on one executor.
class Popup {
public:
    explicit Popup(Style style) : style_(style) {}

    PopupSources& sources() noexcept { return sources_; }
    const PopupSources& sources() const noexcept { return sources_; }

    /// The text was edited by typing.
    void update(const std::string& text, std::size_t cursor);
    /// The files or the resources of the sources have changed.
    void refresh();
    /// Hides the entries. `until_next`: also for the rest of the word.
    void close(bool until_next = false);
    /// The text is another one.
    void reset();
    bool is_open() const noexcept { return !entries_.empty(); }

    enum class Outcome : std::uint8_t {
        unused,   ///< the key has its normal meaning
        used,     ///< it has changed the popup only
        chosen,   ///< the marked entry replaces the word
        entered,  ///< the same, and the line is complete
    };
    Outcome press(const Key& key);
    /// The word that choosing replaces.
    std::size_t word_begin() const noexcept { return begin_; }
    std::string chosen_word() const;

    std::vector<TerminalText> rows(std::size_t columns, std::size_t max_rows) const;

private:
    void find(const std::string& word);
    void find_files(const std::string& word);

    Style style_;
    PopupSources sources_;
    std::vector<Command> entries_;
    std::string word_;
    std::size_t begin_ = 0;
    std::size_t marked_ = 0;
    bool dismissed_ = false;
    bool asked_ = false;  // for the files of this word
};

}  // namespace cubepi::app
