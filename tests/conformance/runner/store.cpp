#include "store.hpp"

#include <stdlib.h>

#include <system_error>
#include <utility>

#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include "support.hpp"

namespace conformance {

namespace {

using cubepi::Task;

/// A store whose n-th append fails; all else goes to the one inside.
class FailingStore final : public cubepi::StoredThreads {
public:
    FailingStore(std::shared_ptr<cubepi::StoredThreads> inner, std::set<std::int64_t> failing,
                 std::shared_ptr<std::int64_t> count)
        : StoredThreads(inner->backend()),
          inner_(std::move(inner)),
          failing_(std::move(failing)),
          count_(std::move(count)) {}

    Task<std::int64_t> append(std::string thread_id, cubepi::MessageList messages,
                              cubepi::AppendOptions options) override {
        // The original saves extra alone by another call.
        if (!messages.empty() && failing_.contains(++*count_)) return fail(std::move(thread_id));
        return inner_->append(std::move(thread_id), std::move(messages), std::move(options));
    }

private:
    static Task<std::int64_t> fail(std::string thread_id) {
        throw StoreFault(cubepi::ErrorCode::storage, "this append fails, as the scenario wants it",
                         std::move(thread_id));
        co_return 0;
    }

    const std::shared_ptr<cubepi::StoredThreads> inner_;
    const std::set<std::int64_t> failing_;
    const std::shared_ptr<std::int64_t> count_;
};

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "conformance-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
    path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

ScenarioStore::ScenarioStore(const Scenario& scenario, std::string keep)
    : kind_(keep.empty() ? scenario.store : StoreKind::sqlite),
      fail_append_(scenario.fail_append),
      file_(std::move(keep)) {
    if (kind_ == StoreKind::none) return;
    if (kind_ == StoreKind::sqlite && file_.empty()) {
        directory_ = std::make_unique<TemporaryDirectory>();
        file_ = (directory_->path() / "store.sqlite").string();
    }
    open();
}

ScenarioStore::~ScenarioStore() = default;

void ScenarioStore::open() {
    if (kind_ == StoreKind::sqlite) {
        store_ = std::make_shared<cubepi::SQLiteCheckpointer>(file_);
    } else {
        store_ = std::make_shared<cubepi::MemoryCheckpointer>();
    }
    for_agents_ = store_;
    if (!fail_append_.empty()) {
        for_agents_ = std::make_shared<FailingStore>(store_, fail_append_, appends_);
    }
}

void ScenarioStore::reopen() {
    if (kind_ != StoreKind::sqlite) return;
    for_agents_.reset();
    store_.reset();
    open();
}

}  // namespace conformance
