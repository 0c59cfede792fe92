#include <cubepi/workspace/file_change.hpp>

#include <functional>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/workspace/fetch/content_kind.hpp>
#include <cubepi/workspace/files/file_edit.hpp>
#include <cubepi/workspace/files/line_diff.hpp>
#include <cubepi/workspace/files/text_edit.hpp>

namespace cubepi {

namespace {

std::string lines_text(std::size_t count) {
    return std::to_string(count) + (count == 1 ? " line" : " lines");
}

std::string bytes_text(std::uint64_t count) {
    return std::to_string(count) + (count == 1 ? " byte" : " bytes");
}

/// Identifies a version of a file by its content, or by size and time if the content was not read.
std::uint64_t version_of(const FileBefore& before) {
    if (!before.exists) return 0;
    const std::uint64_t hash =
        before.content
            ? std::hash<std::string>()(*before.content)
            : std::hash<std::uint64_t>()(before.info.size) ^
                  std::hash<std::int64_t>()(before.info.modified.time_since_epoch().count());
    return hash | 1U;
}

void check_version(const std::string& path, std::uint64_t version,
                   std::optional<std::uint64_t> expected) {
    if (!expected || *expected == version) return;
    throw Error(ErrorCode::invalid_state,
                path +
                    " has changed since this call was approved, so nothing was written. Read "
                    "the file again and retry the call.");
}

void compare(FileChange& change, const std::string& before, const std::string& after,
             const FileChangeLimits& limits) {
    change.new_lines = detail::count_lines(after);
    if (detail::looks_binary(before) || detail::looks_binary(after) ||
        after.size() > limits.max_file_bytes) {
        change.compared = false;
        return;
    }
    change.old_lines = detail::count_lines(before);
    detail::DiffLimits diff_limits;
    diff_limits.max_lines = limits.max_diff_lines;
    diff_limits.max_bytes = limits.max_diff_bytes;
    detail::LineDiff diff = detail::diff_lines(before, after, diff_limits);
    change.removed = diff.removed;
    change.added = diff.added;
    change.diff = std::move(diff.text);
    change.hidden = diff.hidden;
    change.cut_lines = diff.cut_lines;
}

}  // namespace

std::string FileChange::summary() const {
    const std::string sizes =
        " (" + bytes_text(old_bytes) + " become " + bytes_text(new_bytes) + ")";
    switch (kind) {
        case Kind::creates:
            return "creates " + path + ", " +
                   (compared ? lines_text(new_lines) : bytes_text(new_bytes));
        case Kind::replaces:
            if (!compared) return "replaces " + path + sizes;
            return "replaces " + lines_text(old_lines) + " of " + path;
        case Kind::edits: break;
    }
    if (!compared) return "changes " + path + sizes;
    if (removed == 0 && added > 0) return "adds " + lines_text(added) + " to " + path;
    if (added == 0 && removed > 0) return "removes " + lines_text(removed) + " from " + path;
    return "changes " + lines_text(removed) + " of " + path;
}

FilePreviews::FilePreviews(std::shared_ptr<Workspace> workspace, FileChangeLimits limits)
    : workspace_(std::move(workspace)), limits_(limits) {}

bool FilePreviews::covers(std::string_view tool) noexcept {
    return tool == "write" || tool == "edit";
}

FileChange FilePreviews::preview(const std::string& tool_call_id, std::string_view tool,
                                 const JsonObject& arguments) {
    forget(tool_call_id);
    const Json json(arguments);
    detail::PlannedChange planned =
        tool == "write"
            ? detail::write_file(*workspace_, limits_, from_json<detail::WriteArgs>(json),
                                 detail::Effect::preview)
            : detail::edit_file(*workspace_, limits_, from_json<detail::EditArgs>(json),
                                detail::Effect::preview);
    const std::lock_guard lock(mutex_);
    versions_[tool_call_id] = planned.version;
    return std::move(planned.change);
}

void FilePreviews::forget(const std::string& tool_call_id) { take(tool_call_id); }

std::optional<std::uint64_t> FilePreviews::take(const std::string& tool_call_id) {
    const std::lock_guard lock(mutex_);
    const auto found = versions_.find(tool_call_id);
    if (found == versions_.end()) return std::nullopt;
    const std::uint64_t version = found->second;
    versions_.erase(found);
    return version;
}

namespace detail {

PlannedChange write_file(Workspace& workspace, const FileChangeLimits& limits,
                         const WriteArgs& args, Effect effect,
                         std::optional<std::uint64_t> expected) {
    PlannedChange planned;
    FileChange& change = planned.change;
    change.path = args.path;
    change.new_bytes = args.content.size();
    workspace.rewrite(args.path, limits.max_file_bytes, [&](const FileBefore& before) {
        planned.version = version_of(before);
        check_version(args.path, planned.version, expected);
        change.kind = before.exists ? FileChange::Kind::replaces : FileChange::Kind::creates;
        change.old_bytes = before.exists ? before.info.size : 0;
        if (before.exists && !before.content) {
            change.compared = false;
            change.new_lines = count_lines(args.content);
        } else {
            compare(change, before.content.value_or(std::string()), args.content, limits);
        }
        return effect == Effect::apply ? std::optional<std::string>(args.content) : std::nullopt;
    });
    return planned;
}

PlannedChange edit_file(Workspace& workspace, const FileChangeLimits& limits, const EditArgs& args,
                        Effect effect, std::optional<std::uint64_t> expected) {
    PlannedChange planned;
    FileChange& change = planned.change;
    change.path = args.path;
    change.kind = FileChange::Kind::edits;
    workspace.rewrite(args.path, limits.max_file_bytes, [&](const FileBefore& before) {
        planned.version = version_of(before);
        check_version(args.path, planned.version, expected);
        // read() throws if the file is missing or too large.
        const std::string text =
            before.content ? *before.content : workspace.read(args.path, limits.max_file_bytes);
        EditOutcome outcome = edit_text(text, args.old_text, args.new_text, args.all, args.path);
        change.old_bytes = text.size();
        change.new_bytes = outcome.text.size();
        change.replacements = outcome.replacements;
        change.first_line = outcome.first_line;
        compare(change, text, outcome.text, limits);
        return effect == Effect::apply ? std::optional<std::string>(std::move(outcome.text))
                                       : std::nullopt;
    });
    return planned;
}

}  // namespace detail

}  // namespace cubepi
