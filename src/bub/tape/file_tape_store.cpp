#include <bub/tape/file_tape_store.hpp>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include <pwd.h>
#include <unistd.h>

#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/offload.hpp>

namespace bub {

using detail::TapeDirectory;

struct FileTapeStore::State : TapeDirectory {
    using TapeDirectory::TapeDirectory;
};

namespace {

/// Calls `function`, a member or one that takes the directory, on the directory's worker pool; it keeps the directory alive.
template <class F, class... Arguments>
auto on_worker(std::shared_ptr<TapeDirectory> directory, F function, Arguments... arguments)
    -> Task<std::invoke_result_t<F&, TapeDirectory&, Arguments...>> {
    const std::shared_ptr<cubepi::WorkerPool> workers = directory->options().workers;
    auto call = [directory, function = std::move(function),
                 ... arguments = std::move(arguments)]() mutable {
        return std::invoke(function, *directory, std::move(arguments)...);
    };
    co_return co_await cubepi::offload(*workers, std::move(call));
}

/// Calls a function of a caller on the worker. Its captures are often in the frame of the caller, who may leave while the worker
/// still runs (cancellation): no call begins after the end of this object, which waits for one that has begun.
class CallerFunction {
public:
    template <class R, class... Arguments>
    std::function<R(Arguments...)> wrap(std::function<R(Arguments...)> function) const {
        if (!function) return function;
        return [gate = gate_, function = std::move(function)](Arguments... arguments) {
            const std::lock_guard lock(gate->mutex);
            if (gate->closed) std::rethrow_exception(cubepi::make_cancelled());
            return function(std::forward<Arguments>(arguments)...);
        };
    }
    CallerFunction() = default;
    ~CallerFunction() {
        const std::lock_guard lock(gate_->mutex);
        gate_->closed = true;
    }
    CallerFunction(const CallerFunction&) = delete;
    CallerFunction& operator=(const CallerFunction&) = delete;

private:
    struct Gate {
        std::mutex mutex;
        bool closed = false;
    };
    const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

FileTapeOptions in_directory(std::filesystem::path directory) {
    FileTapeOptions options;
    options.directory = std::move(directory);
    return options;
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
    : state_(std::make_shared<State>(std::move(options))) {}
FileTapeStore::FileTapeStore(std::filesystem::path directory)
    : FileTapeStore(in_directory(std::move(directory))) {}
FileTapeStore::~FileTapeStore() = default;

const std::filesystem::path& FileTapeStore::directory() const noexcept {
    return state_->options().directory;
}

std::string FileTapeStore::location() const { return directory().string(); }

Task<std::vector<ListedTape>> FileTapeStore::newest_tapes_after(std::optional<ListedTape> last,
                                                                std::size_t limit,
                                                                std::string prefix) {
    return on_worker(state_, &TapeDirectory::newest_tapes_after, std::move(last), limit,
                     std::move(prefix));
}

Task<void> FileTapeStore::remove_tape(std::string tape) {
    return on_worker(state_, &TapeDirectory::remove, std::move(tape));
}

Task<std::shared_ptr<const void>> FileTapeStore::open_tape(std::string tape) {
    return on_worker(state_, &TapeDirectory::open_tape, std::move(tape));
}

Task<std::shared_ptr<const void>> FileTapeStore::hold(std::string name) {
    return on_worker(state_, &TapeDirectory::hold, std::move(name));
}

Task<bool> FileTapeStore::has_open_turn(std::string tape) {
    return on_worker(state_, &TapeDirectory::has_open_turn, std::move(tape));
}

Task<std::vector<std::string>> FileTapeStore::all_tapes() {
    return on_worker(state_, &TapeDirectory::names);
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
    const CallerFunction caller;
    visit = caller.wrap(std::move(visit));
    co_await on_worker(state_, &TapeDirectory::visit, std::move(tape), std::move(query),
                       std::move(visit));
}

Task<TapePosition> FileTapeStore::append(std::string tape, std::vector<TapeEntry> entries,
                                         TapeAppend options) {
    const CallerFunction caller;
    std::function<void(const JsonObject&)> guard = caller.wrap(options.guard());
    TapeAppend guarded = std::move(options).guard(std::move(guard));
    co_return co_await on_worker(state_, &TapeDirectory::append, std::move(tape),
                                 std::move(entries), std::move(guarded));
}

Task<TapePosition> FileTapeStore::position(std::string tape) {
    return on_worker(state_, &TapeDirectory::position, std::move(tape));
}

Task<void> FileTapeStore::reset(std::string tape) {
    return on_worker(state_, &TapeDirectory::reset, std::move(tape));
}

Task<TapeInfo> FileTapeStore::info(std::string tape) {
    return on_worker(state_, &TapeDirectory::info, std::move(tape));
}

Task<std::vector<TapeEntry>> FileTapeStore::anchors(std::string tape, std::size_t limit) {
    return on_worker(state_, &TapeDirectory::anchors, std::move(tape), limit);
}

Task<Json> FileTapeStore::edit_state(std::string tape,
                                     std::function<Json(JsonObject& state)> edit) {
    const CallerFunction caller;
    edit = caller.wrap(std::move(edit));
    co_return co_await on_worker(state_, &TapeDirectory::edit_state, std::move(tape),
                                 std::move(edit));
}

void FileTapeStore::edit_state_later(const std::string& tape,
                                     std::function<void(JsonObject& state)> edit) {
    state_->edit_state_later(tape, std::move(edit));
}

Task<JsonObject> FileTapeStore::read_state(std::string tape) {
    return on_worker(state_, &TapeDirectory::read_state, std::move(tape));
}

Task<cubepi::QuestionPage> FileTapeStore::list_requests(cubepi::QuestionQuery query) {
    return on_worker(state_, &TapeDirectory::list_requests, std::move(query));
}

std::string FileTapeStore::state_file(const std::string& tape) const {
    return detail::TapePaths(directory(), tape).state.string();
}

Task<std::optional<TapeEntry>> FileTapeStore::find(std::string tape, TapeKey key,
                                                   std::string value) {
    return on_worker(state_, &TapeDirectory::find, std::move(tape), key, std::move(value));
}

Task<std::string> FileTapeStore::put_media(std::string bytes) {
    return on_worker(state_, &TapeDirectory::put_media, std::move(bytes));
}

Task<std::optional<std::string>> FileTapeStore::get_media(std::string sha256) {
    return on_worker(state_, &TapeDirectory::get_media, std::move(sha256));
}

std::shared_ptr<TurnJournal> FileTapeStore::open_journal(const std::string& tape,
                                                         const std::string& turn_id) {
    return state_->open_journal(tape, turn_id);
}

}  // namespace bub
