#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/tool_context.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi {

/// The effect of one call of the write or edit tool on a file.
struct FileChange {
    enum class Kind : std::uint8_t { creates, replaces, edits };

    Kind kind = Kind::creates;
    std::string path;
    std::size_t old_lines =
        0;  ///< of the whole file; 0 for a new file, and where `compared` is false
    std::size_t new_lines = 0;  ///< of the whole file
    std::uint64_t old_bytes = 0;
    std::uint64_t new_bytes = 0;
    std::size_t removed = 0;       ///< lines, as in the diff
    std::size_t added = 0;         ///< lines, as in the diff
    std::size_t replacements = 0;  ///< of an edit
    std::size_t first_line = 0;  ///< of an edit: the line of the first replacement, counted from 1
    /// False: there is no diff, because one of the contents is binary or too large.
    bool compared = true;
    std::string diff;        ///< hunks of a unified diff, without file names
    std::size_t hidden = 0;  ///< changed lines that `diff` does not contain
    bool cut_lines = false;  ///< `diff` contains a long line that was truncated

    /// "creates src/new.py, 12 lines", "replaces 8 lines of src/calc.py", "changes 2 lines of src/calc.py".
    std::string summary() const;
};

/// The limits of a FileChange's diff.
struct FileChangeLimits {
    std::size_t max_file_bytes = 16 * 1024 * 1024;  ///< of a file that is read
    std::size_t max_diff_lines = 4000;
    std::size_t max_diff_bytes = 512 * 1024;

    FileChangeLimits() {}
};

/// Previews calls of the write and edit tools, and binds the calls to the previewed file and its content.
///
/// An approver calls preview() and shows the change. The tools of the same agent, made with this object in their
/// FileToolOptions, refuse a call whose file has changed since its preview, and a path that leads to another file by then. Several agents may share the object: a call is named
/// by key_of(), which no endpoint chooses, as it does the id of the call (D83). Thread-safe.
class FilePreviews {
public:
    explicit FilePreviews(std::shared_ptr<Workspace> workspace,
                          FileChangeLimits limits = FileChangeLimits());
    FilePreviews(const FilePreviews&) = delete;
    FilePreviews& operator=(const FilePreviews&) = delete;

    /// True for the tools whose calls can be previewed: "write" and "edit".
    static bool covers(std::string_view tool) noexcept;

    /// Identifies a call before it runs, and when it does.
    static std::string key_of(const BeforeToolCallContext& call);
    static std::string key_of(const ToolContext& call);

    /// The file of a preview and its version.
    struct Previewed {
        JudgedFile file = {};
        std::optional<std::uint64_t> version = {};  ///< absent: the preview has failed
    };

    /// Computes the change that a call would make, without making it, and remembers the file and its version. `arguments` satisfy
    /// the tool's schema; `judged` is the file that a policy has recorded, else the one to which the path leads now. Blocks. Throws
    /// the Error that the tool would throw, and Error(invalid_state) if the path led to another file at an earlier preview of the call.
    FileChange preview(const std::string& key, std::string_view tool, const JsonObject& arguments,
                       std::optional<JudgedFile> judged = std::nullopt);

    /// Forgets the preview of a call that will not be made.
    void forget(const std::string& key);

    /// Returns the remembered preview of a call and forgets it. For the tools.
    std::optional<Previewed> take(const std::string& key);

private:
    const std::shared_ptr<Workspace> workspace_;
    const FileChangeLimits limits_;
    std::mutex mutex_;
    std::map<std::string, Previewed> previews_;  // by key_of()
};

}  // namespace cubepi
