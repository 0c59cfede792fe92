#include <bub/tape/divided_tape_store.hpp>

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include <bub/tape/tape_store_support.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {

namespace {

using cubepi::Outcome;

/// More are not remembered; a list finds them once more.
constexpr std::size_t most_known = 10'000;

}  // namespace

DividedTapeStore::DividedTapeStore(DatabaseMap map,
                                   std::vector<std::shared_ptr<SessionTapeStore>> stores)
    : map_(std::move(map)), stores_(std::move(stores)) {
    (void)stores_.at(map_.size() - 1);
}

SessionTapeStore& DividedTapeStore::store_of(const std::string& tape) const {
    {
        const std::lock_guard lock(mutex_);
        const auto known = elsewhere_.find(tape);
        if (known != elsewhere_.end()) return *stores_[known->second];
    }
    return *stores_[map_.of_tape(tape)];
}

void DividedTapeStore::note(const std::string& tape, std::size_t database) {
    const bool is_named = map_.of_tape(tape) == database;
    const std::lock_guard lock(mutex_);
    if (is_named) {
        elsewhere_.erase(tape);
        return;
    }
    if (elsewhere_.size() >= most_known) elsewhere_.clear();
    elsewhere_[tape] = database;
}

std::string DividedTapeStore::location() const {
    std::string text;
    for (std::size_t at = 0; at < map_.size(); ++at)
        text += (at > 0 ? ", " : "") + map_.name(at) + ": " + stores_[at]->location();
    return text;
}

Task<std::vector<ListedTape>> DividedTapeStore::newest_tapes_after(std::optional<ListedTape> last,
                                                                   std::size_t limit,
                                                                   std::string prefix) {
    Task<Readable<std::vector<ListedTape>>> reading =
        readable_tapes_after(std::move(last), limit, std::move(prefix));
    Readable<std::vector<ListedTape>> read = co_await std::move(reading);
    if (read.failure) std::rethrow_exception(read.failure);
    co_return std::move(read.list);
}

Task<Readable<std::vector<ListedTape>>> DividedTapeStore::readable_tapes_after(
    std::optional<ListedTape> last, std::size_t limit, std::string prefix) {
    std::vector<Task<std::vector<ListedTape>>> reading;
    for (const auto& store : stores_)
        reading.push_back(store->newest_tapes_after(last, limit, prefix));
    std::vector<Outcome<std::vector<ListedTape>>> lists =
        co_await cubepi::collect_all(std::move(reading));
    Readable<std::vector<ListedTape>> all;
    for (std::size_t at = 0; at < lists.size(); ++at) {
        if (!lists[at]) {
            all.failure = lists[at].failure();
            all.unread.push_back(map_.name(at));
            continue;
        }
        for (ListedTape& tape : lists[at].value()) {
            note(tape.name, at);
            all.list.push_back(std::move(tape));
        }
    }
    if (all.unread.size() == lists.size()) std::rethrow_exception(all.failure);
    keep_newest(all.list, limit);
    co_return all;
}

Task<std::vector<std::string>> DividedTapeStore::all_tapes() {
    std::vector<Task<std::vector<std::string>>> reading;
    for (const auto& store : stores_) reading.push_back(store->all_tapes());
    std::vector<std::vector<std::string>> lists = co_await cubepi::when_all(std::move(reading));
    std::vector<std::string> all;
    for (std::size_t at = 0; at < lists.size(); ++at) {
        for (std::string& tape : lists[at]) {
            note(tape, at);
            all.push_back(std::move(tape));
        }
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    co_return all;
}

Task<cubepi::QuestionPage> DividedTapeStore::list_requests(cubepi::QuestionQuery query) {
    Readable<cubepi::QuestionPage> read = co_await readable_requests(std::move(query));
    co_return std::move(read.list);
}

Task<Readable<cubepi::QuestionPage>> DividedTapeStore::readable_requests(
    cubepi::QuestionQuery query) {
    InboxBuilder inbox(query);
    // One more than the page has, so that it is known whether another one follows.
    const std::size_t limit =
        std::min(query.limit(), std::numeric_limits<std::size_t>::max() - 1) + 1;
    std::vector<Task<cubepi::QuestionPage>> reading;
    for (const auto& store : stores_) {
        cubepi::QuestionQuery one =
            cubepi::QuestionQuery().order(query.order()).limit(limit).after(query.after());
        reading.push_back(store->list_requests(std::move(one)));
    }
    std::vector<Outcome<cubepi::QuestionPage>> pages =
        co_await cubepi::collect_all(std::move(reading));
    Readable<cubepi::QuestionPage> all;
    for (std::size_t at = 0; at < pages.size(); ++at) {
        if (!pages[at]) {
            all.failure = pages[at].failure();
            all.unread.push_back(map_.name(at));
            continue;
        }
        for (cubepi::QuestionEntry& entry : pages[at].value().entries) {
            note(entry.thread_id, at);
            inbox.add(std::move(entry));
        }
    }
    if (all.unread.size() == pages.size()) std::rethrow_exception(all.failure);
    all.list = inbox.page();
    co_return all;
}

Task<std::shared_ptr<const void>> DividedTapeStore::hold(std::string name) {
    return stores_.front()->hold(std::move(name));
}

Task<std::string> DividedTapeStore::put_media(std::string bytes) {
    SessionTapeStore& store = *stores_[map_.of_session(bytes)];
    return store.put_media(std::move(bytes));
}

Task<std::optional<std::string>> DividedTapeStore::get_media(std::string sha256) {
    std::exception_ptr failure;
    for (const auto& store : stores_) {
        Task<std::optional<std::string>> reading = store->get_media(sha256);
        Outcome<std::optional<std::string>> read = co_await cubepi::outcome_of(std::move(reading));
        if (read.cancelled()) read.rethrow();
        if (read && read.value()) co_return std::move(read).value();
        if (!read) failure = read.failure();
    }
    // Those that cannot be read may have them.
    if (failure) std::rethrow_exception(failure);
    co_return std::nullopt;
}

Task<Readable<std::vector<ListedTape>>> readable_tapes(std::shared_ptr<SessionTapeStore> store,
                                                       std::optional<ListedTape> last,
                                                       std::size_t limit) {
    Readable<std::vector<ListedTape>> read;
    if (auto* const divided = dynamic_cast<DividedTapeStore*>(store.get())) {
        read = co_await divided->readable_tapes_after(std::move(last), limit, std::string());
    } else {
        read.list = co_await store->newest_tapes_after(std::move(last), limit);
    }
    co_return read;
}

Task<Readable<cubepi::QuestionPage>> readable_requests(std::shared_ptr<TapeStore> store,
                                                       cubepi::QuestionQuery query) {
    Readable<cubepi::QuestionPage> read;
    if (auto* const divided = dynamic_cast<DividedTapeStore*>(store.get())) {
        read = co_await divided->readable_requests(std::move(query));
    } else {
        read.list = co_await store->list_requests(std::move(query));
    }
    co_return read;
}

}  // namespace bub
