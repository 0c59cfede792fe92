#include <bub/tape/tape_checkpointer.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_session.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace bub {
namespace {

using namespace cubepi;

/// The base of a store in a directory, which it keeps alive.
struct OwnDirectory {
    std::shared_ptr<TestDirectory> files;
};

class InDirectory final : public OwnDirectory, public FileTapeStore {
public:
    explicit InDirectory(std::shared_ptr<TestDirectory> shared)
        : OwnDirectory{std::move(shared)}, FileTapeStore(files->options()) {}

    Task<void> visit(std::string tape, TapeQuery query,
                     std::function<bool(const TapeEntry&)> visit) override {
        std::function<bool(const TapeEntry&)> counted =
            [this, visit = std::move(visit)](const TapeEntry& entry) {
                ++visited;
                return visit(entry);
            };
        return FileTapeStore::visit(std::move(tape), std::move(query), std::move(counted));
    }
    std::atomic<std::size_t> visited = 0;  ///< entries, by any thread
};

class Lease {
public:
    TapeCheckpointerOptions options() const {
        TapeCheckpointerOptions made;
        made.clock = clock_;
        return made;
    }
    void advance(std::chrono::seconds amount) const { clock_->advance(amount); }

private:
    std::shared_ptr<cubepi::testing::ManualClock> clock_ =
        std::make_shared<cubepi::testing::ManualClock>();
};

void expect_right(const cubepi::testing::StoreUnderTest& store) {
    for (const auto& failure : cubepi::testing::check_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

/// Returns an answer with calls of these ids.
Message calls(std::vector<std::string> ids, std::string text = {}) {
    AssistantMessage message;
    if (!text.empty()) {
        TextContent block;
        block.text = std::move(text);
        message.content.emplace_back(std::move(block));
    }
    for (std::string& id : ids) {
        ToolCall call;
        call.name = "tool_" + id;
        call.id = std::move(id);
        call.arguments["x"] = "ö";
        message.content.emplace_back(std::move(call));
    }
    message.stop_reason = stop_reason::shared(stop_reason::tool_use);
    return message;
}

Message result(std::string id, std::string text) {
    ToolResultMessage message;
    message.tool_name = "tool_" + id;
    message.tool_call_id = std::move(id);
    TextContent block;
    block.text = std::move(text);
    message.content.emplace_back(std::move(block));
    return message;
}

std::int64_t append_one(TapeCheckpointer& memory, Message message, std::int64_t position) {
    MessageList one;
    one.push_back(std::move(message));
    return run(memory.append("w__s", std::move(one), AppendOptions().expected_position(position)));
}

std::vector<TapeEntry> all_of(TapeStore& store) { return run(store.fetch("w__s", TapeQuery())); }

std::string kinds_of(const std::vector<TapeEntry>& entries) {
    std::string kinds;
    for (const TapeEntry& entry : entries) {
        kinds += entry.kind;
        if (entry.kind == "event" || entry.kind == "anchor")
            kinds += ":" + std::string(entry_name(entry));
        kinds += ' ';
    }
    return kinds;
}

/// A store that triggers an action during its first read.
class Meanwhile final : public Checkpointer {
public:
    Meanwhile(std::shared_ptr<Checkpointer> inner, std::function<void()> work)
        : inner_(std::move(inner)), work_(std::move(work)) {}
    Task<std::optional<CheckpointData>> load(std::string thread) override {
        std::optional<CheckpointData> data = co_await inner_->load(std::move(thread));
        if (const auto work = std::exchange(work_, nullptr)) work();
        co_return data;
    }
    Task<std::int64_t> append(std::string thread, MessageList messages,
                              AppendOptions options) override {
        return inner_->append(std::move(thread), std::move(messages), std::move(options));
    }
    Task<void> save_extra(std::string thread, JsonObject extra) override {
        return inner_->save_extra(std::move(thread), std::move(extra));
    }

private:
    std::shared_ptr<Checkpointer> inner_;
    std::function<void()> work_;
};

}  // namespace

TEST(TapeCheckpointer, B21_MemoryStore_HoldsWhatAgentsNeed) {
    const Lease lease;
    cubepi::testing::StoreUnderTest store;
    store.make = [&] {
        return std::make_shared<TapeCheckpointer>(std::make_shared<MemoryTapeStore>(),
                                                  lease.options());
    };
    store.advance = [&](std::chrono::seconds amount) { lease.advance(amount); };
    expect_right(store);
}

TEST(TapeCheckpointer, B21_FileStore_HoldsWhatAgentsNeed) {
    const Lease lease;
    std::shared_ptr<TestDirectory> directory;
    cubepi::testing::StoreUnderTest store;
    store.make = [&] {
        directory = std::make_shared<TestDirectory>();
        return std::make_shared<TapeCheckpointer>(std::make_shared<InDirectory>(directory),
                                                  lease.options());
    };
    store.reopen = [&](std::shared_ptr<Checkpointer> old) {
        old.reset();
        return std::make_shared<TapeCheckpointer>(std::make_shared<InDirectory>(directory),
                                                  lease.options());
    };
    store.advance = [&](std::chrono::seconds amount) { lease.advance(amount); };
    expect_right(store);
}

TEST(TapeCheckpointer, B21_ForkOfEmptyTape_HoldsWhatAgentsNeed) {
    const Lease lease;
    cubepi::testing::StoreUnderTest store;
    store.make = [&] {
        auto fork = std::make_shared<TurnTransaction>(std::make_shared<MemoryTapeStore>(), "t");
        return std::make_shared<TapeCheckpointer>(std::move(fork), lease.options());
    };
    store.advance = [&](std::chrono::seconds amount) { lease.advance(amount); };
    expect_right(store);
}

TEST(TapeCheckpointer, B21_Payloads_AreReadableByBub) {
    const auto store = std::make_shared<MemoryTapeStore>();
    TapeCheckpointer memory(store);
    std::int64_t at = append_one(memory, user_message("grüß dich"), 0);
    at = append_one(memory, calls({"a"}, "I look."), at);
    at = append_one(memory, result("a", "found"), at);
    const std::vector<TapeEntry> entries = all_of(*store);
    ASSERT_EQ(kinds_of(entries), "message tool_call tool_result ");
    EXPECT_EQ(entries[0].payload.at("content"), Json("grüß dich"));
    EXPECT_EQ(entries[1].payload.at("content"), Json("I look."));
    const JsonObject& call = entries[1].payload.at("calls").as_array().at(0).as_object();
    EXPECT_EQ(call.at("id"), Json("a"));
    EXPECT_EQ(call.at("function").as_object().at("arguments"), Json("{\"x\": \"ö\"}"));
    EXPECT_EQ(entries[2].payload.at("results").as_array().at(0), Json("found"));
}

TEST(TapeCheckpointer, B21_SingleResults_BecomeOneEntryInCallOrder) {
    const auto store = std::make_shared<MemoryTapeStore>();
    TapeCheckpointer memory(store);
    std::int64_t at = append_one(memory, user_message("go"), 0);
    at = append_one(memory, calls({"a", "b", "c"}), at);
    at = append_one(memory, result("b", "two"), at);
    at = append_one(memory, result("c", "three"), at);
    {
        // Another process continues where this one stopped.
        TapeCheckpointer other(store);
        const auto data = run(other.load("w__s"));
        ASSERT_TRUE(data);
        EXPECT_EQ(data->messages.size(), 4u);
        EXPECT_EQ(data->position, at);
        at = append_one(other, result("a", "one"), at);
    }
    const std::vector<TapeEntry> entries = all_of(*store);
    ASSERT_EQ(kinds_of(entries),
              "message tool_call event:cubepi.tool_result event:cubepi.tool_result tool_result ");
    EXPECT_EQ(entries[4].payload.at("results"), Json(JsonArray{"one", "two", "three"}));
    const auto data = run(memory.load("w__s"));
    ASSERT_EQ(data->messages.size(), 5u);
    EXPECT_TRUE(is_legal_transcript(data->messages));
    EXPECT_EQ(data->messages[2].tool_result()->tool_call_id, "b");
    EXPECT_EQ(data->position, at);
    const JsonArray chat = context_messages(entries);
    ASSERT_EQ(chat.size(), 5u);
    EXPECT_EQ(chat[2].as_object().at("tool_call_id"), Json("a"));
    EXPECT_EQ(chat[2].as_object().at("content"), Json("one"));
}

TEST(TapeCheckpointer, B21_MergedTurn_HasOneEntryOfResults) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    run(tape.bootstrap());
    const auto fork = tape.fork(turn("turn-1"));
    TapeCheckpointer memory(fork);
    std::int64_t at = append_one(memory, user_message("go"), 0);
    at = append_one(memory, calls({"a", "b"}), at);
    at = append_one(memory, result("b", "two"), at);
    at = append_one(memory, result("a", "one"), at);
    run(fork->merge());
    const std::vector<TapeEntry> entries = all_of(*store);
    EXPECT_EQ(kinds_of(entries),
              "anchor:session/start event:handoff message tool_call tool_result event:turn ");
    EXPECT_EQ(run(store->position("w__s")).messages, at);
    TapeCheckpointer after(store);
    EXPECT_EQ(append_one(after, user_message("more"), at), at + 1);
}

TEST(TapeCheckpointer, B10_Context_StartsWithTheAnchorAsMessage) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    TapeCheckpointer memory(store);
    const std::int64_t at = append_one(memory, user_message("old"), 0);
    JsonObject state;
    state["summary"] = "we chose Postgres";
    run(tape.handoff("phase/2", std::move(state)));
    append_one(memory, user_message("continue"), at);
    const auto data = run(memory.load("w__s"));
    ASSERT_EQ(data->messages.size(), 2u);
    EXPECT_EQ(data->messages[0].role(), Role::user);
    EXPECT_EQ(data->messages[0].text(),
              "[Anchor created: phase/2]: {\"summary\": \"we chose Postgres\"}\n" +
                  std::string(hand_off_label));
    EXPECT_TRUE(is_synthetic_message(data->messages[0]));
    EXPECT_EQ(data->messages[1].text(), "continue");
}

TEST(TapeCheckpointer, D1_HandOffAmongCalls_FollowsTheirResults) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    TapeCheckpointer memory(store);
    std::int64_t at = append_one(memory, user_message("go"), 0);
    at = append_one(memory, calls({"a"}), at);
    run(tape.handoff("phase"));
    append_one(memory, result("a", "done"), at);
    const MessageList messages = agent_messages(all_of(*store));
    ASSERT_EQ(messages.size(), 4u);
    EXPECT_TRUE(is_legal_transcript(messages));
    EXPECT_EQ(messages[3].text(), "[Anchor created: phase]: null\n" + std::string(hand_off_label));
}

TEST(TapeCheckpointer, B10_HandOffAmongCalls_IsMergedBehindResults) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    const auto fork = tape.fork();
    TapeCheckpointer memory(fork);
    std::int64_t at = append_one(memory, user_message("go"), 0);
    at = append_one(memory, calls({"a", "b"}), at);
    at = append_one(memory, result("b", "noted"), at);
    run(tape.in(fork).handoff("phase"));
    append_one(memory, result("a", "done"), at);
    run(fork->merge());
    EXPECT_EQ(kinds_of(all_of(*store)),
              "message tool_call tool_result anchor:phase event:handoff ");
    // No context, of this library or of Bub, begins with results without their calls.
    EXPECT_EQ(run(tape.context()).size(), 1u);
}

TEST(TapeCheckpointer, B10_HandOffWithOpenCall_WaitsForResults) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    std::int64_t at = 0;
    const auto in_turn = [&](const auto& work) {
        const auto fork = tape.fork();
        TapeCheckpointer memory(fork);
        work(memory, tape.in(fork));
        run(fork->merge(TurnStatus::suspended));
    };
    in_turn([&](TapeCheckpointer& memory, const Tape& in_fork) {
        at = append_one(memory, user_message("go"), at);
        at = append_one(memory, calls({"a", "b", "c"}), at);
        run(in_fork.handoff("first"));
        at = append_one(memory, result("b", "noted"), at);
    });
    EXPECT_EQ(open_tool_calls(agent_messages(all_of(*store))).size(), 2u);
    in_turn([&](TapeCheckpointer& memory, const Tape& in_fork) {
        run(in_fork.handoff("second"));
        at = append_one(memory, result("a", "noted"), at);
    });
    EXPECT_EQ(open_tool_calls(agent_messages(all_of(*store))).size(), 1u);
    in_turn([&](TapeCheckpointer& memory, const Tape&) {
        at = append_one(memory, result("c", "done"), at);
    });
    const std::string kinds = kinds_of(all_of(*store));
    EXPECT_NE(kinds.find("tool_result anchor:first event:handoff anchor:second event:handoff"),
              std::string::npos)
        << kinds;
    EXPECT_EQ(run(tape.context()).size(), 1u);
}

TEST(TapeCheckpointer, B20_MessageAfterOpenCall_FollowsItsResult) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    {
        TapeCheckpointer memory(store);
        std::int64_t at = append_one(memory, user_message("go"), 0);
        (void)append_one(memory, calls({"a", "b"}), at);
        cubepi::HitlRequest request;
        request.question_id = "a";
        request.payload = cubepi::ConfirmRequest{"Really?"};
        run(memory.save_pending_request("w__s", "r", std::move(request)));
    }
    TapeCheckpointer memory(store);
    cubepi::AppendOptions none;
    (void)run(memory.append("w__s", {user_message("ping")}, std::move(none)));
    run(tape.append(message_entry("user", "I ran ls", after_open_calls())));
    EXPECT_EQ(open_tool_calls(agent_messages(all_of(*store))).size(), 2u);
    for (const char* id : {"a", "b"}) {
        TapeCheckpointer turn(store);
        const std::int64_t at = run(turn.load("w__s"))->position;
        (void)append_one(turn, result(id, "done"), at);
    }
    const MessageList messages = agent_messages(all_of(*store));
    ASSERT_EQ(messages.size(), 6u);
    EXPECT_TRUE(is_legal_transcript(messages));
    EXPECT_EQ(messages[4].text(), "ping");
    EXPECT_EQ(messages[5].text(), "I ran ls");
    EXPECT_EQ(kinds_of(all_of(*store)),
              "message tool_call message message event:cubepi.tool_result tool_result ");
}

TEST(TapeCheckpointer, B21_TapesOfBub_BecomeMessages) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    run(tape.bootstrap());
    run(tape.append(message_entry("user", "hi")));
    JsonObject function;
    function["name"] = "ls";
    function["arguments"] = "{\"path\": \".\"}";
    JsonObject call;
    call["id"] = "c1";
    call["function"] = std::move(function);
    JsonObject payload;
    payload["calls"] = JsonArray(1, Json(call));
    run(tape.append(tape_entry("tool_call", std::move(payload))));
    JsonObject results;
    results["results"] = JsonArray(1, Json(JsonObject()));
    run(tape.append(tape_entry("tool_result", std::move(results))));
    run(tape.append(message_entry("assistant", "done")));
    TapeCheckpointer memory(store);
    const auto data = run(memory.load("w__s"));
    ASSERT_EQ(data->messages.size(), 5u);
    EXPECT_TRUE(is_legal_transcript(data->messages));
    EXPECT_EQ(data->messages[2].assistant()->tool_calls().at(0)->arguments.at("path"), Json("."));
    EXPECT_EQ(data->messages[3].text(), "{}");
    EXPECT_EQ(data->position, 4);
}

TEST(TapeCheckpointer, B10_Images_AreStoredOnceByTheirHash) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    TapeCheckpointer memory(store);
    UserMessage message;
    ImageContent image;
    image.media_type = "image/png";
    image.source = std::string(10'000, 'A');
    message.content.emplace_back(image);
    std::int64_t at = append_one(memory, message, 0);
    at = append_one(memory, message, at);
    EXPECT_EQ(directory.read("w__s.jsonl").find("AAAA"), std::string::npos);
    EXPECT_EQ(directory.count("media"), 1u);
    TapeCheckpointer again(std::make_shared<FileTapeStore>(directory.options()));
    const auto data = run(again.load("w__s"));
    ASSERT_EQ(data->messages.size(), 2u);
    EXPECT_EQ(data->messages[1], Message(message));
}

TEST(TapeCheckpointer, D20_ForeignMessages_MakeAppendStaleUnlikeEvents) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    TapeCheckpointer memory(store);
    const std::int64_t at = append_one(memory, user_message("one"), 0);
    run(tape.append(event_entry("loop.step", JsonObject())));
    const std::int64_t next = append_one(memory, user_message("two"), at);
    run(tape.append(message_entry("user", "from elsewhere")));
    EXPECT_THROW(append_one(memory, user_message("three"), next), StaleAppendError);
}

TEST(TapeCheckpointer, B21_Tape_IsTheMemoryOfAnAgent) {
    const TestDirectory directory;
    const auto prompt = [&](const std::string& text, std::vector<FauxStep> steps) {
        FauxProvider faux;
        faux.set_responses(std::move(steps));
        AgentOptions options;
        options.model = faux.model("offline");
        options.checkpointer = std::make_shared<TapeCheckpointer>(
            std::make_shared<FileTapeStore>(directory.options()));
        options.thread_id = "w__s";
        Agent agent(std::move(options));
        const RunResult result = run(agent.prompt(text));
        EXPECT_TRUE(result) << result.text();
        return agent.state().messages;
    };
    std::vector<FauxStep> first;
    first.emplace_back("hello");
    (void)prompt("hi", std::move(first));
    std::vector<FauxStep> second;
    second.emplace_back("again");
    const MessageList messages = prompt("once more", std::move(second));
    ASSERT_EQ(messages.size(), 4u);
    EXPECT_EQ(messages[1].text(), "hello");
    TapeCheckpointer memory(std::make_shared<FileTapeStore>(directory.options()));
    EXPECT_EQ(run(memory.load("w__s"))->messages, messages);
}

TEST(TapeCheckpointer, B21_Fork_BeginsWithTheLastAnchorThen) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    TapeCheckpointer memory(store);
    const auto play = [&](const std::string& run_id) {
        (void)run(memory.claim_run("w__s", run_id, ClaimOwner(), ClaimKind::new_run));
        MessageList one;
        one.push_back(user_message("in " + run_id).with_run_id(run_id));
        (void)run(memory.append("w__s", std::move(one), AppendOptions()));
        run(memory.mark_run_complete("w__s", run_id));
    };
    play("r1");
    JsonObject choice;
    choice["model"] = "other";
    run(tape.append(event_entry("model_switch", std::move(choice))));
    run(tape.handoff("phase/2"));
    play("r2");
    run(tape.handoff("phase/3"));
    play("r3");
    run(memory.fork("w__s", "w__new", "r2", std::nullopt));
    TapeCheckpointer other(store);
    const auto data = run(other.load("w__new"));
    ASSERT_TRUE(data);
    ASSERT_EQ(data->messages.size(), 2u);
    EXPECT_EQ(data->messages[0].text(),
              "[Anchor created: phase/2]: null\n" + std::string(hand_off_label));
    EXPECT_EQ(data->messages[1].text(), "in r2");
    EXPECT_EQ(data->parent_thread_id, "w__s");
    EXPECT_EQ(data->messages, run(memory.snapshot("w__s", "r2")));
    EXPECT_TRUE(run(other.is_run_complete("w__new", "r1"))) << "also runs from before the anchor";
    EXPECT_TRUE(run(store->find_event("w__new", "model_switch")));
    EXPECT_EQ(run(Tape(store, "w__new").anchors()).size(), 1u);
}

TEST(TapeCheckpointer, B21_Checkpointer_HasEveryAbilityOfAStore) {
    TapeCheckpointer memory(std::make_shared<MemoryTapeStore>());
    Checkpointer& store = memory;
    EXPECT_TRUE(dynamic_cast<RunStore*>(&store));
    EXPECT_TRUE(dynamic_cast<MessageIndex*>(&store));
    EXPECT_TRUE(dynamic_cast<HitlStore*>(&store));
    EXPECT_TRUE(dynamic_cast<ForkStore*>(&store));
    EXPECT_TRUE(dynamic_cast<ThreadStore*>(&store));
}

TEST(TapeCheckpointer, LongContext_ReadsTheNewestPart) {
    for (const bool inside_a_turn : {false, true}) {
        const auto store = std::make_shared<InDirectory>(std::make_shared<TestDirectory>());
        const Tape tape(store, "w__s");
        run(tape.bootstrap());
        TapeCheckpointer writer(store);
        for (int i = 0; i < 500; ++i) {
            MessageList messages{user_message(std::to_string(i) + std::string(1000, 'x'))};
            run(writer.append("w__s", std::move(messages), AppendOptions()));
        }
        TapeCheckpointerOptions options;
        options.context.max_bytes = 100'000;
        const auto fork = tape.fork(turn("t1"));
        std::shared_ptr<TapeStore> from = store;
        if (inside_a_turn) from = fork;
        TapeCheckpointer memory(from, options);
        store->visited = 0;
        const auto data = run(memory.load("w__s"));
        ASSERT_TRUE(data);
        EXPECT_LT(store->visited.load(), 100U);
        EXPECT_LT(data->messages.size(), 100U);
        EXPECT_TRUE(data->messages[0].text().starts_with("[Anchor created: context/cut]: "))
            << data->messages[0].text();
        EXPECT_TRUE(data->messages.back().text().starts_with("499x"));
        EXPECT_EQ(data->position, 500);
        AppendOptions how = AppendOptions().expected_position(500);
        EXPECT_EQ(run(memory.append("w__s", {user_message("more")}, std::move(how))), 501);
    }
}

TEST(ImportThread, Import_CopiesAThreadOnce) {
    const auto source = std::make_shared<MemoryCheckpointer>();
    MessageList messages;
    messages.push_back(user_message("hi", "m1"));
    messages.push_back(calls({"a", "b"}));
    messages.push_back(result("a", "1"));
    messages.push_back(result("b", "2"));
    run(source->append("chat", messages, AppendOptions()));
    const auto store = std::make_shared<MemoryTapeStore>();
    EXPECT_EQ(run(import_thread(source, "chat", store, "w__s", "sessions.db")), 4u);
    EXPECT_EQ(run(import_thread(source, "chat", store, "w__s", "sessions.db")), 0u);
    EXPECT_EQ(run(import_thread(source, "unknown", store, "w__t", "sessions.db")), 0u);
    TapeCheckpointer memory(store);
    const auto data = run(memory.load("w__s"));
    ASSERT_EQ(data->messages.size(), 5u) << "the anchor comes first";
    for (std::size_t i = 0; i < messages.size(); ++i) EXPECT_EQ(data->messages[i + 1], messages[i]);
    EXPECT_EQ(run(memory.find_message("w__s", "m1")), messages[0]);
}

std::size_t bytes_of(TapeStore& store, const std::string& tape) {
    std::size_t bytes = 0;
    for (const TapeEntry& entry : run(store.fetch(tape, TapeQuery())))
        bytes += tape_line(entry).size();
    return bytes;
}

TEST(TapeExtra, CounterChanges_OtherKeysAreNotWritten) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    TapeCheckpointer memory(store);
    const std::string large(50'000, 'x');
    run(memory.save_extra("t", JsonObject{{"large", large}, {"gone", 1}}));
    const std::size_t before = bytes_of(*store, "t");
    for (int i = 1; i <= 100; ++i) {
        MessageList messages;
        messages.push_back(user_message("hi", "m" + std::to_string(i)));
        JsonObject change{{"counter", i}};
        if (i == 50) change["gone"] = nullptr;
        run(memory.append("t", messages, AppendOptions().extra(change)));
    }
    EXPECT_LT((bytes_of(*store, "t") - before) / 100, 1'000u) << "bytes a step";
    TapeCheckpointer other(std::make_shared<FileTapeStore>(directory.options()));
    EXPECT_EQ(run(other.load("t"))->extra, (JsonObject{{"large", large}, {"counter", 100}}));
    EXPECT_EQ(run(stored_extra(store, "t")).at("counter"), Json(100));
}

TEST(TapeExtra, LargeKeyChanges_CompleteRecordFollows) {
    const auto store = std::make_shared<MemoryTapeStore>();
    TapeCheckpointer memory(store);
    const std::string large(50'000, 'x');
    run(memory.save_extra("t", JsonObject{{"large", large}}));
    run(memory.save_extra("t", JsonObject{{"other", std::string(20'000, 'y')}}));
    const std::size_t before = bytes_of(*store, "t");
    for (int i = 1; i <= 200; ++i) run(memory.save_extra("t", JsonObject{{"counter", i}}));
    EXPECT_LT(bytes_of(*store, "t") - before, 250'000u);
    run(memory.save_extra("t", JsonObject{{"other", nullptr}}));
    EXPECT_EQ(run(memory.load("t"))->extra, (JsonObject{{"large", large}, {"counter", 200}}));
}

TEST(TapeExtra, RecordOfOldProgram_SupersedesChanges) {
    const auto store = std::make_shared<MemoryTapeStore>();
    TapeCheckpointer memory(store);
    run(memory.save_extra("t", JsonObject{{"large", std::string(50'000, 'x')}}));
    run(memory.save_extra("t", JsonObject{{"counter", 1}}));
    std::vector<TapeEntry> complete;
    complete.push_back(event_entry("cubepi.extra", JsonObject{{"counter", 2}}));
    run(store->append("t", std::move(complete), TapeAppend()));
    EXPECT_EQ(run(memory.load("t"))->extra, (JsonObject{{"counter", 2}}));
    run(memory.save_extra("t", JsonObject{{"a", 1}}));
    EXPECT_EQ(run(memory.load("t"))->extra, (JsonObject{{"counter", 2}, {"a", 1}}));
}

TEST(ImportThread, D20_TwoCopyingProcesses_CopyOnce) {
    const auto source = std::make_shared<MemoryCheckpointer>();
    MessageList messages;
    messages.push_back(user_message("hi", "m1"));
    run(source->append("chat", messages, AppendOptions()));
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    // The copy of the other process is made between this one's check and its write.
    const auto others = std::make_shared<MemoryTapeStore>();
    EXPECT_EQ(run(import_thread(source, "chat", others, "w__s", "sessions.db")), 1u);
    std::string lines;
    for (const TapeEntry& entry : run(others->fetch("w__s", TapeQuery())))
        lines += tape_line(entry);
    const auto slow =
        std::make_shared<Meanwhile>(source, [&] { directory.write("w__s.jsonl", lines); });
    EXPECT_EQ(run(import_thread(slow, "chat", store, "w__s", "sessions.db")), 0u);
    TapeCheckpointer memory(store);
    EXPECT_EQ(run(memory.load("w__s"))->messages.size(), 2u) << "the anchor, and one copy";
}

TEST(ImportThread, Import_CopiesAllOrNothing) {
    const auto source = std::make_shared<MemoryCheckpointer>();
    MessageList messages;
    messages.push_back(user_message("hi", "m1"));
    messages.push_back(user_message("again", "m2"));
    run(source->append("chat", messages, AppendOptions()));
    run(source->save_extra("chat", JsonObject{{"todo", "x"}}));
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    EXPECT_EQ(run(import_thread(source, "chat", store, "w__s", "sessions.db")), 2u);
    TapeCheckpointer memory(store);
    EXPECT_EQ(run(memory.load("w__s"))->extra.at("todo"), Json("x"));
    const std::vector<TapeEntry> entries = run(store->fetch("w__s", TapeQuery()));
    ASSERT_FALSE(entries.empty());
    EXPECT_EQ(entry_name(entries.back()), "session.imported");
    EXPECT_EQ(entries.front().kind, "anchor");
    for (std::size_t i = 0; i < entries.size(); ++i)
        EXPECT_EQ(entries[i].id, static_cast<std::int64_t>(i + 1));
}

/// Stores notes and answers of a run, and reads them.
class TapeNotes : public ::testing::Test {
protected:
    void save(const std::string& run_id, const std::string& id) {
        HitlAnswer answer;
        answer.run_id = run_id;
        answer.question_id = id;
        answer.answer = "x";
        run(memory.save_hitl_answer("t", std::move(answer)));
    }
    bool has(const std::string& run_id, const std::string& id) {
        return run(memory.load_hitl_answer("t", run_id, id)).has_value();
    }

    std::shared_ptr<MemoryTapeStore> store = std::make_shared<MemoryTapeStore>();
    TapeCheckpointer memory{store};
};

TEST_F(TapeNotes, D176_NotesOfEarlierAnswer_AreRemoved) {
    save("r", "m1.0.mcp");
    save("r", "m1.1.mcp");
    save("r", "q");
    save("r", "r.subagents");
    save("other", "m1.0.mcp");
    EXPECT_TRUE(has("r", "m1.0.mcp")) << "another call of the same answer";
    save("r", "m2.0.mcp");
    EXPECT_FALSE(has("r", "m1.0.mcp"));
    EXPECT_FALSE(has("r", "m1.1.mcp"));
    EXPECT_TRUE(has("r", "m2.0.mcp"));
    EXPECT_TRUE(has("r", "q"));
    EXPECT_TRUE(has("r", "r.subagents"));
    EXPECT_TRUE(has("other", "m1.0.mcp"));
    // Ids of endpoints.
    for (const char* id : {".mcp", "mcp", "x.mcp", ""}) save("r", id);
    EXPECT_TRUE(has("r", "m2.0.mcp"));
}

TEST_F(TapeNotes, NotesOfKilledRun_SuspendNothing) {
    save("r", "m1.0.mcp");
    save("r", "r.subagents");
    EXPECT_FALSE(has_suspended_run(run(store->read_state("t"))));
    save("r", "q");
    EXPECT_TRUE(has_suspended_run(run(store->read_state("t"))));
}

}  // namespace bub
