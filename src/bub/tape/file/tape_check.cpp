#include <bub/tape/tape_check.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <bub/tape/entry/line_check.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <cubepi/core/error.hpp>

// Checks the files of tapes without changing them.

namespace bub::detail {

namespace fs = std::filesystem;

namespace {

constexpr auto lock_timeout = std::chrono::seconds(2);

FileTapeOptions options_for(const fs::path& directory) {
    FileTapeOptions options;
    options.directory = directory;
    return options;
}

double unix_now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// A tape as it was at one moment.
struct OpenedTape {
    Descriptor file = {};
    std::uint64_t end = 0;
    bool has_open_turn = false;
};

class DirectoryCheck {
public:
    explicit DirectoryCheck(const fs::path& directory)
        : directory_(directory),
          tapes_(options_for(directory)),
          marks_(directory / "requests", false),
          report_("tapes in '" + directory.string() + "'") {}

    cubepi::StoreReport run() {
        if (::access(directory_.c_str(), R_OK | X_OK) != 0) throw_system("read", directory_, errno);
        const std::vector<std::string> names = tapes_.names();
        report_.count("tapes", static_cast<std::int64_t>(names.size()));
        for (const std::string& name : names) {
            try {
                check(name);
            } catch (const cubepi::CheckpointerLockTimeoutError&) {
                report_.note("tape '" + name + "'", "another process holds it; it was not checked");
            } catch (const cubepi::Error& error) {
                report_.damage("tape '" + name + "'", error.what(), {});
            }
        }
        check_marks(names);
        return std::move(report_);
    }

private:
    void check(const std::string& name) {
        const TapePaths paths(directory_, name);
        const OpenedTape tape = open(paths, name);
        std::optional<IndexHeader> index;
        if (tape.file) index = TapeIndexFile::stored(paths.index, tape.file);
        if (tape.file && !index && ::access(paths.index.c_str(), F_OK) == 0)
            report_.repair("tape '" + name + "'",
                           "its index is of another file or version, or is cut off",
                           "the next use builds it again");
        TapeCheck check(name, report_);
        std::optional<CheckedSums> indexed;
        if (tape.file) indexed = check_lines(check, tape, index ? index->mark.covered : 0);
        if (index && indexed) check_index(check.where(), *index, *indexed);
        JsonObject state;
        try {
            state = tapes_.read_state(name);
        } catch (const cubepi::Error& error) {
            report_.damage(check.where(), error.what(), {});
        }
        check.finish(state, unix_now(), tape.has_open_turn);
    }

    /// Waits for a writer. Its unfinished append is left out, and so is that of a process that was killed.
    OpenedTape open(const TapePaths& paths, const std::string& name) {
        const FileLock lock(paths.lock, LockKind::shared, lock_timeout);
        OpenedTape tape;
        tape.file = Descriptor::open(paths.tape, O_RDONLY);
        tape.end = tape.file ? tape.file.size() : 0;
        if (::access(paths.commit.c_str(), F_OK) == 0) {
            tape.end = std::min(tape.end, end_before_commit(paths));
            report_.repair("tape '" + name + "'", "an append of several entries was interrupted",
                           "the next use completes it, or takes it back");
        }
        check_turns(paths, name, tape);
        return tape;
    }

    void check_turns(const TapePaths& paths, const std::string& name, OpenedTape& tape) {
        std::error_code failed;
        if (fs::is_symlink(paths.turns, failed)) return;
        for (const fs::path& file : files_in(paths.turns)) {
            if (file.extension() != ".journal") continue;
            const Descriptor journal = Descriptor::open(file, O_RDONLY);
            if (!journal) continue;
            tape.has_open_turn = true;
            report_.count("open turns", 1);
            if (!try_lock(journal)) continue;  // its process is alive
            const JournaledTurn turn = read_journal(journal.read_all());
            report_.repair("tape '" + name + "'",
                           "the process of turn '" + turn.id + "' has ended without closing it",
                           "the next use stores its entries and marks it as interrupted");
        }
    }

    /// Returns the sums of the part that the index covers.
    std::optional<CheckedSums> check_lines(TapeCheck& check, const OpenedTape& tape,
                                           std::uint64_t covered) {
        std::optional<CheckedSums> indexed;
        LineReader lines(tape.file, 0, tape.end);
        FileLine line;
        for (std::size_t number = 1; lines.next(line); ++number) {
            const std::string place = "line " + std::to_string(number);
            const std::int64_t before = check.sums().entries;
            check.add(line.text, place);
            if (!line.ended && check.sums().entries > before)
                report_.repair(check.where() + ", " + place, "its line feed is missing",
                               "the next entry gets a line of its own");
            if (line.end == covered) indexed = check.sums();
        }
        return indexed;
    }

    void check_index(const std::string& where, const IndexHeader& index, const CheckedSums& found) {
        const CheckedSums stored = {index.entries, index.last_id, index.messages, index.anchors};
        if (stored == found) return;
        report_.damage(where,
                       "its index counts " + std::to_string(stored.entries) + " entries up to id " +
                           std::to_string(stored.last_id) + ", and the file has " +
                           std::to_string(found.entries) + " up to id " +
                           std::to_string(found.last_id),
                       "delete the file .jsonl.index of the tape; the next use builds it again");
    }

    RequestMarkSet wanted_marks(const std::string& name) {
        try {
            return marks_of(name, tapes_.read_state(name));
        } catch (const cubepi::Error&) {
            return {};  // is reported by check()
        }
    }

    /// Requests that the inbox does not list, and marks without a request. What seems to be missing is read again, since requests
    /// come and go.
    void check_marks(const std::vector<std::string>& names) {
        if (!marks_.is_complete()) return;
        RequestMarkSet wanted;
        for (const std::string& name : names) wanted.merge(wanted_marks(name));
        const std::vector<RequestMark> listed = marks_.read();
        RequestMarkSet present(listed.begin(), listed.end());
        for (const RequestMark& mark : wanted) {
            if (present.contains(mark) || !wanted_marks(mark.tape).contains(mark)) continue;
            const std::vector<RequestMark> again = marks_.read();
            if (std::find(again.begin(), again.end(), mark) != again.end()) continue;
            report_.damage(
                "tape '" + mark.tape + "'",
                "a pending request is not in the index of requests, so no inbox lists it",
                "delete the directory 'requests'; the next listing builds it again");
        }
        for (const RequestMark& mark : present) {
            if (wanted.contains(mark) || wanted_marks(mark.tape).contains(mark)) continue;
            report_.repair("tape '" + mark.tape + "'",
                           "the index of requests names one that is not pending",
                           "the next listing of the inbox removes it");
        }
    }

    const fs::path directory_;
    TapeDirectory tapes_;
    const RequestMarks marks_;
    cubepi::StoreReport report_;
};

}  // namespace

}  // namespace bub::detail

namespace bub {

cubepi::StoreReport check_tape_files(const std::filesystem::path& directory) {
    return detail::DirectoryCheck(directory).run();
}

}  // namespace bub
