#include <cubepi/workspace/file_checkpoints.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/files/checkpoint_journal.hpp>

namespace cubepi {

using detail::ChangeRecord;
using detail::CheckpointJournal;
using detail::FileVersion;
using Kind = ChangeRecord::Kind;

namespace {

/// At most so many problems wait for take_problems().
constexpr std::size_t most_problems = 20;

FileVersion version_of(std::string_view content, std::optional<unsigned> mode) {
    FileVersion version;
    version.exists = true;
    version.sha256 = detail::sha256_hex(content);
    version.bytes = content.size();
    version.mode = mode;
    return version;
}

/// Returns the version of a file whose content was read, unless it is too large for that: then without a hash.
FileVersion version_of(const FileBefore& file) {
    FileVersion version;
    version.exists = file.exists;
    if (!file.exists) return version;
    if (file.content) return version_of(*file.content, file.info.mode);
    version.bytes = file.info.size;
    version.mode = file.info.mode;
    return version;
}

CheckpointJournal::Source source_of(std::string_view content) {
    return [content](char* buffer, std::size_t size) mutable {
        const std::string_view part = content.substr(0, size);
        std::copy(part.begin(), part.end(), buffer);
        content.remove_prefix(part.size());
        return part.size();
    };
}

CheckpointJournal::Source source_of(FileReader& file) {
    return [&file](char* buffer, std::size_t size) { return file.read(buffer, size); };
}

/// The changes that are in effect: made, and not taken back.
std::set<std::uint64_t> active_in(const std::vector<ChangeRecord>& records) {
    std::set<std::uint64_t> active;
    for (const ChangeRecord& record : records) {
        if (!record.applied.value_or(true)) continue;
        switch (record.kind) {
            case Kind::change: active.insert(record.number); break;
            case Kind::undo:
                for (const std::uint64_t one : record.covers) active.erase(one);
                break;
            case Kind::redo: active.insert(record.covers.begin(), record.covers.end()); break;
        }
    }
    return active;
}

/// Some changes of one file, by which it returns to an earlier version.
struct Step {
    Kind kind = Kind::undo;
    std::string prompt = {};
    std::string path = {};
    FileVersion now = {};           ///< as the last change left it
    FileVersion wanted = {};        ///< as it was before the first one
    bool is_created_since = false;  ///< one of the changes has created the file again
    bool copied = false;            ///< there is a copy of `wanted`
    bool is_partial = false;
    std::vector<std::uint64_t> covers = {};
};

/// Returns how the changes of one file, oldest first, are taken back: as far as each one continues the one before.
Step step_back(const std::vector<const ChangeRecord*>& changes) {
    Step step;
    const ChangeRecord& last = *changes.back();
    step.prompt = last.prompt;
    step.path = last.path;
    step.now = last.after;
    for (auto one = changes.rbegin(); one != changes.rend(); ++one) {
        const ChangeRecord& change = **one;
        if (one != changes.rbegin() && !change.after.same_content(step.wanted)) {
            step.is_partial = true;
            break;
        }
        step.wanted = change.before;
        step.copied = change.copied;
        step.is_created_since = step.is_created_since || !change.before.exists;
        step.covers.push_back(change.number);
    }
    return step;
}

std::string changed_text(const FileVersion& expected, const FileBefore& now) {
    if (!now.exists) return "it does not exist any more";
    return expected.exists ? "it was changed since" : "it exists again";
}

}  // namespace

struct FileCheckpoints::State {
    explicit State(FileCheckpointOptions options) : journal(std::move(options)) {}

    CheckpointJournal journal;
    std::mutex mutex;
    std::vector<std::string> problems;

    void note_problem(std::string text) {
        const std::lock_guard lock(mutex);
        if (problems.size() < most_problems) problems.push_back(std::move(text));
    }

    /// Finds out whether the last change of a file was made whose process was killed. While the journal is held.
    void record_interrupted(Workspace& workspace) {
        std::map<std::string, const ChangeRecord*> last;
        for (const ChangeRecord& record : journal.records()) {
            if (record.root == workspace.root() && record.applied.value_or(true))
                last[record.path] = &record;
        }
        for (const auto& [path, record] : last) {
            if (record->applied) continue;
            const bool was_made = !is_as(workspace, path, record->before) ||
                                  record->before.same_content(record->after);
            journal.record_outcome(record->number, was_made);
        }
    }

    static bool is_as(Workspace& workspace, const std::string& path, const FileVersion& version) {
        try {
            const std::unique_ptr<FileReader> file = workspace.open(path);
            if (!version.exists || file->info().size != version.bytes) return false;
            return version_of(workspace.read(path, version.bytes), {}).same_content(version);
        } catch (const Error& error) {
            return error.code() == ErrorCode::not_found && !version.exists;
        }
    }

    /// The active changes of these prompts, by file, in the order of each file's first change.
    std::vector<std::vector<const ChangeRecord*>> changes_of(
        const std::string& root, const std::vector<std::string>& prompts) {
        const std::set<std::uint64_t> active = active_in(journal.records());
        std::map<std::string, std::size_t> index;
        std::vector<std::vector<const ChangeRecord*>> files;
        for (const ChangeRecord& record : journal.records()) {
            const bool wanted =
                record.kind == Kind::change && record.root == root &&
                active.contains(record.number) &&
                std::find(prompts.begin(), prompts.end(), record.prompt) != prompts.end();
            if (!wanted) continue;
            const auto [at, is_new] = index.try_emplace(record.path, files.size());
            if (is_new) files.emplace_back();
            files[at->second].push_back(&record);
        }
        return files;
    }

    RestoredFile perform(Workspace& workspace, const Step& step, const std::string& batch);
    std::optional<std::uint64_t> record_step(Workspace& workspace, const Step& step,
                                             const std::string& batch, const FileBefore& now);
};

FileCheckpoints::FileCheckpoints(FileCheckpointOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

FileCheckpoints::~FileCheckpoints() = default;

std::string FileCheckpoints::prompt_of(const ToolContext& context) {
    const RunInfo& run = context.run();
    return run.origin.parent_run_id.empty() ? run.run_id.str() : run.origin.parent_run_id;
}

FileCheckpoints::Change::~Change() {
    try {
        const CheckpointJournal::Hold hold(checkpoints_->state_->journal, false);
        checkpoints_->state_->journal.record_outcome(number_, made_);
    } catch (const std::exception&) {
        // The next reader compares the file with the record.
    }
}

std::unique_ptr<FileCheckpoints::Change> FileCheckpoints::record(
    const std::shared_ptr<FileCheckpoints>& checkpoints, Workspace& workspace,
    const std::string& path, const FileBefore& before, std::optional<std::string_view> content,
    std::string prompt) noexcept {
    State& state = *checkpoints->state_;
    std::string problem;
    try {
        ChangeRecord record;
        record.prompt = replace_broken_utf8(prompt);
        record.root = workspace.root();
        record.path = workspace.write_target(path);
        record.before = version_of(before);
        if (content) record.after = version_of(*content, before.info.mode);
        std::unique_ptr<FileReader> large;
        if (before.exists && !before.content) large = workspace.open(path);
        const CheckpointJournal::Hold hold(state.journal, true);
        if (before.exists) {
            const CheckpointJournal::Source source =
                large ? source_of(*large) : source_of(*before.content);
            try {
                record.before.sha256 = state.journal.store(source, before.info.size);
                record.copied = true;
            } catch (const Error& error) {
                // Without a copy, the record still explains why the file cannot be restored.
                problem = error.what();
            }
        }
        state.journal.add(record);
        if (!problem.empty())
            state.note_problem("The change of " + path + " cannot be undone: " + problem);
        return std::make_unique<Change>(checkpoints, record.number);
    } catch (const std::exception& error) {
        problem = error.what();
    }
    try {
        state.note_problem("The change of " + path + " cannot be undone: " + problem);
    } catch (const std::exception&) {
        // No memory is left for a sentence.
    }
    return nullptr;
}

std::vector<std::string> FileCheckpoints::take_problems() {
    const std::lock_guard lock(state_->mutex);
    return std::exchange(state_->problems, {});
}

std::vector<PromptChanges> FileCheckpoints::prompts(Workspace& workspace) {
    const CheckpointJournal::Hold hold(state_->journal, false);
    state_->record_interrupted(workspace);
    const std::vector<ChangeRecord>& records = state_->journal.records();
    const std::set<std::uint64_t> active = active_in(records);
    std::vector<PromptChanges> prompts;
    for (const ChangeRecord& record : records) {
        if (record.kind != Kind::change || record.root != workspace.root() ||
            !record.applied.value_or(true))
            continue;
        auto found = std::find_if(prompts.begin(), prompts.end(),
                                  [&](const auto& one) { return one.prompt == record.prompt; });
        if (found == prompts.end()) {
            found = prompts.insert(prompts.end(), PromptChanges());
            found->prompt = record.prompt;
        }
        if (!active.contains(record.number)) {
            ++found->taken_back;
        } else if (std::find(found->files.begin(), found->files.end(), record.path) ==
                   found->files.end()) {
            found->files.push_back(record.path);
        }
    }
    return prompts;
}

std::uint64_t FileCheckpoints::dropped() {
    const CheckpointJournal::Hold hold(state_->journal, false);
    return state_->journal.dropped();
}

/// Stores the present content and records the step; empty if another process was faster. Called while the workspace holds the
/// file: the journal is always held last.
std::optional<std::uint64_t> FileCheckpoints::State::record_step(Workspace& workspace,
                                                                 const Step& step,
                                                                 const std::string& batch,
                                                                 const FileBefore& now) {
    const CheckpointJournal::Hold hold(journal, true);
    const std::set<std::uint64_t> active = active_in(journal.records());
    for (const std::uint64_t one : step.covers) {
        if (active.contains(one) == (step.kind == Kind::redo)) return std::nullopt;
    }
    ChangeRecord record;
    record.kind = step.kind;
    record.prompt = step.prompt;
    record.root = workspace.root();
    record.path = step.path;
    record.before = version_of(now);
    record.after = step.wanted;
    record.covers = step.covers;
    record.batch = batch;
    if (now.exists) {
        try {
            (void)journal.store(source_of(*now.content), now.content->size());
            record.copied = true;
        } catch (const Error& error) {
            // It can be taken back, but not made again. Without space it is not taken back: nothing is lost.
            if (error.code() != ErrorCode::too_large) throw;
        }
    }
    journal.add(record);
    return record.number;
}

RestoredFile FileCheckpoints::State::perform(Workspace& workspace, const Step& step,
                                             const std::string& batch) {
    using Outcome = RestoredFile::Outcome;
    RestoredFile result;
    result.path = step.path;
    result.is_partial = step.is_partial;
    std::optional<std::uint64_t> recorded;
    const auto change = [&](const FileBefore& now) -> std::optional<FileAfter> {
        const FileVersion present = version_of(now);
        if (present.same_content(step.wanted)) {
            result.outcome = Outcome::unchanged;
        } else if (!present.same_content(step.now)) {
            result.outcome = Outcome::conflict;
            result.reason = changed_text(step.now, now);
            return std::nullopt;
        }
        FileAfter after;
        if (step.wanted.exists && result.outcome != Outcome::unchanged) {
            if (!step.copied) {
                result.outcome = Outcome::failed;
                result.reason = "there is no copy of it";
                return std::nullopt;
            }
            const CheckpointJournal::Hold hold(journal, false);
            after.content = journal.load(step.wanted);
            // A mode that something else has set stays.
            if (!now.exists || step.is_created_since || now.info.mode == step.now.mode)
                after.mode = step.wanted.mode;
        }
        recorded = record_step(workspace, step, batch, now);
        if (!recorded || result.outcome == Outcome::unchanged) {
            result.outcome = Outcome::unchanged;
            return std::nullopt;
        }
        if (!step.wanted.exists) {
            result.outcome = Outcome::removed;
        } else if (!now.exists) {
            result.outcome = Outcome::created;
        }
        return after;
    };
    bool made = true;
    try {
        const std::uint64_t bytes = std::max(step.now.bytes, step.wanted.bytes);
        workspace.replace(step.path, static_cast<std::size_t>(bytes), change);
    } catch (const Error& error) {
        made = false;
        result.outcome = Outcome::failed;
        result.reason = error.what();
    }
    if (recorded) {
        const CheckpointJournal::Hold hold(journal, false);
        journal.record_outcome(*recorded, made);
    }
    return result;
}

std::vector<RestoredFile> FileCheckpoints::undo(Workspace& workspace,
                                                const std::vector<std::string>& prompts) {
    std::vector<Step> steps;
    {
        const CheckpointJournal::Hold hold(state_->journal, false);
        state_->record_interrupted(workspace);
        for (const auto& changes : state_->changes_of(workspace.root(), prompts))
            steps.push_back(step_back(changes));
    }
    std::vector<RestoredFile> files;
    const std::string batch = RandomIds().next();
    for (const Step& step : steps) files.push_back(state_->perform(workspace, step, batch));
    return files;
}

std::vector<RestoredFile> FileCheckpoints::redo(Workspace& workspace) {
    std::vector<Step> steps;
    {
        const CheckpointJournal::Hold hold(state_->journal, false);
        state_->record_interrupted(workspace);
        // The undos that no change has followed, newest last.
        std::vector<std::vector<const ChangeRecord*>> undos;
        for (const ChangeRecord& record : state_->journal.records()) {
            if (!record.applied.value_or(true) || record.root != workspace.root()) continue;
            if (record.kind == Kind::change) undos.clear();
            if (record.kind == Kind::undo) {
                const bool is_new = undos.empty() || undos.back().front()->batch != record.batch;
                if (is_new) undos.emplace_back();
                undos.back().push_back(&record);
            }
            if (record.kind == Kind::redo) {
                for (auto& batch : undos)
                    std::erase_if(batch, [&](const auto* undo) {
                        return undo->path == record.path && undo->covers == record.covers;
                    });
                std::erase_if(undos, [](const auto& batch) { return batch.empty(); });
            }
        }
        if (!undos.empty()) {
            for (const ChangeRecord* const undo : undos.back()) {
                Step step = step_back({undo});
                step.kind = Kind::redo;
                step.covers = undo->covers;
                steps.push_back(std::move(step));
            }
        }
    }
    std::vector<RestoredFile> files;
    const std::string batch = RandomIds().next();
    for (const Step& step : steps) files.push_back(state_->perform(workspace, step, batch));
    return files;
}

std::vector<EarlierFile> FileCheckpoints::before(Workspace& workspace,
                                                 const std::vector<std::string>& prompts) {
    const CheckpointJournal::Hold hold(state_->journal, false);
    std::vector<EarlierFile> files;
    for (const ChangeRecord& record : state_->journal.records()) {
        const bool wanted =
            record.kind == Kind::change && record.root == workspace.root() &&
            record.applied.value_or(true) &&
            std::find(prompts.begin(), prompts.end(), record.prompt) != prompts.end() &&
            std::none_of(files.begin(), files.end(),
                         [&](const auto& one) { return one.path == record.path; });
        if (!wanted) continue;
        EarlierFile& file = files.emplace_back();
        file.path = record.path;
        file.existed = record.before.exists;
        if (!record.copied) continue;
        try {
            file.content = state_->journal.load(record.before);
        } catch (const Error&) {
            // As one without a copy.
        }
    }
    return files;
}

void FileCheckpoints::copy(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::error_code failed;
    if (!std::filesystem::exists(from / "journal", failed)) return;
    CheckpointJournal source(FileCheckpointOptions().in(from));
    const CheckpointJournal::Hold hold(source, false);
    source.copy_to(to);
}

}  // namespace cubepi
