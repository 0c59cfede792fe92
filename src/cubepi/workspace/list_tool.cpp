#include <cubepi/workspace/files/glob.hpp>
#include <cubepi/workspace/files/tree_walk.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace cubepi {

namespace {

struct ListArgs {
    std::string path = ".";
    std::optional<std::string> pattern;
    std::optional<std::int64_t> depth;
    bool hidden = false;
    bool ignored = false;
};

std::string spelled(const std::string& path, FileKind kind) {
    if (kind == FileKind::directory) return path + "/";
    if (kind == FileKind::symlink) return path + "@";
    return path;
}

AgentToolResult list_files(Workspace& workspace, const FileToolOptions& options,
                           const ListArgs& args, const std::stop_token& stop) {
    detail::WalkOptions walk;
    walk.hidden = args.hidden;
    walk.ignored = args.ignored;
    if (!args.pattern) walk.max_depth = 1;
    if (args.depth) {
        if (*args.depth < 1) return AgentToolResult::error("depth must be at least 1.");
        walk.max_depth = static_cast<std::size_t>(*args.depth);
    }
    std::optional<detail::Glob> glob;
    if (args.pattern) glob.emplace(*args.pattern);
    std::string text;
    std::size_t count = 0;
    bool more = false;
    detail::walk_tree(
        workspace, args.path, walk, stop,
        [&](const std::string& path, const std::string& relative, const DirectoryEntry& entry) {
            if (glob && !glob->matches(relative)) return true;
            const std::string line = spelled(path, entry.info.kind) + "\n";
            more = count == options.max_entries ||
                   text.size() + line.size() > options.max_output_bytes;
            if (more) return false;
            ++count;
            text += line;
            return true;
        });
    if (count == 0) {
        text = glob ? "(no name matches " + *args.pattern + ")" : "(the directory is empty)";
        if (!args.hidden || !args.ignored) {
            text +=
                "\n[hidden files and files that .gitignore excludes are not shown; set hidden "
                "or ignored]";
        }
    }
    if (more) {
        text += "[truncated after " + std::to_string(count) +
                " entries; use a narrower path, pattern or depth]\n";
    }
    AgentToolResult result(std::move(text));
    result.details = JsonObject{{"entries", count}};
    return result;
}

}  // namespace

AgentTool list_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<ListArgs>("list",
                                   "List the files in a directory, or find files by a pattern of "
                                   "their names. Directories end in /, symbolic "
                                   "links in @. Hidden files and files that .gitignore excludes "
                                   "are not listed unless requested.",
                                   [workspace = std::move(workspace), options = std::move(options)](
                                       ListArgs args, ToolContext& context) {
                                       return list_files(*workspace, options, args,
                                                         context.stop_token());
                                   })
        .describe("path", "The directory, relative to the workspace's root.")
        .describe("pattern",
                  "A pattern such as *.cpp or src/**/test_*.py: without a slash it is matched "
                  "against names at any "
                  "depth, with one against paths from the directory.")
        .describe("depth",
                  "The depth of the search; 1 is the directory itself. Default: 1; with a pattern, "
                  "unlimited.")
        .describe("hidden", "Also list names that begin with a dot.")
        .describe("ignored", "Also list files that .gitignore excludes.")
        .risk(ToolRisk::read_only);
}

}  // namespace cubepi
