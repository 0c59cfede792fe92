#include <bub/tape/memory_tape_store.hpp>

#include <map>
#include <mutex>
#include <utility>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/tape_store_support.hpp>
#include <cubepi/core/support/digest.hpp>

namespace bub {

namespace {

struct StoredTape {
    std::vector<TapeEntry> entries = {};
    std::int64_t messages = 0;
    TapeInfo info = {};
    JsonObject state = {};
    std::map<std::pair<TapeKey, std::string>, std::size_t> index = {};  ///< the newest of each key

    TapePosition position() const {
        TapePosition end;
        if (!entries.empty()) end.last_id = entries.back().id;
        end.messages = messages;
        return end;
    }
    void clear() {
        JsonObject stored = std::move(state);
        *this = StoredTape();
        state = std::move(stored);
    }
    void add(TapeEntry entry) {
        const detail::EntryFields fields = detail::fields_of(entry);
        const std::size_t at = entries.size();
        for (const std::string& id : fields.message_ids) index[{TapeKey::message, id}] = at;
        if (fields.event) index[{TapeKey::event, fields.name}] = at;
        if (!fields.run_id.empty()) index[{TapeKey::run, fields.run_id}] = at;
        detail::add_to(info, fields);
        entries.push_back(std::move(entry));
    }
};

}  // namespace

struct MemoryTapeStore::State {
    std::mutex mutex;
    std::shared_ptr<cubepi::Clock> clock;
    std::map<std::string, StoredTape> tapes;
    std::map<std::string, std::string> media;

    const StoredTape& find(const std::string& tape) const {
        static const StoredTape none;
        const auto found = tapes.find(tape);
        return found == tapes.end() ? none : found->second;
    }
};

MemoryTapeStore::MemoryTapeStore(std::shared_ptr<cubepi::Clock> clock)
    : state_(std::make_unique<State>()) {
    state_->clock = clock ? std::move(clock) : std::make_shared<cubepi::SystemClock>();
}
MemoryTapeStore::~MemoryTapeStore() = default;

Task<std::vector<std::string>> MemoryTapeStore::all_tapes() {
    const std::lock_guard lock(state_->mutex);
    std::vector<std::string> names;
    for (const auto& [name, tape] : state_->tapes) {
        if (!tape.entries.empty()) names.push_back(name);
    }
    co_return names;
}

Task<std::vector<TapeEntry>> MemoryTapeStore::fetch(std::string tape, TapeQuery query) {
    const std::lock_guard lock(state_->mutex);
    co_return evaluate_query(state_->find(tape).entries, query);
}

Task<TapePosition> MemoryTapeStore::append(std::string tape, std::vector<TapeEntry> entries,
                                           TapeAppend options) {
    const std::lock_guard lock(state_->mutex);
    const StoredTape& found = state_->find(tape);
    const TapeBefore before{found.position(), found.info.anchors > 0,
                            options.guard() ? found.state : JsonObject()};
    const TapePosition end = prepare_append(tape, before, entries, options, state_->clock->wall());
    StoredTape& stored = state_->tapes[tape];
    if (options.reset()) stored.clear();
    stored.messages = end.messages;
    for (TapeEntry& entry : entries) stored.add(std::move(entry));
    co_return end;
}

Task<TapePosition> MemoryTapeStore::position(std::string tape) {
    const std::lock_guard lock(state_->mutex);
    co_return state_->find(tape).position();
}

Task<TapeInfo> MemoryTapeStore::info(std::string tape) {
    const std::lock_guard lock(state_->mutex);
    co_return state_->find(tape).info;
}

Task<Json> MemoryTapeStore::edit_state(std::string tape,
                                       std::function<Json(JsonObject& state)> edit) {
    const std::lock_guard lock(state_->mutex);
    require_tape_name(tape);
    JsonObject changed = state_->find(tape).state;
    Json result = edit(changed);
    state_->tapes[tape].state = std::move(changed);
    co_return result;
}

void MemoryTapeStore::edit_state_later(const std::string& tape,
                                       std::function<void(JsonObject& state)> edit) {
    const std::lock_guard lock(state_->mutex);
    edit(state_->tapes[tape].state);
}

Task<JsonObject> MemoryTapeStore::read_state(std::string tape) {
    const std::lock_guard lock(state_->mutex);
    co_return state_->find(tape).state;
}

Task<cubepi::QuestionPage> MemoryTapeStore::list_requests(cubepi::QuestionQuery query) {
    const std::lock_guard lock(state_->mutex);
    InboxBuilder inbox(std::move(query));
    for (const auto& [name, tape] : state_->tapes) inbox.add(name, tape.state);
    co_return inbox.page();
}

Task<std::optional<TapeEntry>> MemoryTapeStore::find(std::string tape, TapeKey key,
                                                     std::string value) {
    const std::lock_guard lock(state_->mutex);
    const StoredTape& stored = state_->find(tape);
    const auto found = stored.index.find(std::pair(key, std::move(value)));
    if (found == stored.index.end()) co_return std::nullopt;
    co_return stored.entries[found->second];
}

Task<std::string> MemoryTapeStore::put_media(std::string bytes) {
    const std::lock_guard lock(state_->mutex);
    std::string name = cubepi::detail::sha256_hex(bytes);
    state_->media.try_emplace(name, std::move(bytes));
    co_return name;
}

Task<std::optional<std::string>> MemoryTapeStore::get_media(std::string sha256) {
    const std::lock_guard lock(state_->mutex);
    std::optional<std::string> bytes;
    const auto found = state_->media.find(sha256);
    if (found != state_->media.end()) bytes = found->second;
    co_return bytes;
}

}  // namespace bub
