#include <cubepi/workspace/files/file_edit.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace cubepi {

namespace {

/// Limits of the diff in a result's details, which are stored with the conversation.
constexpr std::size_t stored_diff_lines = 100;
constexpr std::size_t stored_diff_bytes = 8 * 1024;

FileChangeLimits limits_of(const FileToolOptions& options) {
    FileChangeLimits limits;
    limits.max_file_bytes = options.max_edit_bytes;
    limits.max_diff_lines = stored_diff_lines;
    limits.max_diff_bytes = stored_diff_bytes;
    return limits;
}

std::optional<std::uint64_t> expected_version(const FileToolOptions& options,
                                              const ToolContext& context) {
    if (!options.previews) return std::nullopt;
    return options.previews->take(context.tool_call_id().str());
}

JsonObject details_of(const FileChange& change) {
    JsonObject details;
    details["change"] =
        change.kind == FileChange::Kind::creates ? "creates " + change.path : change.summary();
    details["lines"] = change.new_lines;
    if (change.compared) {
        details["removed"] = change.removed;
        details["added"] = change.added;
    }
    if (!change.diff.empty()) details["diff"] = change.diff;
    if (change.hidden > 0) details["hidden"] = change.hidden;
    return details;
}

AgentToolResult written(const FileChange& change) {
    const bool is_new = change.kind == FileChange::Kind::creates;
    AgentToolResult result((is_new ? "Created " : "Replaced ") + change.path + " (" +
                           std::to_string(change.new_lines) +
                           (change.new_lines == 1 ? " line, " : " lines, ") +
                           std::to_string(change.new_bytes) + " bytes).");
    result.details = details_of(change);
    return result;
}

AgentToolResult edited(const FileChange& change) {
    const std::string line = std::to_string(change.first_line);
    AgentToolResult result(change.replacements == 1
                               ? "Edited " + change.path + " at line " + line + "."
                               : "Edited " + change.path + ": " +
                                     std::to_string(change.replacements) +
                                     " replacements, the first at line " + line + ".");
    JsonObject details = details_of(change);
    details["replacements"] = change.replacements;
    details["first_line"] = change.first_line;
    result.details = std::move(details);
    return result;
}

}  // namespace

AgentTool write_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<detail::WriteArgs>(
               "write",
               "Create a file with this content, or replace its whole "
               "content. Missing directories are created. To change "
               "a part of a file, use edit.",
               [workspace = std::move(workspace), options = std::move(options)](
                   detail::WriteArgs args, ToolContext& context) {
                   return written(detail::write_file(*workspace, limits_of(options), args,
                                                     detail::Effect::apply,
                                                     expected_version(options, context))
                                      .change);
               })
        .describe("path", "The file, relative to the workspace's root.")
        .describe("content", "The complete new content of the file.")
        .sequential()
        .risk(ToolRisk::writes);
}

AgentTool edit_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<detail::EditArgs>(
               "edit",
               "Replace one piece of text in a file. old_text must occur exactly once: include "
               "enough "
               "surrounding lines, "
               "copied exactly from the file, without line numbers. The line endings of the file "
               "are "
               "preserved.",
               [workspace = std::move(workspace), options = std::move(options)](
                   detail::EditArgs args, ToolContext& context) {
                   return edited(detail::edit_file(*workspace, limits_of(options), args,
                                                   detail::Effect::apply,
                                                   expected_version(options, context))
                                     .change);
               })
        .describe("path", "The file, relative to the workspace's root.")
        .describe("old_text", "The text to replace.")
        .describe("new_text", "The replacement; may be empty.")
        .describe("all", "Replace every occurrence instead of exactly one.")
        .sequential()
        .risk(ToolRisk::writes);
}

}  // namespace cubepi
