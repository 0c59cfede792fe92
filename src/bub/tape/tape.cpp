#include <bub/tape/tape.hpp>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/entry/message_entries.hpp>
#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub {

namespace {

const std::string bootstrap_anchor(detail::bootstrap_anchor);

JsonObject human() {
    JsonObject state;
    state["owner"] = "human";
    return state;
}

TapeQuery search_query(const TapeSearch& search) {
    TapeQuery query = TapeQuery().newest_first().kinds(search.kinds);
    if (search.from.empty() && search.to.empty()) return query;
    return std::move(query).between_dates(search.from.empty() ? "0001-01-01" : search.from,
                                          search.to.empty() ? "9999-12-31" : search.to);
}

/// The most similar entries found so far; of equally similar ones, the newest.
class NearestEntries {
public:
    explicit NearestEntries(std::size_t most) : most_(most) {}

    void add(double nearness, const TapeEntry& entry) {
        if (most_ == 0) return;
        const auto place = std::find_if(found_.begin(), found_.end(),
                                        [&](const auto& one) { return one.first < nearness; });
        if (place == found_.end() && found_.size() >= most_) return;
        found_.emplace(place, nearness, entry);
        if (found_.size() > most_) found_.pop_back();
    }
    void move_to(std::vector<TapeEntry>& to) {
        for (auto& [nearness, entry] : found_) to.push_back(std::move(entry));
    }

private:
    std::size_t most_;
    std::vector<std::pair<double, TapeEntry>> found_;
};

}  // namespace

Tape::Tape(std::shared_ptr<TapeStore> store, std::string name)
    : store_(std::move(store)), name_(std::move(name)) {
    detail::check_tape_name(name_);
}

Tape::Tape(std::shared_ptr<TapeStore> store, std::string name, std::vector<std::string> sidecars)
    : Tape(std::move(store), std::move(name)) {
    sidecars_ = std::move(sidecars);
}

std::shared_ptr<TurnTransaction> Tape::fork(TurnTransactionOptions options) const {
    return std::make_shared<TurnTransaction>(store_, name_, std::move(options));
}

Tape Tape::in(std::shared_ptr<TurnTransaction> fork) const {
    return Tape(std::move(fork), name_, sidecars_);
}

Task<TapePosition> Tape::append(TapeEntry entry) const {
    std::vector<TapeEntry> entries;
    entries.push_back(std::move(entry));
    return append(std::move(entries));
}

Task<TapePosition> Tape::append(std::vector<TapeEntry> entries) const {
    return store_->append(name_, std::move(entries), TapeAppend());
}

Task<void> Tape::handoff(std::string name, std::optional<JsonObject> state, JsonObject meta) const {
    const Tape tape = *this;
    std::vector<TapeEntry> entries =
        detail::handoff_entries(std::move(name), std::move(state), std::move(meta));
    co_await tape.append(std::move(entries));
}

Task<void> Tape::bootstrap(JsonObject meta) const {
    const Tape tape = *this;
    const std::vector<TapeEntry> there = co_await tape.store_->anchors(tape.name_, 1);
    if (!there.empty()) co_return;
    std::optional<JsonObject> state = human();
    std::vector<TapeEntry> entries =
        detail::handoff_entries(bootstrap_anchor, std::move(state), std::move(meta));
    TapeAppend options = TapeAppend().first_anchor(entries.size());
    (void)co_await tape.store_->append(tape.name_, std::move(entries), std::move(options));
}

Task<void> Tape::restart(std::string archived) const {
    const Tape tape = *this;
    JsonObject state = human();
    if (!archived.empty()) state["archived"] = std::move(archived);
    std::optional<JsonObject> first = std::move(state);
    JsonObject meta;
    std::vector<TapeEntry> entries =
        detail::handoff_entries(bootstrap_anchor, std::move(first), std::move(meta));
    TapeAppend options = TapeAppend().reset();
    co_await tape.store_->append(tape.name_, std::move(entries), std::move(options));
}

Task<std::vector<TapeEntry>> Tape::query(TapeQuery query) const {
    return store_->fetch(name_, std::move(query));
}

Task<std::vector<TapeEntry>> Tape::search(TapeSearch search) const {
    const Tape tape = *this;
    TapeQuery query = search_query(search);
    // Checked here, so that an invalid date is an error instead of an empty result.
    (void)detail::QueryFilter(query);
    struct Finds {
        std::vector<TapeEntry> exact;
        NearestEntries near;
        detail::TextSearch text;
    };
    auto finds = std::make_shared<Finds>(Finds{
        {}, NearestEntries(search.fuzzy ? search.limit : 0), detail::TextSearch(search.text)});
    const std::size_t limit = search.limit;
    const bool fuzzy = search.fuzzy;
    std::function<bool(const TapeEntry&)> look = [finds, limit, fuzzy](const TapeEntry& entry) {
        if (finds->text.found_in(entry)) {
            finds->exact.push_back(entry);
        } else if (fuzzy) {
            const double nearness = finds->text.nearness(entry);
            if (nearness >= detail::TextSearch::near_enough) finds->near.add(nearness, entry);
        }
        return finds->exact.size() < limit;
    };
    if (limit > 0) co_await tape.store_->visit(tape.name_, std::move(query), std::move(look));
    finds->near.move_to(finds->exact);
    if (finds->exact.size() > limit) finds->exact.resize(limit);
    co_return std::move(finds->exact);
}

Task<std::vector<TapeAnchor>> Tape::anchors(std::size_t limit) const {
    const Tape tape = *this;
    std::vector<TapeAnchor> anchors;
    const std::vector<TapeEntry> entries = co_await tape.store_->anchors(tape.name_, limit);
    for (const TapeEntry& entry : entries) {
        TapeAnchor anchor;
        const std::string_view name = entry_name(entry);
        if (!name.empty()) anchor.name = name;
        if (const JsonObject* state = cubepi::detail::object_member(entry.payload, "state"))
            anchor.state = *state;
        anchors.push_back(std::move(anchor));
    }
    co_return anchors;
}

Task<TapeInfo> Tape::info() const { return store_->info(name_); }

Task<JsonArray> Tape::context(ContextStart start) const {
    const Tape tape = *this;
    TapeQuery query = start.query();
    const std::vector<TapeEntry> entries =
        co_await tape.store_->fetch(tape.name_, std::move(query));
    co_return context_messages(entries);
}

// Sidecars: a tape is archived and emptied together with them.

namespace {

constexpr std::string_view sidecar_mark = "__sidecar__";

/// An operation on a sidecar, as recorded in its event.
struct SidecarOutcome {
    std::string what = {};  ///< archive, reset
    std::string sidecar = {};
    std::string archive = {};
    std::exception_ptr failure = {};

    TapeEntry entry() const {
        JsonObject data;
        data["sidecar"] = sidecar;
        data["status"] = failure ? "error" : "ok";
        data["reason"] = "tape.reset";
        if (!archive.empty()) data["archive"] = archive;
        if (failure) data["error"] = cubepi::exception_text(failure);
        return event_entry("sidecar." + what, std::move(data), hidden_from_context());
    }
};

Task<SidecarOutcome> try_archive(Tape sidecar, std::string name, std::string directory) {
    cubepi::Outcome<std::string> archive =
        co_await cubepi::outcome_of(sidecar.archive(std::move(directory)));
    if (archive.cancelled()) archive.rethrow();
    SidecarOutcome outcome;
    outcome.what = "archive";
    outcome.sidecar = std::move(name);
    outcome.failure = archive.failure();
    if (archive.ok()) outcome.archive = std::move(archive).value();
    co_return outcome;
}

Task<SidecarOutcome> try_reset(Tape sidecar, std::string name) {
    const cubepi::Outcome<> done =
        co_await cubepi::outcome_of(sidecar.store()->reset(sidecar.name()));
    if (done.cancelled()) done.rethrow();
    SidecarOutcome outcome;
    outcome.what = "reset";
    outcome.sidecar = std::move(name);
    outcome.failure = done.failure();
    co_return outcome;
}

/// Creates a new file: an archive of the same second is not overwritten.
std::filesystem::path write_new(const std::filesystem::path& stem,
                                const std::vector<TapeEntry>& entries) {
    std::error_code unknown;
    if (!std::filesystem::is_directory(stem.parent_path(), unknown))
        detail::make_private_directory(stem.parent_path());
    for (int number = 1;; ++number) {
        std::filesystem::path path = stem;
        if (number > 1) path += "-" + std::to_string(number);
        path += ".bak";
        if (std::filesystem::exists(path)) continue;
        const detail::Descriptor file = detail::Descriptor::open(path, O_WRONLY | O_CREAT | O_EXCL);
        for (const TapeEntry& entry : entries) file.write(tape_line(entry));
        return path;
    }
}

}  // namespace

std::string sidecar_tape_name(std::string_view owner, std::string_view sidecar) {
    return std::string(owner) + std::string(sidecar_mark) + std::string(sidecar);
}

bool is_sidecar_name(std::string_view tape) { return tape.find(sidecar_mark) != tape.npos; }

Tape Tape::sidecar(std::string_view name) const {
    if (std::find(sidecars_.begin(), sidecars_.end(), name) == sidecars_.end()) {
        throw cubepi::Error(cubepi::ErrorCode::not_found,
                            "tape '" + name_ + "' has no sidecar '" + std::string(name) +
                                "'; a plugin's provide_tape_sidecar must return it");
    }
    return Tape(store_, sidecar_tape_name(name_, name));
}

Task<std::string> Tape::archive(std::string directory) const {
    const Tape tape = *this;
    const std::shared_ptr<const cubepi::Runtime> runtime = cubepi::Runtime::standard();
    std::string stamp = tape_date(runtime->clock->wall()).substr(0, 19);
    std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
    std::filesystem::path stem =
        std::filesystem::path(std::move(directory)) / (tape.name_ + ".jsonl." + stamp + "Z");
    TapeQuery all;
    std::vector<TapeEntry> entries = co_await tape.store_->fetch(tape.name_, std::move(all));
    if (entries.empty()) co_return std::string();
    auto write = [stem = std::move(stem), entries = std::move(entries)] {
        return write_new(stem, entries);
    };
    const std::filesystem::path path =
        co_await cubepi::offload(*runtime->workers, std::move(write));
    co_return path.string();
}

Task<> forget_suspended_run(Tape tape) {
    const JsonObject state = co_await tape.store()->read_state(tape.name());
    if (!has_suspended_run(state)) co_return;
    TapeCheckpointer memory(tape.store());
    (void)co_await memory.discard_requests(tape.name());
    std::function<Json(JsonObject&)> forget = [](JsonObject& now) {
        now.erase("answers");
        return Json();
    };
    (void)co_await tape.store()->edit_state(tape.name(), std::move(forget));
}

Task<std::string> Tape::reset(TapeReset options) const {
    const Tape tape = *this;
    const bool archives = !options.archive_directory.empty();
    std::string archived;
    if (archives) archived = co_await tape.archive(options.archive_directory);
    std::vector<SidecarOutcome> archives_made;
    for (const std::string& name : tape.sidecars_) {
        SidecarOutcome outcome;
        if (archives) {
            outcome = co_await try_archive(tape.sidecar(name), name, options.archive_directory);
        }
        archives_made.push_back(std::move(outcome));
    }
    co_await tape.restart(archived);
    co_await forget_suspended_run(tape);
    for (std::size_t i = 0; i < tape.sidecars_.size(); ++i) {
        const SidecarOutcome& made = archives_made[i];
        std::vector<TapeEntry> events;
        if (made.failure || !made.archive.empty()) events.push_back(made.entry());
        if (!made.failure) {
            const std::string& name = tape.sidecars_[i];
            const SidecarOutcome outcome = co_await try_reset(tape.sidecar(name), name);
            events.push_back(outcome.entry());
        }
        co_await tape.append(std::move(events));
    }
    co_return archived;
}

}  // namespace bub
