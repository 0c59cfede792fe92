#include <cubepi/middleware/compaction_test_support.hpp>

#include <algorithm>
#include <cctype>
#include <set>

#include <cubepi/middleware/goal.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/provider/faux.hpp>

// A long session with planted facts and a summarizer that loses half of what it reads: nothing is lost, whenever the
// process ends.

namespace cubepi {
namespace {

using namespace compaction_test;

std::string fact(std::size_t number) { return "fact-" + std::to_string(number) + "-end"; }

/// A store whose process ends at its n-th write: before it, or after it was stored. From then on nothing is stored.
class DyingStore final : public Checkpointer {
public:
    DyingStore(std::shared_ptr<Checkpointer> inner, int dies_at, bool after)
        : inner_(std::move(inner)), dies_at_(dies_at), after_(after) {}
    bool dead() const noexcept { return dead_; }
    Task<std::optional<CheckpointData>> load(std::string thread_id) override {
        return inner_->load(std::move(thread_id));
    }
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override {
        const bool stores = begin();
        std::int64_t position = 0;
        if (stores)
            position = co_await inner_->append(std::move(thread_id), std::move(messages),
                                               std::move(options));
        if (dead_) throw CheckpointerError(ErrorCode::io, "killed");
        co_return position;
    }
    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        const bool stores = begin();
        if (stores) co_await inner_->save_extra(std::move(thread_id), std::move(extra));
        if (dead_) throw CheckpointerError(ErrorCode::io, "killed");
    }

private:
    /// Returns true if the write reaches the store.
    bool begin() {
        if (dead_) return false;
        dead_ = ++writes_ == dies_at_;
        return !dead_ || after_;
    }
    std::shared_ptr<Checkpointer> inner_;
    int dies_at_;
    bool after_;
    int writes_ = 0;
    bool dead_ = false;
};

/// The main model calls a tool at every third prompt; the helper keeps every other fact of what it reads.
struct Session {
    Session() {
        main = Server([this](const ModelRequest& request) {
            if (!is_legal_transcript(request.messages)) ADD_FAILURE() << "illegal request";
            if (request.messages.back().tool_result() || ++prompts % 3 != 0)
                return says(words("answer", 200));
            return calls("read", {}, "c" + std::to_string(prompts));
        });
        helper = Server([](const ModelRequest& request) {
            const std::string text = text_of(request);
            std::string summary = "Facts:";
            bool keep = false;
            for (std::size_t at = text.find("fact-"); at != std::string::npos;
                 at = text.find("fact-", at + 1)) {
                keep = !keep;
                if (keep) summary += " " + text.substr(at, text.find("-end", at) + 4 - at);
            }
            return says(summary.substr(0, 1'500));
        });
    }

    std::unique_ptr<Agent> open(std::shared_ptr<Checkpointer> where,
                                std::vector<Middleware> more = {}) {
        CompactionOptions options;
        options.summary_model = helper.model("helper");
        options.max_tokens_before_compact = limit;
        options.keep_tail_tokens = 400;
        AgentOptions how;
        how.model = main.model();
        how.middleware = std::move(more);
        how.middleware.emplace_back(CompactionMiddleware(std::move(options)));
        how.tools = {tool("read", "Reads.", Json({{"type", "object"}}),
                          [this](JsonObject) { return words("file", 600) + fact(facts++); })};
        how.checkpointer = std::move(where);
        how.thread_id = "t";
        return std::make_unique<Agent>(std::move(how));
    }

    std::int64_t limit = 2'500;
    std::size_t prompts = 0;
    std::size_t facts = 0;
    Server main{[](const ModelRequest&) { return says(""); }};
    Server helper{[](const ModelRequest&) { return says(""); }};
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
};

std::string stored_text(Checkpointer& store) {
    const auto data = run(store.load("t"));
    std::string text;
    for (const Message& message : data->messages) text += message.text() + "\n";
    return text;
}

TEST(CompactionSession, D110_LossySummaries_LoseNoFact) {
    Session session;
    auto agent = session.open(session.store);
    agent->set_extra(
        "todos", JsonArray{JsonObject{{"content", "the open to-do"}, {"status", "in_progress"}}});
    for (int i = 0; i < 150; ++i) {
        EXPECT_TRUE(run(agent->prompt(words("note", 150) + fact(session.facts++))));
        if (i % 20 == 19) agent = session.open(session.store);  // another process
        const ModelRequest& last = session.main.seen.back();
        EXPECT_NE(text_of(last).find(fact(session.facts - 1)), std::string::npos);
        const bool is_compacted = is_synthetic_message(last.messages[0]);
        EXPECT_TRUE(!is_compacted ||
                    last.messages[0].text().find("the open to-do") != std::string::npos);
    }
    EXPECT_GE(session.helper.seen.size(), 10u);
    // The model reads back what it does not see.
    const std::string stored = stored_text(*session.store);
    session.main = Server([&session](const ModelRequest& request) {
        if (request.messages.back().tool_result()) return says("done");
        AssistantMessage answer;
        for (std::size_t i = 0; i < session.facts; ++i) {
            ToolCall call;
            call.id = "r" + std::to_string(i);
            call.name = "recall";
            call.arguments["find"] = fact(i);
            answer.content.emplace_back(std::move(call));
        }
        answer.stop_reason = stop_reason::shared(stop_reason::tool_use);
        return answer;
    });
    session.limit = 1'000'000;
    agent = session.open(session.store);
    EXPECT_TRUE(run(agent->prompt("recall all of them")));
    std::set<std::string> found;
    for (const Message& message : agent->state().messages) {
        if (!message.tool_result() || message.tool_result()->tool_name != "recall") continue;
        if (message.text().starts_with("Message "))
            found.insert(message.tool_result()->tool_call_id.str());
    }
    EXPECT_EQ(found.size(), session.facts);
    for (std::size_t i = 0; i < session.facts; ++i)
        EXPECT_NE(stored.find(fact(i)), std::string::npos) << "the store is whole";
}

TEST(CompactionSession, D110_RequestBytes_RepeatBetweenCompactions) {
    Session session;
    auto agent = session.open(session.store);
    for (int i = 0; i < 60; ++i)
        EXPECT_TRUE(run(agent->prompt(words("note", 150) + fact(session.facts++))));
    PrefixGuard guard;
    std::size_t breaks = 0;
    for (const ModelRequest& request : session.main.seen) breaks += guard.check(request) ? 1 : 0;
    EXPECT_LE(breaks, session.helper.seen.size() * 2) << "shortened results and summaries";
    EXPECT_GE(session.main.seen.size(), 6 * breaks);
}

/// The bytes that a server can take from its cache: those that a request begins with as the one before.
struct PrefixBytes {
    double share = 0;
    std::size_t breaks = 0;
    std::size_t compactions = 0;
};

std::string bytes_text(const ModelRequest& request) {
    std::string text = request.system_prompt.str();
    for (const Message& message : request.messages)
        text += "\n" + boost::json::serialize(to_json(message).at("content")) + message.id();
    return text;
}

/// Measures a session of 100 prompts, of which every tenth writes to-dos or sets a goal if there is such middleware.
PrefixBytes measure(std::int64_t limit, bool with_todos, bool with_goal) {
    Session session;
    session.limit = limit;
    Server judge(
        [](const ModelRequest&) { return says(R"({"achieved": true, "reason": "it is done"})"); });
    session.main = Server([&](const ModelRequest& request) {
        if (!with_todos || request.messages.back().tool_result() || ++session.prompts % 10 != 0)
            return says(words("answer", 200));
        JsonObject todo{{"content", "step " + std::to_string(session.prompts)},
                        {"status", "in_progress"}};
        return calls("write_todos", JsonObject{{"todos", JsonArray{todo}}},
                     "t" + std::to_string(session.prompts));
    });
    std::vector<Middleware> more;
    if (with_todos) more.emplace_back(TodoListMiddleware({.require_finished = false}));
    if (with_goal) more.emplace_back(GoalMiddleware(GoalOptions{.evaluator = judge.model()}));
    auto agent = session.open(session.store, std::move(more));
    for (int i = 0; i < 100; ++i) {
        const std::string prefix = with_goal && i % 10 == 9 ? "/goal " : "";
        EXPECT_TRUE(run(agent->prompt(prefix + words("note", 150) + fact(session.facts++))));
    }
    PrefixBytes measured;
    measured.compactions = session.helper.seen.size();
    PrefixGuard guard;
    std::string before;
    std::size_t all = 0;
    std::size_t same = 0;
    for (const ModelRequest& request : session.main.seen) {
        measured.breaks += guard.check(request) ? 1 : 0;
        const std::string text = bytes_text(request);
        const std::size_t shorter = std::min(before.size(), text.size());
        same += static_cast<std::size_t>(
            std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(shorter),
                          before.begin())
                .first -
            text.begin());
        all += text.size();
        before = text;
    }
    measured.share = static_cast<double>(same) / static_cast<double>(all);
    return measured;
}

/// The table of docs/guides/middleware/compaction.md.
TEST(CompactionSession, D110_PrefixBytes_BreakOncePerCompaction) {
    constexpr std::int64_t never = 1'000'000;
    struct Row {
        const char* name;
        std::int64_t limit;
        bool todos;
        bool goal;
    };
    for (const Row& row : {Row{"nothing", never, false, false}, Row{"todos", never, true, false},
                           Row{"goal", never, false, true}, Row{"compaction", 2'500, false, false},
                           Row{"all", 2'500, true, true}}) {
        const PrefixBytes measured = measure(row.limit, row.todos, row.goal);
        EXPECT_EQ(measured.breaks, measured.compactions) << row.name;
        EXPECT_EQ(measured.compactions > 0, row.limit != never) << row.name;
        EXPECT_GT(measured.share, row.limit == never ? 0.97 : 0.75) << row.name;
        RecordProperty(row.name, std::to_string(measured.share));
    }
}

TEST(CompactionSession, D110_KilledAtEachWrite_Continues) {
    for (const bool after : {false, true}) {
        for (int dies_at = 1;; ++dies_at) {
            Session session;
            session.limit = 1'200;
            auto dying = std::make_shared<DyingStore>(session.store, dies_at, after);
            std::size_t sent = 0;
            {
                auto agent = session.open(dying);
                for (; sent < 14 && !dying->dead(); ++sent) {
                    try {
                        (void)run(agent->prompt(words("note", 150) + fact(session.facts++)));
                    } catch (const CheckpointerError&) {
                    }
                }
            }
            auto agent = session.open(session.store);
            EXPECT_TRUE(run(agent->prompt("continue"))) << dies_at;
            EXPECT_NE(text_of(session.main.seen.back()).find("continue"), std::string::npos);
            if (!dying->dead()) {
                EXPECT_GE(session.helper.seen.size(), 1u);
                break;
            }
        }
    }
}

TEST(CompactionSession, D111_LongHistory_IsNotCopiedByTheCheck) {
    // Without a limit in reach, each request shares the messages of the history: nothing is copied.
    Session session;
    session.limit = 1'000'000'000;
    MessageList history;
    for (int i = 0; i < 10'000; ++i) {
        history.push_back(user_message("q"));
        history.push_back(Message(says("a")));
    }
    run(session.store->append("t", history, AppendOptions()));
    session.prompts = 0;
    auto agent = session.open(session.store);
    EXPECT_TRUE(run(agent->prompt("next")));
    EXPECT_TRUE(run(agent->prompt("next")));
    EXPECT_EQ(session.main.seen.back().messages.begin(), session.main.seen[0].messages.begin());
}

}  // namespace
}  // namespace cubepi
