#include <cubepi/workspace/file_change.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/file_edit.hpp>
#include <cubepi/workspace/files/line_diff.hpp>

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
                    " has changed since this call was approved, so nothing was written. Read the "
                    "file again and retry the call.");
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

std::string FilePreviews::key_of(const ToolContext& call) {
    return call.call_key().empty() ? call.tool_call_id().str() : call.call_key();
}

std::string FilePreviews::key_of(const BeforeToolCallContext& call) {
    const std::vector<const ToolCall*> calls = call.assistant_message.tool_calls();
    const auto is_it = [&](const ToolCall* one) {
        return one == &call.tool_call || one->id == call.tool_call.id;
    };
    auto found = std::find(calls.begin(), calls.end(), &call.tool_call);
    // A hook has resolved the call: it is a copy.
    if (found == calls.end()) found = std::find_if(calls.begin(), calls.end(), is_it);
    const MessageList& messages = call.context.messages;
    for (auto message = messages.end(); message != messages.begin();) {
        --message;
        const AssistantMessage* const answer = message->assistant();
        if (!answer) continue;
        if (answer != &call.assistant_message && !(*answer == call.assistant_message)) continue;
        return message->id() + "." + std::to_string(found - calls.begin());
    }
    return call.tool_call.id.str();
}

FileChange FilePreviews::preview(const std::string& key, std::string_view tool,
                                 const JsonObject& arguments, std::optional<JudgedFile> judged) {
    if (!judged) {
        judged.emplace();
        judged->path = detail::text_member(arguments, "path");
        judged->target = workspace_->write_target(judged->path);
    }
    {
        const std::lock_guard lock(mutex_);
        Previewed& shown = previews_[key];
        shown.version.reset();
        if (!shown.file.target.empty() && shown.file.path == judged->path &&
            shown.file.target != judged->target) {
            throw Error(ErrorCode::invalid_state, judged->path + " led to " + shown.file.target +
                                                      " when the call was shown, and leads to " +
                                                      judged->target +
                                                      " now. Make the call again.");
        }
        shown.file = *judged;
    }
    const Json json(arguments);
    detail::ChangeTerms terms;
    terms.file = std::move(judged);
    detail::PlannedChange planned =
        tool == "write"
            ? detail::write_file(workspace_, limits_, from_json<detail::WriteArgs>(json),
                                 detail::Effect::preview, terms)
            : detail::edit_file(workspace_, limits_, from_json<detail::EditArgs>(json),
                                detail::Effect::preview, terms);
    const std::lock_guard lock(mutex_);
    previews_[key].version = planned.version;
    return std::move(planned.change);
}

void FilePreviews::forget(const std::string& key) { take(key); }

std::optional<FilePreviews::Previewed> FilePreviews::take(const std::string& key) {
    const std::lock_guard lock(mutex_);
    auto found = previews_.extract(key);
    if (found.empty()) return std::nullopt;
    return std::move(found.mapped());
}

}  // namespace cubepi

namespace cubepi::detail {

namespace {

using Pairs = std::array<unsigned char, 1024>;

std::string with_lf(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
        out += text[i];
    }
    return out;
}

std::string with_crlf(std::string_view lf_text) {
    std::string out;
    for (const char c : lf_text) {
        if (c == '\n') out += '\r';
        out += c;
    }
    return out;
}

/// Whether more lines end in CRLF than in LF alone.
bool prefers_crlf(std::string_view text) {
    std::size_t crlf = 0;
    std::size_t lf = 0;
    for (auto at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
        if (at > 0 && text[at - 1] == '\r')
            ++crlf;
        else
            ++lf;
    }
    return crlf > lf;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const auto end = text.find('\n');
        lines.push_back(text.substr(0, end));
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    }
    return lines;
}

std::size_t line_at(std::string_view text, std::size_t offset) {
    return 1 + static_cast<std::size_t>(std::count(
                   text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

/// The number of occurrences of pairs of adjacent characters, by hash.
Pairs pairs_of(std::string_view line) {
    Pairs pairs{};
    for (std::size_t i = 0; i + 1 < line.size(); ++i) {
        auto& count = pairs[(static_cast<unsigned char>(line[i]) * 31u +
                             static_cast<unsigned char>(line[i + 1])) %
                            1024];
        if (count < 255) ++count;
    }
    return pairs;
}

/// Returns the similarity of two lines, from 0 to 1: the share of common pairs.
double likeness(const Pairs& wanted, std::size_t wanted_size, std::string_view line) {
    if (wanted_size < 2 || line.size() < 2) return 0;
    const Pairs pairs = pairs_of(line);
    std::size_t common = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) common += std::min(pairs[i], wanted[i]);
    return 2.0 * static_cast<double>(common) / static_cast<double>(wanted_size + line.size() - 2);
}

/// Returns a sentence about the line most similar to `old_text`.
std::string nearest(std::string_view text, std::string_view old_text) {
    std::string_view wanted;
    for (const auto line : lines_of(old_text)) {
        wanted = trimmed(line, " \t\r");
        if (!wanted.empty()) break;
    }
    wanted = wanted.substr(0, 500);
    if (wanted.empty()) return {};
    const Pairs pairs = pairs_of(wanted);
    constexpr std::size_t max_lines = 20000;
    const auto lines = lines_of(text);
    double best = 0.5;
    std::size_t best_line = 0;
    for (std::size_t i = 0; i < std::min(lines.size(), max_lines); ++i) {
        const auto line = trimmed(lines[i], " \t\r");
        const double score =
            line == wanted ? 2.0 : likeness(pairs, wanted.size(), line.substr(0, 1000));
        if (score <= best) continue;
        best = score;
        best_line = i + 1;
    }
    if (best_line == 0) return " Nothing in the file resembles it.";
    const std::string where = " The nearest is line " + std::to_string(best_line);
    if (best == 2.0) {
        return where +
               ", which equals the first line of old_text except for spaces or the text after it: "
               "compare the indentation and the lines after it.";
    }
    return where + ": " + std::string(lines[best_line - 1].substr(0, 200));
}

[[noreturn]] void refuse(const std::string& sentence) {
    throw Error(ErrorCode::invalid_argument, sentence);
}

/// The offsets of all occurrences, including overlapping ones unless `all` are to be replaced.
std::vector<std::size_t> occurrences(std::string_view text, std::string_view wanted, bool all) {
    std::vector<std::size_t> found;
    for (auto at = text.find(wanted); at != std::string_view::npos;
         at = text.find(wanted, at + (all ? wanted.size() : 1))) {
        found.push_back(at);
    }
    return found;
}

}  // namespace

namespace {

/// A change that is previewed, or recorded and applied.
class Applied {
public:
    Applied(Workspace& workspace, const std::string& path, Effect effect, const ChangeTerms& terms)
        : workspace_(workspace), path_(path), effect_(effect), terms_(terms) {}

    /// Returns what rewrite() is to write.
    std::optional<std::string> content(const FileBefore& before, std::string content) {
        if (effect_ == Effect::preview) return std::nullopt;
        if (terms_.checkpoints) {
            record_ = FileCheckpoints::record(terms_.checkpoints, workspace_, path_, before,
                                              content, terms_.prompt);
        }
        return std::optional<std::string>(std::move(content));
    }
    void done() noexcept {
        if (record_) record_->made();
    }

private:
    Workspace& workspace_;
    const std::string& path_;
    const Effect effect_;
    const ChangeTerms& terms_;
    std::unique_ptr<FileCheckpoints::Change> record_;
};

}  // namespace

PlannedChange write_file(std::shared_ptr<Workspace> in, const FileChangeLimits& limits,
                         WriteArgs args, Effect effect, const ChangeTerms& terms) {
    CallFile file = file_of_call(std::move(in), std::move(args.path), terms.file);
    args.path = std::move(file.path);
    Workspace& workspace = *file.workspace;
    PlannedChange planned;
    Applied applied(workspace, args.path, effect, terms);
    FileChange& change = planned.change;
    change.path = args.path;
    change.new_bytes = args.content.size();
    workspace.rewrite(args.path, limits.max_file_bytes, [&](const FileBefore& before) {
        planned.version = version_of(before);
        check_version(args.path, planned.version, terms.expected);
        change.kind = before.exists ? FileChange::Kind::replaces : FileChange::Kind::creates;
        change.old_bytes = before.exists ? before.info.size : 0;
        if (before.exists && !before.content) {
            change.compared = false;
            change.new_lines = count_lines(args.content);
        } else {
            compare(change, before.content.value_or(std::string()), args.content, limits);
        }
        return applied.content(before, args.content);
    });
    applied.done();
    return planned;
}

PlannedChange edit_file(std::shared_ptr<Workspace> in, const FileChangeLimits& limits,
                        EditArgs args, Effect effect, const ChangeTerms& terms) {
    CallFile file = file_of_call(std::move(in), std::move(args.path), terms.file);
    args.path = std::move(file.path);
    Workspace& workspace = *file.workspace;
    PlannedChange planned;
    Applied applied(workspace, args.path, effect, terms);
    FileChange& change = planned.change;
    change.path = args.path;
    change.kind = FileChange::Kind::edits;
    workspace.rewrite(args.path, limits.max_file_bytes, [&](const FileBefore& before) {
        planned.version = version_of(before);
        check_version(args.path, planned.version, terms.expected);
        // read() throws if the file is missing or too large.
        const std::string text =
            before.content ? *before.content : workspace.read(args.path, limits.max_file_bytes);
        EditOutcome outcome = edit_text(text, args.old_text, args.new_text, args.all, args.path);
        change.old_bytes = text.size();
        change.new_bytes = outcome.text.size();
        change.replacements = outcome.replacements;
        change.first_line = outcome.first_line;
        compare(change, text, outcome.text, limits);
        return applied.content(before, std::move(outcome.text));
    });
    applied.done();
    return planned;
}

EditOutcome edit_text(std::string_view text, std::string_view old_text, std::string_view new_text,
                      bool all, const std::string& path) {
    if (old_text.empty()) {
        refuse("old_text is empty. To create a file or replace all of it, use the write tool.");
    }
    if (old_text == new_text)
        refuse("old_text and new_text are the same, so there is nothing to change.");
    const std::string plain = with_lf(text);
    const std::string wanted = with_lf(old_text);
    const auto found = occurrences(plain, wanted, all);
    if (found.empty()) {
        refuse("old_text does not occur in " + path + " (0 matches)." + nearest(plain, wanted) +
               " Read the file and copy the text exactly, without line numbers.");
    }
    if (found.size() > 1 && !all) {
        std::string lines;
        for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 10); ++i) {
            lines += (i == 0 ? "" : ", ") + std::to_string(line_at(plain, found[i]));
        }
        refuse(
            "old_text occurs " + std::to_string(found.size()) + " times in " + path + " (lines " +
            lines + (found.size() > 10 ? ", ..." : "") +
            "). Add surrounding lines until it is unique, or set all to replace every occurrence.");
    }
    std::string put_in = with_lf(new_text);
    if (prefers_crlf(text)) put_in = with_crlf(put_in);

    EditOutcome outcome;
    outcome.replacements = found.size();
    outcome.first_line = line_at(plain, found.front());
    // Walks the original text and the one with normalized line endings in parallel, so that other bytes remain unchanged.
    std::size_t at = 0;
    std::size_t plain_at = 0;
    const auto advance = [&](std::size_t until, bool copy) {
        const std::size_t begin = at;
        for (; plain_at < until; ++plain_at) {
            if (plain[plain_at] == '\n' && text[at] == '\r') ++at;
            ++at;
        }
        if (copy) outcome.text += text.substr(begin, at - begin);
    };
    for (const std::size_t place : found) {
        advance(place, true);
        advance(place + wanted.size(), false);
        outcome.text += put_in;
    }
    outcome.text += text.substr(at);
    return outcome;
}

}  // namespace cubepi::detail
