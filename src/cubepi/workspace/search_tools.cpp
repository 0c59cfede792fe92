#include <cubepi/workspace/standard_tools.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/support/regular_expression.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/tree_walk.hpp>

namespace cubepi {

namespace {

struct ListArgs {
    std::string path = ".";
    std::optional<std::string> pattern;
    std::optional<std::int64_t> depth;
    bool hidden = false;
    bool ignored = false;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("path", "The directory, relative to the workspace's root.")
            .describe("pattern",
                      "A pattern such as *.cpp or src/**/test_*.py: without a slash it is matched "
                      "against names at any depth, with one against paths from the directory.")
            .describe(
                "depth",
                "The depth of the search; 1 is the directory itself. Default: 1; with a pattern, "
                "unlimited.")
            .describe("hidden", "Also list names that begin with a dot.")
            .describe("ignored", "Also list files that .gitignore excludes.");
    }
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
            const std::string line = spelled(detail::one_line_path(path), entry.info.kind) + "\n";
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
                "\n[hidden files and files that .gitignore excludes are not shown; set hidden or "
                "ignored]";
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

struct GrepArgs {
    std::string pattern;
    std::string path = ".";
    std::optional<std::string> glob;
    bool literal = false;
    bool ignore_case = false;
    std::int64_t context = 0;
    bool hidden = false;
    bool ignored = false;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("pattern", "The regular expression; it is matched within a line.")
            .describe("path", "A directory or a file, relative to the workspace's root.")
            .describe("glob", "Only files whose names match, e.g. *.{cpp,hpp}.")
            .describe("literal", "The pattern is plain text.")
            .describe("ignore_case", "Ignore upper and lower case.")
            .describe("context", "The number of lines to show before and after each match.")
            .describe("hidden", "Also search files whose names begin with a dot.")
            .describe("ignored", "Also search files that .gitignore excludes.");
    }
};

/// The searched length of a line, in bytes.
constexpr std::size_t max_line = 64 * 1024;
/// The number of lines on which an expression may be too complex before the search ends.
constexpr std::size_t max_too_complex = 5;
/// The shown length of a line, in bytes.
constexpr std::size_t max_shown = 400;

/// A plain text or a regular expression.
class Matcher {
public:
    explicit Matcher(const GrepArgs& args) {
        const bool plain =
            args.literal || args.pattern.find_first_of("\\^$.|?*+()[]{}") == std::string::npos;
        if (plain && !args.ignore_case) {
            text_ = args.pattern;
            return;
        }
        detail::RegularExpressionOptions options;
        options.ignore_case = args.ignore_case;
        options.is_literal = args.literal;
        try {
            expression_.emplace(args.pattern, options);
        } catch (const Error& error) {
            throw Error(error.code(), "The pattern " + std::string(error.what()) +
                                          " Set literal to search for it as plain text.");
        }
    }

    /// Returns false if no line of `content` can match.
    bool may_match(const std::string& content) const {
        return expression_ || content.find(text_) != std::string::npos;
    }

    bool matches(std::string_view line) {
        line = line.substr(0, max_line);
        if (!expression_) return line.find(text_) != std::string_view::npos;
        try {
            return expression_->occurs_in(line);
        } catch (const Error&) {
            ++too_complex;
            return false;
        }
    }

    std::size_t too_complex = 0;

private:
    std::string text_;
    std::optional<detail::RegularExpression> expression_;
};

class Search {
public:
    Search(Workspace& workspace, const FileToolOptions& options, const GrepArgs& args,
           std::stop_token stop)
        : workspace_(workspace), options_(options), stop_(std::move(stop)), matcher_(args) {
        context_ = static_cast<std::size_t>(std::clamp<std::int64_t>(args.context, 0, 20));
    }

    /// Returns false when the result is full.
    bool file(const std::string& path) {
        std::string content;
        try {
            content = workspace_.read(path, options_.max_search_bytes);
        } catch (const Error& error) {
            if (error.code() == ErrorCode::too_large) ++too_large_;
            return true;
        }
        detail::check_stop(stop_);
        if (detail::looks_binary(content) || !matcher_.may_match(content)) return true;
        split(content);
        return search_lines(path);
    }

    AgentToolResult result() const {
        AgentToolResult result(result_text());
        result.details = JsonObject{{"matches", matches_}, {"files", files_}};
        return result;
    }

private:
    std::string result_text() const {
        std::string text = text_;
        if (matches_ == 0) text = "(no matches)\n";
        if (full_) {
            text += "[truncated after " + std::to_string(matches_) +
                    " matches; use a narrower pattern, path or glob]\n";
        }
        if (too_large_ > 0)
            text += "[files too large to search: " + std::to_string(too_large_) + "]\n";
        if (matcher_.too_complex > 0) {
            text += "[lines skipped because the expression is too complex: " +
                    std::to_string(matcher_.too_complex) + "; use a simpler one]\n";
        }
        return text;
    }

    void split(const std::string& content) {
        lines_.clear();
        std::string_view rest(content);
        while (!rest.empty()) {
            const auto end = rest.find('\n');
            auto line = rest.substr(0, end);
            if (line.ends_with('\r')) line.remove_suffix(1);
            lines_.push_back(line);
            rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
        }
    }

    bool search_lines(const std::string& path) {
        std::size_t shown_until = 0;  // lines before this index are in the text
        bool matched = false;
        for (std::size_t i = 0; i < lines_.size(); ++i) {
            detail::check_stop(stop_);
            if (matcher_.too_complex > max_too_complex) {
                full_ = true;
                return false;
            }
            if (!matcher_.matches(lines_[i])) {
                if (shown_until > 0 && i >= shown_until && i < last_match_ + 1 + context_) {
                    show(path, i, '-');
                    shown_until = i + 1;
                }
                continue;
            }
            if (matches_ == options_.max_matches || text_.size() > options_.max_output_bytes) {
                full_ = true;
                return false;
            }
            const std::size_t begin = std::max(shown_until, i > context_ ? i - context_ : 0);
            if (context_ > 0 && !text_.empty() && begin > shown_until) text_ += "--\n";
            for (std::size_t k = begin; k < i; ++k) show(path, k, '-');
            show(path, i, ':');
            shown_until = i + 1;
            last_match_ = i;
            ++matches_;
            if (!std::exchange(matched, true)) ++files_;
        }
        return true;
    }

    void show(const std::string& path, std::size_t index, char mark) {
        const auto line = detail::cut_text(lines_[index], max_shown);
        text_ += detail::one_line_path(path) + mark + std::to_string(index + 1) + mark + " " +
                 replace_broken_utf8(line);
        if (line.size() < lines_[index].size()) text_ += " [...]";
        text_ += '\n';
    }

    Workspace& workspace_;
    const FileToolOptions& options_;
    const std::stop_token stop_;
    Matcher matcher_;
    std::size_t context_ = 0;
    std::size_t matches_ = 0;
    std::size_t files_ = 0;  // with a match
    std::size_t last_match_ = 0;
    std::size_t too_large_ = 0;
    bool full_ = false;
    std::vector<std::string_view> lines_;
    std::string text_;
};

AgentToolResult grep_files(Workspace& workspace, const FileToolOptions& options,
                           const GrepArgs& args, const std::stop_token& stop) {
    if (args.pattern.empty()) return AgentToolResult::error("The pattern is empty.");
    Search search(workspace, options, args, stop);
    if (workspace.stat(args.path).kind != FileKind::directory) {
        search.file(args.path);
        return search.result();
    }
    std::optional<detail::Glob> glob;
    if (args.glob) glob.emplace(*args.glob);
    detail::WalkOptions walk;
    walk.hidden = args.hidden;
    walk.ignored = args.ignored;
    detail::walk_tree(
        workspace, args.path, walk, stop,
        [&](const std::string& path, const std::string& relative, const DirectoryEntry& entry) {
            if (entry.info.kind != FileKind::file) return true;
            if (glob && !glob->matches(relative)) return true;
            return search.file(path);
        });
    return search.result();
}

}  // namespace

AgentTool list_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<ListArgs>(
               "list",
               "List the files in a directory, or find files by a pattern of their names. "
               "Directories end in /, symbolic links in @. Hidden files and files that .gitignore "
               "excludes are not listed unless requested.",
               [workspace = std::move(workspace), options = std::move(options)](
                   ListArgs args, ToolContext& context) {
                   CallFile file =
                       file_of_call(workspace, std::move(args.path), context.judged_file());
                   args.path = std::move(file.path);
                   return list_files(*file.workspace, options, args, context.stop_token());
               })
        .risk(ToolRisk::read_only);
}

AgentTool grep_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<GrepArgs>(
               "grep",
               "Find lines in files by a regular expression (Perl syntax). "
               "Returns path:line: text. Binary files are skipped, and so are "
               "hidden and ignored files (.gitignore) unless requested.",
               [workspace = std::move(workspace), options = std::move(options)](
                   GrepArgs args, ToolContext& context) {
                   CallFile file =
                       file_of_call(workspace, std::move(args.path), context.judged_file());
                   args.path = std::move(file.path);
                   return grep_files(*file.workspace, options, args, context.stop_token());
               })
        .risk(ToolRisk::read_only);
}

}  // namespace cubepi
