#include <string>
#include <utility>

#include <cubepi/testing/stores/store_probe.hpp>

namespace cubepi::testing::detail {

namespace {

bool has_forks(StoreProbe& probe) { return probe.forks() != nullptr && probe.runs() != nullptr; }
bool has_threads(StoreProbe& probe) { return probe.threads() != nullptr; }

Task<> write_run(StoreProbe& probe, std::string run_id, bool complete) {
    co_await probe.runs()->claim_run("t", run_id, ClaimOwner(), ClaimKind::new_run);
    MessageList both = list_of(user_of_run("ask " + run_id, run_id));
    both.push_back(answer_of_run("answer " + run_id, run_id));
    co_await probe.store().append("t", std::move(both), AppendOptions());
    if (complete) co_await probe.runs()->mark_run_complete("t", std::move(run_id));
}

/// Writes a message without a run, two complete runs, and an open one.
Task<> write_thread(StoreProbe& probe) {
    MessageList imported = list_of(user_of_run("imported", {}));
    co_await probe.store().append("t", std::move(imported), AppendOptions());
    co_await write_run(probe, "r1", true);
    co_await write_run(probe, "r2", true);
    co_await write_run(probe, "r3", false);
    JsonObject extra;
    extra["color"] = "green";
    extra["fork"] = "of before";
    co_await probe.store().save_extra("t", std::move(extra));
}

Task<> check_snapshot(StoreProbe& probe) {
    co_await write_thread(probe);
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    const MessageList first = co_await probe.forks()->snapshot("t", "r1");
    probe.expect(first == MessageList(data.messages.begin(), data.messages.begin() + 3),
                 "a snapshot has the messages without run and those of runs completed by then");
    const MessageList second = co_await probe.forks()->snapshot("t", "r2");
    probe.expect(second.size() == 5, "an open run is not part of a snapshot");
    Task<MessageList> open = probe.forks()->snapshot("t", "r3");
    co_await expect_refused(probe, ErrorCode::run_not_completed, std::move(open),
                            "a snapshot after an open run");
    Task<MessageList> unknown = probe.forks()->snapshot("unknown", "r1");
    co_await expect_refused(probe, ErrorCode::thread_not_found, std::move(unknown),
                            "a snapshot of no thread");
}

Task<> check_completion_order(StoreProbe& probe) {
    co_await write_run(probe, "early", false);
    co_await write_run(probe, "late", true);
    co_await probe.runs()->mark_run_complete("t", "early");
    const MessageList messages = co_await probe.forks()->snapshot("t", "late");
    probe.expect(messages.size() == 2 && messages[0].run_id() == "late",
                 "a snapshot cuts by the order of completion, not of messages");
}

Task<> check_fork(StoreProbe& probe) {
    co_await write_thread(probe);
    JsonObject why;
    why["why"] = "another way";
    co_await probe.forks()->fork("t", "new", "r2", why);
    const MessageList wanted = co_await probe.forks()->snapshot("t", "r2");
    const CheckpointData data = co_await load_or_empty(probe.store(), "new");
    probe.expect(data.messages == wanted, "a fork has the messages of the snapshot");
    probe.expect(data.parent_thread_id == "t", "a fork knows where it comes from");
    probe.expect(data.extra.contains("color"), "a fork has the extra of its source");
    probe.expect(data.extra.contains("fork") && data.extra.at("fork") == Json(why),
                 "metadata replaces extra.fork");
    const bool complete = co_await probe.runs()->is_run_complete("new", "r2");
    probe.expect(complete, "the runs of a fork are complete in it");
    const bool open = co_await probe.runs()->is_run_complete("new", "r3");
    probe.expect(!open, "a run after the cut is not in the fork");
    MessageList more = list_of(user_of_run("more", "r4"));
    AppendOptions options = AppendOptions().expected_position(data.position);
    co_await probe.store().append("new", std::move(more), std::move(options));
    const CheckpointData source = co_await load_or_empty(probe.store(), "t");
    probe.expect(source.messages.size() == 7, "the source does not change with its fork");
}

Task<> check_fork_refused(StoreProbe& probe) {
    co_await write_thread(probe);
    MessageList one = list_of(user_of_run("one", {}));
    co_await probe.store().append("taken", std::move(one), AppendOptions());
    Task<> taken = probe.forks()->fork("t", "taken", "r1", std::nullopt);
    co_await expect_refused(probe, ErrorCode::thread_exists, std::move(taken),
                            "a fork into an existing thread");
    Task<> unknown = probe.forks()->fork("unknown", "new", "r1", std::nullopt);
    co_await expect_refused(probe, ErrorCode::thread_not_found, std::move(unknown),
                            "a fork of no thread");
    Task<> open = probe.forks()->fork("t", "new", "r3", std::nullopt);
    co_await expect_refused(probe, ErrorCode::run_not_completed, std::move(open),
                            "a fork after an open run");
    const std::optional<CheckpointData> made = co_await probe.store().load("new");
    probe.expect(!made, "a refused fork makes no thread");
}

Task<> check_list(StoreProbe& probe) {
    MessageList one = list_of(user_of_run("one", {}));
    co_await probe.store().append("a", one, AppendOptions());
    co_await probe.store().append("a", one, AppendOptions());
    JsonObject extra;
    extra["only"] = true;
    co_await probe.store().save_extra("b", std::move(extra));
    const std::vector<ThreadInfo> list = co_await probe.threads()->list_threads();
    probe.expect(list.size() == 2, "all threads are listed");
    for (const ThreadInfo& info : list) {
        const std::int64_t wanted = info.thread_id == "a" ? 2 : 0;
        probe.expect(info.message_count == wanted, "a listing counts messages");
        if (info.thread_id == "a")
            probe.expect(info.updated_at.has_value(), "a listing says when it was written");
    }
}

Task<> check_delete(StoreProbe& probe) {
    MessageList one = list_of(user_of_run("one", {}));
    const std::int64_t position = co_await probe.store().append("a", one, AppendOptions());
    co_await probe.store().append("b", one, AppendOptions());
    co_await probe.threads()->delete_thread("a");
    std::optional<CheckpointData> data = co_await probe.store().load("a");
    probe.expect(!data, "a deleted thread is gone");
    data = co_await probe.store().load("b");
    probe.expect(data.has_value(), "the others stay when a thread is deleted");
    Task<> unknown = probe.threads()->delete_thread("a");
    co_await expect_refused(probe, ErrorCode::thread_not_found, std::move(unknown),
                            "deleting no thread");
    AppendOptions options = AppendOptions().expected_position(position);
    Task<std::int64_t> append = probe.store().append("a", std::move(one), std::move(options));
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(append),
                            "continuing a thread that was deleted meanwhile");
}

}  // namespace

std::vector<StoreCheck> thread_checks() {
    return {
        {"snapshot", check_snapshot, has_forks},
        {"snapshot_by_completion", check_completion_order, has_forks},
        {"fork", check_fork, has_forks},
        {"fork_refused", check_fork_refused, has_forks},
        {"list_threads", check_list, has_threads},
        {"delete_thread", check_delete, has_threads},
    };
}

}  // namespace cubepi::testing::detail
