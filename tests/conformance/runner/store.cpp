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
class FailingStore final : public cubepi::Checkpointer,
                           public cubepi::RunStore,
                           public cubepi::MessageIndex,
                           public cubepi::HitlStore,
                           public cubepi::ForkStore,
                           public cubepi::ThreadStore {
public:
    FailingStore(std::shared_ptr<cubepi::Checkpointer> inner, std::set<std::int64_t> failing,
                 std::shared_ptr<std::int64_t> count)
        : inner_(std::move(inner)), failing_(std::move(failing)), count_(std::move(count)) {}

    Task<std::optional<cubepi::CheckpointData>> load(std::string thread_id) override {
        return inner_->load(std::move(thread_id));
    }
    Task<std::int64_t> append(std::string thread_id, cubepi::MessageList messages,
                              cubepi::AppendOptions options) override {
        if (failing_.contains(++*count_)) return fail(std::move(thread_id));
        return inner_->append(std::move(thread_id), std::move(messages), std::move(options));
    }
    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        return inner_->save_extra(std::move(thread_id), std::move(extra));
    }

    Task<cubepi::ClaimResult> claim_run(std::string thread_id, std::string run_id,
                                        cubepi::ClaimOwner owner, cubepi::ClaimKind kind) override {
        return as<RunStore>().claim_run(std::move(thread_id), std::move(run_id), std::move(owner),
                                        kind);
    }
    Task<void> renew_claim(std::string thread_id, std::string run_id,
                           std::string owner_id) override {
        return as<RunStore>().renew_claim(std::move(thread_id), std::move(run_id),
                                          std::move(owner_id));
    }
    Task<void> release_claim(std::string thread_id, std::string run_id,
                             std::string owner_id) override {
        return as<RunStore>().release_claim(std::move(thread_id), std::move(run_id),
                                            std::move(owner_id));
    }
    Task<void> mark_run_complete(std::string thread_id, std::string run_id) override {
        return as<RunStore>().mark_run_complete(std::move(thread_id), std::move(run_id));
    }
    Task<bool> is_run_complete(std::string thread_id, std::string run_id) override {
        return as<RunStore>().is_run_complete(std::move(thread_id), std::move(run_id));
    }

    Task<std::optional<cubepi::Message>> find_message(std::string thread_id,
                                                      std::string message_id) override {
        return as<MessageIndex>().find_message(std::move(thread_id), std::move(message_id));
    }

    Task<void> save_pending_request(std::string thread_id, std::string run_id,
                                    cubepi::HitlRequest request) override {
        return as<HitlStore>().save_pending_request(std::move(thread_id), std::move(run_id),
                                                    std::move(request));
    }
    Task<std::vector<cubepi::PendingRequest>> load_pending_requests(
        std::string thread_id) override {
        return as<HitlStore>().load_pending_requests(std::move(thread_id));
    }
    Task<bool> clear_pending_request(std::string thread_id, std::string run_id,
                                     std::string question_id) override {
        return as<HitlStore>().clear_pending_request(std::move(thread_id), std::move(run_id),
                                                     std::move(question_id));
    }
    Task<void> save_hitl_answer(std::string thread_id, cubepi::HitlAnswer answer) override {
        return as<HitlStore>().save_hitl_answer(std::move(thread_id), std::move(answer));
    }
    Task<std::optional<Json>> load_hitl_answer(std::string thread_id, std::string run_id,
                                               std::string question_id) override {
        return as<HitlStore>().load_hitl_answer(std::move(thread_id), std::move(run_id),
                                                std::move(question_id));
    }
    Task<void> clear_hitl_answers(std::string thread_id, std::string run_id,
                                  std::vector<std::string> question_ids) override {
        return as<HitlStore>().clear_hitl_answers(std::move(thread_id), std::move(run_id),
                                                  std::move(question_ids));
    }

    Task<cubepi::MessageList> snapshot(std::string thread_id, std::string after_run_id) override {
        return as<ForkStore>().snapshot(std::move(thread_id), std::move(after_run_id));
    }
    Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                    std::string after_run_id, std::optional<JsonObject> metadata) override {
        return as<ForkStore>().fork(std::move(source_thread_id), std::move(new_thread_id),
                                    std::move(after_run_id), std::move(metadata));
    }

    Task<std::vector<cubepi::ThreadInfo>> list_threads() override {
        return as<ThreadStore>().list_threads();
    }
    Task<void> delete_thread(std::string thread_id) override {
        return as<ThreadStore>().delete_thread(std::move(thread_id));
    }

private:
    static Task<std::int64_t> fail(std::string thread_id) {
        throw StoreFault(cubepi::ErrorCode::storage, "this append fails, as the scenario wants it",
                         std::move(thread_id));
        co_return 0;
    }
    template <class Interface>
    Interface& as() const {
        return part<Interface>(inner_);
    }

    std::shared_ptr<cubepi::Checkpointer> inner_;
    std::set<std::int64_t> failing_;
    std::shared_ptr<std::int64_t> count_;
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
