#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <bub/envelope.hpp>

namespace cubepi::app {

// Files that are part of a message.

/// Returns the content of a file. Throws Error(invalid_argument) if it cannot be read or has more than `limit` bytes.
std::string read_whole(const std::string& path, std::size_t limit);

/// Returns the file as a picture of a message. Throws Error(invalid_argument) if it is not one that models take.
bub::MediaItem picture_in(const std::string& path);

/// Returns the word `@PATH` if `pasted` is the path of a picture that models take and nothing else, as terminals paste a file that is
/// dropped on them: plain, quoted, with backslashes, or as a file URL. Empty: it is not. Reads a few bytes of the file.
std::string picture_word(const std::string& pasted);

/// A prompt with the files that it names.
struct Attachments {
    std::string text = {};                   ///< the prompt, then the contents of text files
    std::vector<bub::MediaItem> media = {};  ///< pictures
    /// What was attached, and why a file was not: "notes.md 1.2 KB, logo.png 20 KB". Empty: the prompt names no file.
    std::string remark = {};
};

/// Returns the pictures and what they are, without a text. Throws Error(invalid_argument) as picture_in() does. Blocks.
Attachments attach_pictures(const std::vector<std::string>& paths);

/// Attaches the regular files that `prompt` names with `@` at the beginning of a word: `@notes.md`, `@~/a.txt`, or
/// `@"two words.txt"`. Other words stay as they are. At most `max_text` bytes of text are attached, of which the model is told.
/// Blocks.
Attachments attach_files(const std::string& prompt);

}  // namespace cubepi::app
