#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/envelope.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::app {

// Files that are part of a message.

/// Returns the content of a file. Throws Error(invalid_argument) if it cannot be read or has more than `limit` bytes.
std::string read_whole(const std::string& path, std::size_t limit);

/// Returns the file as a picture of a message. Throws Error(invalid_argument) if it is not one that models take, or is larger than
/// those that the tool `read` shows them.
bub::MediaItem picture_in(const std::string& path);

/// Returns the word `@PATH` if `pasted` is the path of a picture that models take and nothing else, as terminals paste a file that is
/// dropped on them: plain, quoted, with backslashes, or as a file URL. Empty: it is not. Reads a few bytes of the file.
std::string picture_word(const std::string& pasted);

/// A prompt with the files and the resources of MCP servers that it names.
struct Attachments {
    std::string text = {};                   ///< the prompt, then the contents of texts
    std::vector<bub::MediaItem> media = {};  ///< pictures
    /// What was attached, and why something was not: "notes.md 1.2 KB, logo.png 20 KB". Empty: the prompt names nothing.
    std::string remark = {};
    std::size_t text_bytes = 0;  ///< of the contents in `text`

    /// Appends a text between two lines that it does not contain, and remarks its size. The text is cut to what is left of the limit
    /// for a prompt. `tag` is the kind of the text, `note` states more about it to the model; empty: nothing.
    void add_text(std::string_view tag, const std::string& name, std::string_view note,
                  std::string content);
    void add_picture(const std::string& name, bub::MediaItem picture, std::size_t bytes);
    void add_remark(const std::string& name, const std::string& text);
    /// Returns how many bytes of text can still be added.
    std::size_t text_left() const noexcept;
};

/// The most files, and the most resources, that one prompt attaches.
inline constexpr std::size_t max_attached = 20;

/// Returns the rests of `prompt` that follow an `@` at the beginning of a word.
std::vector<std::string_view> after_at_signs(std::string_view prompt);
/// Returns the name at the beginning of such a rest: up to a blank, or between quotation marks.
std::string_view name_after_at(std::string_view rest);
/// Returns true for a character that may end a sentence after a name.
bool ends_sentence(char c) noexcept;

/// Returns a stored prompt without what was attached to it.
std::string without_attachments(const std::string& prompt);

/// Returns the pictures and what they are, without a text. Throws Error(invalid_argument) as picture_in() does. Blocks.
Attachments attach_pictures(const std::vector<std::string>& paths);

/// Attaches the regular files that `prompt` names with `@` at the beginning of a word: `@notes.md`, `@~/a.txt`, or
/// `@"two words.txt"`. Other words stay as they are. At most `max_text` bytes of text are attached, of which the model is told.
/// With `below`, names are relative to this directory, and name only files below it. Blocks.
Attachments attach_files(const std::string& prompt, const std::filesystem::path& below = {});

/// Returns the names of the files below a directory, relative to it, that a user may want to name in a prompt: those that git tracks and
/// those that it does not ignore; without git, or outside of a repository, those that a walk finds, without hidden ones. Sorted by depth,
/// then by name; bounded, so that a name may be missing in a very large directory. No command of the repository's configuration runs.
Task<std::vector<std::string>> project_names(std::shared_ptr<const Runtime> runtime,
                                             std::filesystem::path directory);

}  // namespace cubepi::app
