#include <bub/tape/file_tape_store.hpp>

#include <array>
#include <cstdlib>
#include <utility>

#include <pwd.h>
#include <unistd.h>

#include <bub/tape/file/digest.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/file/tape_errors.hpp>
#include <cubepi/core/offload.hpp>

namespace bub {

using detail::IndexKind;
using detail::TapeDirectory;

struct FileTapeStore::State : TapeDirectory {
    using TapeDirectory::TapeDirectory;
};

namespace {

/// Runs `function(directory)` on the directory's worker pool; it keeps the directory alive.
template <class F>
auto on_worker(std::shared_ptr<TapeDirectory> directory, F function)
    -> Task<std::invoke_result_t<F&, TapeDirectory&>> {
    const std::shared_ptr<cubepi::WorkerPool> workers = directory->options().workers;
    auto call = [directory, function = std::move(function)]() mutable {
        return function(*directory);
    };
    co_return co_await cubepi::offload(*workers, std::move(call));
}

FileTapeOptions in_directory(std::filesystem::path directory) {
    FileTapeOptions options;
    options.directory = std::move(directory);
    return options;
}

Task<std::optional<TapeEntry>> find(std::shared_ptr<TapeDirectory> directory, std::string tape,
                                    IndexKind kind, std::string key) {
    auto call = [tape = std::move(tape), kind, key = std::move(key)](TapeDirectory& tapes) {
        return tapes.find(tape, kind, key);
    };
    return on_worker(std::move(directory), std::move(call));
}

}  // namespace

std::filesystem::path home_directory() {
    if (const char* home = std::getenv("HOME"); home && *home) return home;
    // A world-writable directory is unsuitable: another user could create it first.
    std::array<char, 4096> text = {};
    struct passwd entry = {};
    struct passwd* found = nullptr;
    if (getpwuid_r(getuid(), &entry, text.data(), text.size(), &found) == 0 && found &&
        entry.pw_dir && *entry.pw_dir)
        return entry.pw_dir;
    return "/";
}

std::filesystem::path default_tape_directory() {
    if (const char* home = std::getenv("BUB_HOME"); home && *home)
        return std::filesystem::path(home) / "tapes";
    return home_directory() / ".bub" / "tapes";
}

FileTapeStore::FileTapeStore(FileTapeOptions options)
    : state_(std::make_shared<State>(std::move(options))) {
    detail::prepare_digests();
}
FileTapeStore::FileTapeStore(std::filesystem::path directory)
    : FileTapeStore(in_directory(std::move(directory))) {}
FileTapeStore::~FileTapeStore() = default;

const std::filesystem::path& FileTapeStore::directory() const noexcept {
    return state_->options().directory;
}

Task<std::vector<ListedTape>> FileTapeStore::newest_tapes() {
    return on_worker(state_, [](TapeDirectory& tapes) { return tapes.newest_tapes(); });
}

Task<void> FileTapeStore::copy_tape(std::string tape, std::filesystem::path target) {
    auto call = [tape = std::move(tape), target = std::move(target)](TapeDirectory& tapes) {
        tapes.copy(tape, target);
    };
    return on_worker(state_, std::move(call));
}

Task<void> FileTapeStore::remove_tape(std::string tape) {
    auto call = [tape = std::move(tape)](TapeDirectory& tapes) { tapes.remove(tape); };
    return on_worker(state_, std::move(call));
}

Task<std::shared_ptr<const void>> FileTapeStore::open_tape(std::string tape) {
    auto call = [tape = std::move(tape)](TapeDirectory& tapes) { return tapes.open_tape(tape); };
    return on_worker(state_, std::move(call));
}

Task<std::shared_ptr<const void>> FileTapeStore::hold(std::string name) {
    auto call = [name = std::move(name)](TapeDirectory& tapes) { return tapes.hold(name); };
    return on_worker(state_, std::move(call));
}

Task<bool> FileTapeStore::has_open_turn(std::string tape) {
    auto call = [tape = std::move(tape)](TapeDirectory& tapes) {
        return tapes.has_open_turn(tape);
    };
    return on_worker(state_, std::move(call));
}

std::string FileTapeStore::place() const { return directory().string(); }

Task<std::vector<std::string>> FileTapeStore::all_tapes() {
    return on_worker(state_, [](TapeDirectory& tapes) { return tapes.names(); });
}

Task<std::vector<TapeEntry>> FileTapeStore::fetch(std::string tape, TapeQuery query) {
    auto call = [tape = std::move(tape), query = std::move(query)](TapeDirectory& tapes) {
        std::vector<TapeEntry> found;
        tapes.visit(tape, query, [&](const TapeEntry& entry) {
            found.push_back(entry);
            return true;
        });
        return found;
    };
    return on_worker(state_, std::move(call));
}

Task<void> FileTapeStore::visit(std::string tape, TapeQuery query,
                                std::function<bool(const TapeEntry&)> visit) {
    auto call = [tape = std::move(tape), query = std::move(query), visit = std::move(visit)](
                    TapeDirectory& tapes) { tapes.visit(tape, query, visit); };
    return on_worker(state_, std::move(call));
}

Task<TapePosition> FileTapeStore::append(std::string tape, std::vector<TapeEntry> entries,
                                         TapeAppend options) {
    auto call = [tape = std::move(tape), entries = std::move(entries),
                 options = std::move(options)](TapeDirectory& tapes) mutable {
        return tapes.append(tape, std::move(entries), options);
    };
    return on_worker(state_, std::move(call));
}

Task<TapePosition> FileTapeStore::position(std::string tape) {
    auto call = [tape = std::move(tape)](TapeDirectory& tapes) { return tapes.position(tape); };
    return on_worker(state_, std::move(call));
}

Task<void> FileTapeStore::reset(std::string tape) {
    auto call = [tape = std::move(tape)](TapeDirectory& tapes) { tapes.reset(tape); };
    return on_worker(state_, std::move(call));
}

Task<TapeInfo> FileTapeStore::info(std::string tape) {
    auto call = [tape = std::move(tape)](TapeDirectory& tapes) { return tapes.info(tape); };
    return on_worker(state_, std::move(call));
}

Task<std::vector<TapeEntry>> FileTapeStore::anchors(std::string tape, std::size_t limit) {
    auto call = [tape = std::move(tape), limit](TapeDirectory& tapes) {
        return tapes.anchors(tape, limit);
    };
    return on_worker(state_, std::move(call));
}

Task<Json> FileTapeStore::edit_state(std::string tape,
                                     std::function<Json(JsonObject& state)> edit) {
    auto call = [tape = std::move(tape), edit = std::move(edit)](TapeDirectory& tapes) {
        return tapes.edit_state(tape, edit);
    };
    return on_worker(state_, std::move(call));
}

void FileTapeStore::edit_state_later(const std::string& tape,
                                     std::function<void(JsonObject& state)> edit) {
    state_->edit_state_later(tape, std::move(edit));
}

Task<JsonObject> FileTapeStore::read_state(std::string tape) {
    auto call = [tape = std::move(tape)](TapeDirectory& tapes) { return tapes.read_state(tape); };
    return on_worker(state_, std::move(call));
}

Task<cubepi::QuestionPage> FileTapeStore::list_requests(cubepi::QuestionQuery query) {
    auto call = [query = std::move(query)](TapeDirectory& tapes) {
        return tapes.list_requests(query);
    };
    return on_worker(state_, std::move(call));
}

std::string FileTapeStore::state_file(const std::string& tape) const {
    return detail::TapePaths(directory(), tape).state.string();
}

Task<std::optional<TapeEntry>> FileTapeStore::find_message_entry(std::string tape,
                                                                 std::string message_id) {
    return find(state_, std::move(tape), IndexKind::message, std::move(message_id));
}

Task<std::optional<TapeEntry>> FileTapeStore::find_event(std::string tape, std::string name) {
    return find(state_, std::move(tape), IndexKind::event, std::move(name));
}

Task<std::optional<TapeEntry>> FileTapeStore::find_run(std::string tape, std::string run_id) {
    return find(state_, std::move(tape), IndexKind::run, std::move(run_id));
}

Task<std::string> FileTapeStore::put_media(std::string bytes) {
    auto call = [bytes = std::move(bytes)](TapeDirectory& tapes) { return tapes.put_media(bytes); };
    return on_worker(state_, std::move(call));
}

Task<std::optional<std::string>> FileTapeStore::get_media(std::string sha256) {
    auto call = [sha256 = std::move(sha256)](TapeDirectory& tapes) {
        return tapes.get_media(sha256);
    };
    return on_worker(state_, std::move(call));
}

std::shared_ptr<TurnJournal> FileTapeStore::open_journal(const std::string& tape,
                                                         const std::string& turn_id) {
    return state_->open_journal(tape, turn_id);
}

}  // namespace bub
