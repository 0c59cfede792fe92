#include <algorithm>

#include <cubepi/workspace/detail/text_edit.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace cubepi {

namespace {

struct WriteArgs {
    std::string path;
    std::string content;
};

struct EditArgs {
    std::string path;
    std::string old_text;
    std::string new_text;
    bool all = false;
};

AgentToolResult write_file(Workspace& workspace, const WriteArgs& args) {
    const bool is_new = workspace.write(args.path, args.content);
    auto lines = std::count(args.content.begin(), args.content.end(), '\n');
    if (!args.content.empty() && args.content.back() != '\n') ++lines;
    return AgentToolResult((is_new ? "Created " : "Replaced ") + args.path + " (" +
                           std::to_string(lines) + (lines == 1 ? " line, " : " lines, ") +
                           std::to_string(args.content.size()) + " bytes).");
}

AgentToolResult edit_file(Workspace& workspace, const FileToolOptions& options,
                          const EditArgs& args) {
    detail::EditOutcome outcome;
    workspace.update(args.path, options.max_edit_bytes, [&](std::string text) {
        outcome = detail::edit_text(text, args.old_text, args.new_text, args.all, args.path);
        return std::move(outcome.text);
    });
    const std::string line = std::to_string(outcome.first_line);
    AgentToolResult result(outcome.replacements == 1
                               ? "Edited " + args.path + " at line " + line + "."
                               : "Edited " + args.path + ": " +
                                     std::to_string(outcome.replacements) +
                                     " replacements, the first at line " + line + ".");
    JsonObject details;
    details["replacements"] = outcome.replacements;
    details["first_line"] = outcome.first_line;
    result.details = std::move(details);
    return result;
}

}  // namespace

AgentTool write_tool(std::shared_ptr<Workspace> workspace) {
    return blocking_tool<WriteArgs>("write",
                                    "Create a file with this content, or replace all that is in "
                                    "it. Missing folders are made. For a change "
                                    "in a part of a file use edit.",
                                    [workspace = std::move(workspace)](WriteArgs args) {
                                        return write_file(*workspace, args);
                                    })
        .describe("path", "The file, relative to the workspace's root.")
        .describe("content", "All of the file's new content.")
        .sequential()
        .risk(ToolRisk::writes);
}

AgentTool edit_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<EditArgs>(
               "edit",
               "Replace one piece of text in a file. old_text must occur exactly once: take enough "
               "lines around it, "
               "copied exactly from the file, without line numbers. The file's line ends are kept.",
               [workspace = std::move(workspace), options = std::move(options)](EditArgs args) {
                   return edit_file(*workspace, options, args);
               })
        .describe("path", "The file, relative to the workspace's root.")
        .describe("old_text", "The text to replace.")
        .describe("new_text", "What to put in its place; may be empty.")
        .describe("all", "Replace every occurrence instead of exactly one.")
        .sequential()
        .risk(ToolRisk::writes);
}

}  // namespace cubepi
