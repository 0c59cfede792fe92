#include <cubepi/core/support/base64.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include <algorithm>
#include <array>
#include <cstdio>

#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/file_edit.hpp>
#include <cubepi/workspace/files/tree_walk.hpp>

namespace cubepi {

namespace {

struct ReadArgs {
    std::string path;
    std::optional<std::int64_t> start_line;
    std::optional<std::int64_t> line_count;
    std::optional<std::int64_t> start_byte;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("path", "The file, relative to the workspace's root.")
            .describe("start_line", "The first line to read, counted from 1. Default: 1.")
            .describe("line_count", "The maximum number of lines to read.")
            .describe("start_byte",
                      "The first byte to read of the first line, counted from 1; only for very "
                      "long lines.");
    }
};

/// Receives a file in pieces and collects the requested lines, within the limits.
class LineReader {
public:
    LineReader(std::uint64_t first, std::uint64_t count, std::uint64_t start_byte,
               std::size_t max_bytes)
        : first_(first), end_(first + count), skip_(start_byte - 1), max_bytes_(max_bytes) {}

    void take(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto end = bytes.find('\n');
            const auto part = bytes.substr(0, end);
            take_part(part);
            at_line_start_ = false;
            if (end == std::string_view::npos) return;
            finish_line();
            bytes.remove_prefix(end + 1);
        }
    }

    void finish() {
        if (!at_line_start_) finish_line();
    }

    /// The number of lines of the text.
    std::uint64_t line_count() const noexcept { return next_ > first_ ? next_ - first_ : 0; }

    /// Returns the text and, if it is incomplete, how the model can read on.
    std::string result(const std::string& path) const {
        const std::uint64_t total = line_ - 1;
        if (total == 0) return "(" + path + " is empty)";
        if (first_ > total) {
            return "(" + path + " has only " + std::to_string(total) + " lines)";
        }
        std::string text = text_;
        if (cut_line_ != 0) {
            text += "[line " + std::to_string(cut_line_) +
                    " is incomplete: continue with start_line " + std::to_string(cut_line_) +
                    " and start_byte " + std::to_string(cut_byte_ + 1) + "]\n";
        } else if (next_ <= total) {
            text += "[lines " + std::to_string(first_) + " to " + std::to_string(next_ - 1) +
                    " of " + std::to_string(total) + "; continue with start_line " +
                    std::to_string(next_) + "]\n";
        }
        return text;
    }

private:
    bool wanted() const noexcept { return line_ >= first_ && line_ < end_ && !full_; }

    void take_part(std::string_view part) {
        if (!wanted()) return;
        if (line_ == first_ && skipped_ < skip_) {
            const auto skip = std::min<std::uint64_t>(skip_ - skipped_, part.size());
            skipped_ += skip;
            part.remove_prefix(static_cast<std::size_t>(skip));
        }
        const std::size_t used = text_.size() + current_.size();
        const std::size_t space = used < max_bytes_ ? max_bytes_ - used : 0;
        if (part.size() > space) {
            overlong_ = true;
            part = part.substr(0, space);
        }
        current_ += part;
    }

    void finish_line() {
        if (wanted()) add_line();
        current_.clear();
        overlong_ = false;
        ++line_;
        at_line_start_ = true;
    }

    void add_line() {
        // A line that does not fit is left for the next call, unless it would never fit.
        if (overlong_ && !text_.empty()) {
            full_ = true;
            return;
        }
        if (overlong_) {
            current_ = current_.substr(0, complete_utf8_prefix(current_));
            cut_line_ = line_;
            cut_byte_ = current_.size() + (line_ == first_ ? skip_ : 0);
            full_ = true;
        }
        if (current_.ends_with('\r')) current_.pop_back();
        std::array<char, 32> number{};
        std::snprintf(number.data(), number.size(), "%6llu\t",
                      static_cast<unsigned long long>(line_));
        text_ += number.data();
        text_ += replace_broken_utf8(current_);
        text_ += '\n';
        next_ = line_ + 1;
    }

    const std::uint64_t first_;
    const std::uint64_t end_;
    const std::uint64_t skip_;
    const std::size_t max_bytes_;
    std::uint64_t line_ = 1;
    std::uint64_t next_ = 1;
    std::uint64_t skipped_ = 0;
    std::uint64_t cut_line_ = 0;
    std::uint64_t cut_byte_ = 0;
    bool at_line_start_ = true;
    bool overlong_ = false;
    bool full_ = false;
    std::string current_;
    std::string text_;
};

AgentToolResult read_image(FileReader& file, std::string bytes, std::string_view type,
                           const FileToolOptions& options) {
    std::array<char, 64 * 1024> buffer;
    while (bytes.size() <= options.max_image_bytes) {
        const auto got = file.read(buffer.data(), buffer.size());
        if (got == 0) break;
        bytes.append(buffer.data(), got);
    }
    std::string problem = detail::image_problem(bytes, file.info().size, options.max_image_bytes);
    if (!problem.empty()) return AgentToolResult::error(std::move(problem));
    ImageContent image;
    image.source = detail::base64(bytes);
    image.media_type = SharedString(type);
    AgentToolResult result{Content(std::move(image))};
    result.details = JsonObject{{"media_type", type}, {"bytes", bytes.size()}};
    return result;
}

AgentToolResult read_file(Workspace& workspace, const FileToolOptions& options,
                          const ReadArgs& args, const std::stop_token& stop) {
    const auto file = workspace.open(args.path);
    std::vector<char> buffer(64 * 1024);
    std::string_view piece(buffer.data(), file->read(buffer.data(), buffer.size()));
    if (const auto type = detail::image_type(piece); !type.empty()) {
        return read_image(*file, std::string(piece), type, options);
    }
    if (detail::looks_binary(piece)) {
        return AgentToolResult::error(args.path + " is a binary file of " +
                                      std::to_string(file->info().size) +
                                      " bytes and cannot be shown as text. Shell commands such as "
                                      "file, xxd or strings may help to inspect it.");
    }
    if (args.start_line.value_or(1) < 1 || args.start_byte.value_or(1) < 1 ||
        args.line_count.value_or(1) < 1) {
        return AgentToolResult::error("start_line, line_count and start_byte must be at least 1.");
    }
    const auto first = static_cast<std::uint64_t>(args.start_line.value_or(1));
    const auto most = static_cast<std::int64_t>(options.max_lines);
    const auto count = static_cast<std::uint64_t>(std::min(args.line_count.value_or(most), most));
    LineReader lines(first, count, static_cast<std::uint64_t>(args.start_byte.value_or(1)),
                     options.max_output_bytes);
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (piece.starts_with(byte_order_mark)) piece.remove_prefix(byte_order_mark.size());
    while (!piece.empty()) {
        lines.take(piece);
        detail::check_stop(stop);
        piece = std::string_view(buffer.data(), file->read(buffer.data(), buffer.size()));
    }
    lines.finish();
    AgentToolResult result(lines.result(args.path));
    result.details = JsonObject{{"lines", lines.line_count()}};
    return result;
}

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

detail::ChangeTerms terms_of(const FileToolOptions& options, const ToolContext& context) {
    detail::ChangeTerms terms;
    terms.file = context.judged_file();
    if (options.previews) {
        if (auto shown = options.previews->take(FilePreviews::key_of(context))) {
            terms.expected = shown->version;
            if (!terms.file) terms.file = std::move(shown->file);
        }
    }
    terms.checkpoints = options.checkpoints;
    if (terms.checkpoints) terms.prompt = FileCheckpoints::prompt_of(context);
    return terms;
}

JsonObject details_of(const FileChange& change) {
    JsonObject details;
    details["change"] =
        change.kind == FileChange::Kind::creates ? "creates " + change.path : change.summary();
    details["path"] = change.path;
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

std::vector<AgentTool> standard_tools(std::shared_ptr<Workspace> workspace,
                                      StandardToolOptions options,
                                      std::shared_ptr<ShellSessions> shell_sessions) {
    std::vector<AgentTool> tools;
    tools.push_back(read_tool(workspace, options.files));
    tools.push_back(list_tool(workspace, options.files));
    tools.push_back(grep_tool(workspace, options.files));
    if (options.with_writing) {
        tools.push_back(write_tool(workspace, options.files));
        tools.push_back(edit_tool(workspace, options.files));
    }
    if (options.with_shell) {
        if (!shell_sessions)
            shell_sessions = ShellSessions::create(workspace, std::move(options.shell));
        tools.push_back(shell_tool(shell_sessions, options.unsandboxed_shell));
        tools.push_back(shell_output_tool(shell_sessions));
        tools.push_back(shell_kill_tool(shell_sessions));
    }
    if (options.with_fetch) tools.push_back(fetch_tool(std::move(options.fetch)));
    return tools;
}

AgentTool read_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<ReadArgs>(
               "read",
               "Read a file. Each line of text is preceded by its number and a tab, which are not "
               "part of the file; images (png, jpeg, gif, webp) are shown. A long file is read in "
               "parts: the end of the result states how to read on.",
               [workspace = std::move(workspace), options = std::move(options)](
                   ReadArgs args, ToolContext& context) {
                   CallFile file =
                       file_of_call(workspace, std::move(args.path), context.judged_file());
                   args.path = std::move(file.path);
                   return read_file(*file.workspace, options, args, context.stop_token());
               })
        .risk(ToolRisk::read_only);
}

AgentTool write_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<detail::WriteArgs>(
               "write",
               "Create a file with this content, or replace its whole content. Missing directories "
               "are created. To change a part of a file, use edit.",
               [workspace = std::move(workspace), options = std::move(options)](
                   detail::WriteArgs args, ToolContext& context) {
                   return written(detail::write_file(workspace, limits_of(options), std::move(args),
                                                     detail::Effect::apply,
                                                     terms_of(options, context))
                                      .change);
               })
        .sequential()
        .risk(ToolRisk::writes);
}

AgentTool edit_tool(std::shared_ptr<Workspace> workspace, FileToolOptions options) {
    return blocking_tool<detail::EditArgs>(
               "edit",
               "Replace one piece of text in a file. old_text must occur exactly once: include "
               "enough surrounding lines, copied exactly from the file, without line numbers. The "
               "line endings of the file are preserved.",
               [workspace = std::move(workspace), options = std::move(options)](
                   detail::EditArgs args, ToolContext& context) {
                   return edited(detail::edit_file(workspace, limits_of(options), std::move(args),
                                                   detail::Effect::apply,
                                                   terms_of(options, context))
                                     .change);
               })
        .sequential()
        .risk(ToolRisk::writes);
}

}  // namespace cubepi
