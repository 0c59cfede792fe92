#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/schema/json_schema.hpp>
#include <cubepi/workspace/file_change.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>

namespace cubepi::detail {

struct EditOutcome {
    std::string text;
    std::size_t replacements = 0;
    std::size_t first_line = 0;  ///< of the first replacement, counted from 1
};

/// Replaces `old_text` by `new_text` in `text`: exactly one occurrence, or with `all` every occurrence. LF and CRLF match each
/// other, and the replacement gets the line endings of the file. `path` is for the error texts. Throws Error(invalid_argument)
/// with the number of occurrences and the most similar line.
EditOutcome edit_text(std::string_view text, std::string_view old_text, std::string_view new_text,
                      bool all, const std::string& path);

struct WriteArgs {
    std::string path;
    std::string content;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("path", "The file, relative to the workspace's root.")
            .describe("content", "The complete new content of the file.");
    }
};

struct EditArgs {
    std::string path;
    std::string old_text;
    std::string new_text;
    bool all = false;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("path", "The file, relative to the workspace's root.")
            .describe("old_text", "The text to replace.")
            .describe("new_text", "The replacement; may be empty.")
            .describe("all", "Replace every occurrence instead of exactly one.");
    }
};

/// Whether to apply a change or only compute it.
enum class Effect : std::uint8_t { preview, apply };

/// A change, and the version of the file from which it was computed.
struct PlannedChange {
    FileChange change;
    std::uint64_t version = 0;
};

/// The conditions of a change that is applied, and its record.
struct ChangeTerms {
    std::optional<JudgedFile> file = {};                ///< absent: where the path leads
    std::optional<std::uint64_t> expected = {};         ///< version of the file; absent: any
    std::shared_ptr<FileCheckpoints> checkpoints = {};  ///< null: the change is not recorded
    std::string prompt = {};                            ///< to which the change belongs
};

/// The implementation shared by the write and edit tools and their previews. Throws Error(invalid_state) and changes nothing if the
/// file has another version than the expected one.
PlannedChange write_file(std::shared_ptr<Workspace> in, const FileChangeLimits& limits,
                         WriteArgs args, Effect effect, const ChangeTerms& terms = {});
PlannedChange edit_file(std::shared_ptr<Workspace> in, const FileChangeLimits& limits,
                        EditArgs args, Effect effect, const ChangeTerms& terms = {});

}  // namespace cubepi::detail
