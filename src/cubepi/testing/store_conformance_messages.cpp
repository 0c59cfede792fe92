#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/stores/store_probe.hpp>

namespace cubepi::testing::detail {

namespace {

bool always(StoreProbe&) { return true; }
bool finds_messages(StoreProbe& probe) { return probe.index() != nullptr; }
bool is_durable(StoreProbe& probe) { return probe.can_reopen(); }

Message full_user() {
    UserMessage message;
    TextContent text;
    text.text =
        "quotes \" and \\, tab\t, newline\n, zero-width \xe2\x80\x8b, clef \xf0\x9d\x84\x9e, del "
        "\x7f";
    message.content.emplace_back(std::move(text));
    ImageContent image;
    image.source = "aGk=";
    image.media_type = "image/png";
    message.content.emplace_back(std::move(image));
    message.id = "message-1";
    message.timestamp = 1700000000.123456;
    message.metadata["sender_display_name"] = "Zo\xc3\xab";
    message.run_id = "run-1";
    message.extra["of_a_newer_writer"] = 1;
    return message;
}

Message full_assistant() {
    AssistantMessage message;
    ThinkingContent thinking;
    thinking.thinking = "hm";
    thinking.extra["signature"] = "c2ln";
    message.content.emplace_back(std::move(thinking));
    ToolCall call;
    call.id = "call-1";
    call.name = "add";
    call.arguments["a"] = 1;
    call.arguments["big"] = std::int64_t{9007199254740993};
    call.arguments["half"] = 0.5;
    call.arguments["list"] = JsonArray(2, Json(nullptr));
    // Members of a server's object (D88).
    call.extra["chat_members"] = JsonObject{{"seal", JsonObject{{"signature", "c2ln"}}}};
    message.content.emplace_back(std::move(call));
    message.id = "message-2";
    message.stop_reason = stop_reason::shared(stop_reason::tool_use);
    message.error_message = "slow down";
    ErrorInfo error;
    error.code = ErrorCode::rate_limited;
    error.type = "RateLimited";
    error.status_code = 429;
    error.retry_after = 1.5;
    message.error = SharedValue<ErrorInfo>(std::move(error));
    Usage usage;
    usage.input_tokens = TokenCount(10);
    usage.output_tokens = TokenCount(0);
    message.usage = usage;
    message.timestamp = 1700000001.0;
    message.provider_id = "openai";
    message.model_id = "m";
    message.response_id = "resp-1";
    message.run_id = "run-1";
    return message;
}

Message full_tool_result() {
    ToolResultMessage message;
    message.tool_call_id = "call-1";
    message.tool_name = "add";
    TextContent text;
    text.text = "2";
    message.content.emplace_back(std::move(text));
    JsonObject details;
    details["hitl"] = "edit";
    message.details = std::move(details);
    message.is_error = true;
    message.run_id = "run-1";
    return message;
}

Task<> check_unknown_thread(StoreProbe& probe) {
    const std::optional<CheckpointData> data = co_await probe.store().load("unknown");
    probe.expect(!data, "a thread that was never written loads as nothing");
}

Task<> check_round_trip(StoreProbe& probe) {
    MessageList first = list_of(full_user());
    MessageList rest = list_of(full_assistant());
    rest.push_back(full_tool_result());
    MessageList all = first;
    all.append(rest);
    const std::int64_t start =
        co_await probe.store().append("t", std::move(first), AppendOptions());
    const std::int64_t end = co_await probe.store().append("t", std::move(rest), AppendOptions());
    probe.expect(end > start, "the position grows with each append");
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.messages == all,
                 "messages load as they were appended, every field of every role");
    probe.expect(data.position == end, "load returns the position that the last append returned");
    probe.expect(!data.parent_thread_id, "a thread that is not a fork has no parent");
}

Task<> check_generated(StoreProbe& probe) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const std::string thread = "generated " + std::to_string(seed);
        MessageList messages = generated_messages(seed, 40);
        const MessageList all(messages.begin(), messages.end());
        (void)co_await probe.store().append(thread, std::move(messages), AppendOptions());
        const CheckpointData data = co_await load_or_empty(probe.store(), thread);
        probe.expect(data.messages.size() == all.size(), "as many messages load as were appended");
        for (std::size_t i = 0; i < data.messages.size() && i < all.size(); ++i) {
            if (data.messages[i] == all[i]) continue;
            probe.fail("expected: whatever a message holds loads as it was; message " +
                       std::to_string(i) + " of seed " + std::to_string(seed) + " is another");
        }
    }
}

Task<> check_order(StoreProbe& probe) {
    MessageList all;
    for (int i = 0; i < 40; ++i) {
        MessageList one = list_of(user_of_run(std::to_string(i), "r"));
        all.append(one);
        co_await probe.store().append("t", std::move(one), AppendOptions());
        MessageList other = list_of(user_of_run("other", "r"));
        co_await probe.store().append("u", std::move(other), AppendOptions());
    }
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.messages == all,
                 "messages load in the order of their appends, those of one thread only");
}

Task<> check_large_message(StoreProbe& probe) {
    MessageList large = list_of(user_of_run(std::string(std::size_t{3} << 20U, 'x'), "r"));
    const MessageList same = large;
    co_await probe.store().append("t", std::move(large), AppendOptions());
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.messages == same, "a message of 3 MB loads as it was appended");
}

Task<> check_stale_append(StoreProbe& probe) {
    MessageList one = list_of(user_of_run("one", "r"));
    MessageList two = list_of(user_of_run("two", "r"));
    MessageList late = list_of(user_of_run("late", "r"));
    AppendOptions at_start = AppendOptions().expected_position(0);
    const std::int64_t position = co_await probe.store().append("t", one, std::move(at_start));
    AppendOptions next = AppendOptions().expected_position(position);
    co_await probe.store().append("t", two, std::move(next));
    JsonObject extra;
    extra["late"] = true;
    AppendOptions stale = AppendOptions().expected_position(position).extra(std::move(extra));
    Task<std::int64_t> append = probe.store().append("t", std::move(late), std::move(stale));
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(append),
                            "an append at an old position");
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.messages.size() == 2, "a refused append stores no message");
    probe.expect(data.extra.empty(), "a refused append stores no extra");
}

Task<> append_at(StoreProbe& probe, std::int64_t position, std::string text) {
    MessageList one = list_of(user_of_run(std::move(text), "r"));
    AppendOptions options = AppendOptions().expected_position(position);
    co_await probe.store().append("t", std::move(one), std::move(options));
}

Task<> check_racing_appends(StoreProbe& probe) {
    std::vector<Task<>> writers;
    for (int i = 0; i < 8; ++i) writers.push_back(append_at(probe, 0, std::to_string(i)));
    const std::vector<Outcome<void>> outcomes = co_await collect_all(std::move(writers));
    int stored = 0;
    for (const Outcome<void>& outcome : outcomes) {
        if (outcome.ok()) {
            ++stored;
        } else {
            probe.expect_error(ErrorCode::stale_append, outcome.failure(),
                               "the slower of two writers");
        }
    }
    probe.expect(stored == 1, "of writers that race from one position exactly one succeeds");
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.messages.size() == 1, "what the others wanted is not stored");
}

Task<> append_to(StoreProbe& probe, std::string thread_id) {
    for (int i = 0; i < 5; ++i) {
        MessageList one = list_of(user_of_run(thread_id, "r"));
        co_await probe.store().append(thread_id, std::move(one), AppendOptions());
    }
}

Task<> check_many_threads(StoreProbe& probe) {
    std::vector<Task<>> writers;
    for (int i = 0; i < 16; ++i) writers.push_back(append_to(probe, "thread-" + std::to_string(i)));
    co_await when_all(std::move(writers));
    for (int i = 0; i < 16; ++i) {
        const std::string name = "thread-" + std::to_string(i);
        const CheckpointData data = co_await load_or_empty(probe.store(), name);
        probe.expect(data.messages.size() == 5,
                     "threads that are written at the same time do not mix");
    }
}

Task<> check_extra(StoreProbe& probe) {
    JsonObject first;
    first["a"] = 1;
    first["b"] = "text";
    co_await probe.store().save_extra("t", std::move(first));
    JsonObject second;
    second["b"] = nullptr;
    second["c"] = JsonArray(1, Json(2.5));
    second["never_there"] = nullptr;
    co_await probe.store().save_extra("t", std::move(second));
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    JsonObject wanted;
    wanted["a"] = 1;
    wanted["c"] = JsonArray(1, Json(2.5));
    probe.expect(data.extra == wanted,
                 "extra merges at the top level, and null removes its key (D19)");
    probe.expect(data.messages.empty(), "a thread with extra alone loads, without messages");
}

Task<> check_extra_with_append(StoreProbe& probe) {
    JsonObject extra;
    extra["a"] = 1;
    AppendOptions options = AppendOptions().extra(std::move(extra));
    MessageList one = list_of(user_of_run("one", "r"));
    co_await probe.store().append("t", std::move(one), std::move(options));
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.extra.contains("a") && data.messages.size() == 1,
                 "extra that comes with an append is stored with it (D49)");
}

Task<> check_value_semantics(StoreProbe& probe) {
    MessageList mine = list_of(user_of_run("one", "r"));
    JsonObject extra;
    extra["list"] = JsonArray(1, Json(1));
    co_await probe.store().append("t", mine, AppendOptions());
    co_await probe.store().save_extra("t", extra);
    mine.push_back(user_of_run("not stored", "r"));
    extra["list"].as_array().push_back(2);
    CheckpointData data = co_await load_or_empty(probe.store(), "t");
    data.messages.push_back(user_of_run("not stored either", "r"));
    data.extra["list"].as_array().push_back(3);
    const CheckpointData again = co_await load_or_empty(probe.store(), "t");
    probe.expect(again.messages.size() == 1,
                 "what a caller does to its list does not change what is stored (D22)");
    probe.expect(again.extra.at("list").as_array().size() == 1,
                 "what a caller does to its extra does not change what is stored (D22)");
}

Task<> check_find_message(StoreProbe& probe) {
    MessageList two = list_of(user_of_run("one", "r", "id-1"));
    two.push_back(user_of_run("two", "r", "id-2"));
    MessageList other = list_of(user_of_run("elsewhere", "r", "id-3"));
    co_await probe.store().append("t", two, AppendOptions());
    co_await probe.store().append("u", std::move(other), AppendOptions());
    const std::optional<Message> found = co_await probe.index()->find_message("t", "id-2");
    probe.expect(found && *found == two[1], "a message is found by its id (D42)");
    const std::optional<Message> elsewhere = co_await probe.index()->find_message("t", "id-3");
    probe.expect(!elsewhere, "a message of another thread is not found");
    const std::optional<Message> nothing = co_await probe.index()->find_message("unknown", "id-1");
    probe.expect(!nothing, "nothing is found in a thread that does not exist");
}

Task<> check_durability(StoreProbe& probe) {
    MessageList all = list_of(full_user());
    all.push_back(full_assistant());
    JsonObject extra;
    extra["a"] = 1;
    AppendOptions options = AppendOptions().extra(std::move(extra));
    const std::int64_t position = co_await probe.store().append("t", all, std::move(options));
    probe.reopen();
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.messages == all && data.extra.contains("a"),
                 "what was stored is there after reopening");
    probe.expect(data.position == position, "the position is the same after reopening");
    MessageList more = list_of(user_of_run("more", "r"));
    AppendOptions next = AppendOptions().expected_position(position);
    const std::int64_t end = co_await probe.store().append("t", std::move(more), std::move(next));
    probe.expect(end > position, "a reopened store can be written on");
}

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

Task<> check_racing_forks(StoreProbe& probe) {
    co_await write_thread(probe);
    std::vector<Task<>> forks;
    for (int i = 0; i < 4; ++i)
        forks.push_back(probe.forks()->fork("t", "new", "r1", JsonObject{{"by", i}}));
    const std::vector<Outcome<void>> outcomes = co_await collect_all(std::move(forks));
    int made = -1;
    for (int i = 0; i < 4; ++i) {
        const Outcome<void>& outcome = outcomes[static_cast<std::size_t>(i)];
        if (!outcome.ok()) {
            probe.expect_error(ErrorCode::thread_exists, outcome.failure(),
                               "the slower of two forks");
            continue;
        }
        probe.expect(made < 0, "of forks that race to one thread exactly one succeeds");
        made = i;
    }
    const CheckpointData data = co_await load_or_empty(probe.store(), "new");
    probe.expect(data.messages.size() == 3, "the fork has its messages once");
    probe.expect(made >= 0 && data.extra.contains("fork") &&
                     data.extra.at("fork") == Json(JsonObject{{"by", made}}),
                 "the fork is that of the caller that succeeded");
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

std::vector<StoreCheck> message_checks() {
    return {
        {"unknown_thread", check_unknown_thread, always},
        {"round_trip", check_round_trip, always},
        {"generated", check_generated, always},
        {"order", check_order, always},
        {"large_message", check_large_message, always},
        {"stale_append", check_stale_append, always},
        {"racing_appends", check_racing_appends, always},
        {"many_threads", check_many_threads, always},
        {"extra", check_extra, always},
        {"extra_with_append", check_extra_with_append, always},
        {"value_semantics", check_value_semantics, always},
        {"find_message", check_find_message, finds_messages},
        {"durability", check_durability, is_durable},
    };
}

std::vector<StoreCheck> thread_checks() {
    return {
        {"snapshot", check_snapshot, has_forks},
        {"snapshot_by_completion", check_completion_order, has_forks},
        {"fork", check_fork, has_forks},
        {"fork_refused", check_fork_refused, has_forks},
        {"racing_forks", check_racing_forks, has_forks},
        {"list_threads", check_list, has_threads},
        {"delete_thread", check_delete, has_threads},
    };
}

}  // namespace cubepi::testing::detail
