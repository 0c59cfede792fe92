#include <cubepi/middleware/compaction_test_support.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>
#include <string_view>

#include <cubepi/middleware/deferred_tools.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/middleware/subagents.hpp>
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

/// Returns true if all cases run, not a sample: with ALL=1.
bool runs_all() {
    const char* const all = std::getenv("ALL");
    return all && std::string_view(all) == "1";
}

/// The main model calls a tool at every `calls_every`-th prompt; the helper keeps every other fact of what it reads.
struct Session {
    Session() {
        main = Server([this](const ModelRequest& request) {
            if (!is_legal_transcript(request.messages)) ADD_FAILURE() << "illegal request";
            if (request.messages.back().tool_result() || ++prompts % calls_every != 0)
                return says(words("answer", 200));
            const bool plans = prompts == plan_at;
            return calls(plans ? "plan" : "read", {}, "c" + std::to_string(prompts));
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
        options.preserved_tools = {"plan"};
        AgentOptions how;
        how.model = main.model();
        how.middleware = std::move(more);
        how.middleware.emplace_back(CompactionMiddleware(std::move(options)));
        how.tools = {tool("read", "Reads a file.", Json({{"type", "object"}}),
                          [this](JsonObject) { return file(); }),
                     tool("plan", "Reads the plan.", Json({{"type", "object"}}),
                          [](JsonObject) { return std::string("the plan of the tool"); })};
        how.checkpointer = std::move(where);
        how.thread_id = "t";
        return std::make_unique<Agent>(std::move(how));
    }
    /// The text of a file with a fact in its middle.
    std::string file() { return words("file", 300) + fact(facts++) + " " + words("file", 300); }

    std::int64_t limit = 2'500;
    std::size_t calls_every = 3;
    std::size_t plan_at = 0;  ///< the prompt whose call is of the preserved tool
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

std::vector<std::string> stored_messages(Checkpointer& store) {
    const auto data = run(store.load("t"));
    std::vector<std::string> forms;
    for (const Message& message : data->messages)
        forms.push_back(boost::json::serialize(to_json(message)));
    return forms;
}

/// Replaces the model by one that recalls each fact. Returns how many it has found.
std::size_t recalled_facts(Session& session) {
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
    const auto agent = session.open(session.store);
    EXPECT_TRUE(run(agent->prompt("recall all of them")));
    std::set<std::string> found;
    for (const Message& message : agent->state().messages) {
        if (!message.tool_result() || message.tool_result()->tool_name != "recall") continue;
        if (message.text().starts_with("Message "))
            found.insert(message.tool_result()->tool_call_id.str());
    }
    return found.size();
}

/// A user message that a summary keeps word for word.
Message preserved_prompt(std::string text) {
    UserMessage message;
    message.content.emplace_back(TextContent{std::move(text)});
    message.metadata["preserve"] = true;
    return message;
}

/// Checks the parts that every request must have, compacted or not.
void expect_preserved(const MessageList& sent, const MessageList& before) {
    std::string text;
    for (const Message& message : sent) text += message.text() + "\n";
    for (const char* part : {"the open to-do", "the goal of all of it", "the preserved prompt",
                             "the plan of the tool"}) {
        // To-dos and goal are not part of the messages.
        const bool is_message = std::string_view(part).starts_with("the p");
        const bool is_expected = is_message || is_synthetic_message(sent[0]);
        EXPECT_TRUE(!is_expected || text.find(part) != std::string::npos) << part;
    }
    // The last answer is part of the tail. An agent that was just made has not loaded its history.
    if (before.empty()) return;
    const Message& last = before.back();
    EXPECT_TRUE(std::any_of(sent.begin(), sent.end(), [&last](const Message& one) {
        return one.id() == last.id() && one.text() == last.text();
    })) << last.text();
}

/// 500 turns with 200 facts, in prompts and files; compactions until there were `compactions`.
void expect_nothing_lost(std::size_t compactions) {
    SCOPED_TRACE(compactions);
    Session session;
    session.calls_every = 2;
    session.plan_at = 4;
    auto agent = session.open(session.store);
    agent->set_extra(
        "todos", JsonArray{JsonObject{{"content", "the open to-do"}, {"status", "in_progress"}}});
    agent->set_extra("goal", JsonObject{{"condition", "the goal of all of it"},
                                        {"evaluations", 0},
                                        {"max_evaluations", 10},
                                        {"last_reason", ""},
                                        {"status", "active"}});
    EXPECT_TRUE(run(agent->prompt(preserved_prompt("the preserved prompt"))));
    std::vector<std::string> stored;
    bool is_done = false;
    while (session.main.seen.size() < 500) {
        // Every second prompt makes the model read a file, which has a fact too.
        std::string prompt = words("note", 150);
        if (session.prompts < 40) prompt += fact(session.facts++);
        const MessageList before = agent->state().messages;
        EXPECT_TRUE(run(agent->prompt(std::move(prompt))));
        if (session.prompts > session.plan_at) {
            const MessageList& sent = session.main.seen.back().messages;
            expect_preserved(sent, before);
        }
        const bool ends = !is_done && session.helper.seen.size() >= compactions;
        if (ends) session.limit = 1'000'000'000;
        is_done = is_done || ends;
        if (ends || session.prompts % 20 == 19) {  // another process
            agent = session.open(session.store);
            std::vector<std::string> now = stored_messages(*session.store);
            ASSERT_GE(now.size(), stored.size());
            EXPECT_TRUE(std::equal(stored.begin(), stored.end(), now.begin())) << "changed";
            stored = std::move(now);
        }
    }
    EXPECT_EQ(session.helper.seen.size(), compactions);
    EXPECT_GE(session.facts, 200u);
    const std::string text = stored_text(*session.store);
    for (std::size_t i = 0; i < session.facts; ++i)
        EXPECT_NE(text.find(fact(i)), std::string::npos) << "the store is whole";
    EXPECT_EQ(recalled_facts(session), session.facts);
}

TEST(CompactionSession, D110_LossySummaries_LoseNoFact) {
    for (std::size_t compactions = 1; compactions <= 20; ++compactions) {
        if (runs_all() || compactions == 1 || compactions == 20) expect_nothing_lost(compactions);
    }
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

/// The middleware of a measured session, and whether its user steers.
struct Features {
    bool todos = false;
    bool goal = false;
    bool deferred = false;
    bool subagents = false;
    bool steering = false;
};

DeferredToolGroup deferred_group() {
    DeferredToolGroup group;
    group.group_id = "files";
    group.description = "More about files.";
    group.tool_names = {"stat"};
    group.loader = []() -> Task<std::vector<AgentTool>> {
        std::vector<AgentTool> tools;
        tools.push_back(tool("stat", "Describes a file.", Json({{"type", "object"}}),
                             [](JsonObject) { return std::string("a file"); }));
        co_return tools;
    };
    return group;
}

/// Returns the calls of the model at every tenth prompt.
AssistantMessage calls_of(const Features& with, std::size_t prompt) {
    AssistantMessage answer;
    const auto add = [&](std::string_view name, JsonObject arguments) {
        ToolCall call;
        call.id = std::string(name) + std::to_string(prompt);
        call.name = SharedString(name);
        call.arguments = std::move(arguments);
        answer.content.emplace_back(std::move(call));
    };
    if (with.todos) {
        JsonObject todo{{"content", "step " + std::to_string(prompt)}, {"status", "in_progress"}};
        add("write_todos", {{"todos", JsonArray{todo}}});
    }
    if (with.deferred && prompt == 10) add("load_tools", {{"group_id", "files"}});
    if (with.deferred && prompt > 10)
        add("deferred_tool_call", {{"tool_name", "stat"}, {"arguments", JsonObject()}});
    if (with.subagents)
        add("subagent", {{"prompt", "do it"}, {"run_in_background", prompt % 20 == 0}});
    if (answer.content.empty()) return says(words("answer", 200));
    answer.stop_reason = stop_reason::shared(stop_reason::tool_use);
    return answer;
}

std::vector<Middleware> middleware_of(const Features& with, Server& judge, Server& child) {
    std::vector<Middleware> made;
    if (with.todos) made.emplace_back(TodoListMiddleware({.require_finished = false}));
    if (with.goal) made.emplace_back(GoalMiddleware(GoalOptions{.evaluator = judge.model()}));
    if (with.deferred) made.emplace_back(DeferredToolsMiddleware({deferred_group()}));
    if (with.subagents) {
        SubagentOptions options;
        options.default_model = child.model();
        options.limits.max_background = 4;
        made.emplace_back(SubagentMiddleware(std::move(options)));
    }
    return made;
}

/// With ALL=1 the whole session, otherwise its beginning.
std::size_t measured_prompts() { return runs_all() ? 500 : 100; }

/// Measures a session. Every tenth prompt uses the features: the model makes their calls, or the prompt is a goal, or the user
/// steers.
PrefixBytes measure(std::int64_t limit, const Features& with) {
    Session session;
    session.limit = limit;
    Server judge(
        [](const ModelRequest&) { return says(R"({"achieved": true, "reason": "it is done"})"); });
    Server child([](const ModelRequest&) { return says("done"); });
    std::unique_ptr<Agent> agent;
    session.main = Server([&](const ModelRequest& request) {
        const Message& last = request.messages.back();
        const bool is_prompt =
            last.user() && !is_synthetic_message(last) && !last.text().starts_with("steered");
        if (!is_prompt || ++session.prompts % 10 != 0) return says(words("answer", 200));
        if (with.steering) (void)agent->steer(user_message(words("steered", 100)));
        return calls_of(with, session.prompts);
    });
    agent = session.open(session.store, middleware_of(with, judge, child));
    for (std::size_t i = 0; i < measured_prompts(); ++i) {
        const std::string prefix = with.goal && i % 10 == 9 ? "/goal " : "";
        EXPECT_TRUE(run(agent->prompt(prefix + words("note", 150) + fact(session.facts++))));
    }
    for (const Message& message : agent->state().messages)
        EXPECT_FALSE(message.tool_result() && message.tool_result()->is_error) << message.text();
    EXPECT_EQ(child.seen.size(), with.subagents ? measured_prompts() / 10 : 0u);
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
        Features with;
    };
    for (const Row& row :
         {Row{"nothing", never, {}}, Row{"todos", never, {.todos = true}},
          Row{"goal", never, {.goal = true}}, Row{"deferred", never, {.deferred = true}},
          Row{"subagents", never, {.subagents = true}}, Row{"steering", never, {.steering = true}},
          Row{"compaction", 2'500, {}}, Row{"all", 2'500, {true, true, true, true, true}}}) {
        const PrefixBytes measured = measure(row.limit, row.with);
        EXPECT_EQ(measured.breaks, measured.compactions) << row.name;
        EXPECT_EQ(measured.compactions > 0, row.limit != never) << row.name;
        EXPECT_GT(measured.share, row.limit == never ? 0.97 : 0.75) << row.name;
        RecordProperty(row.name, std::to_string(measured.share));
    }
}

TEST(CompactionSession, D110_KilledAtEachWrite_Continues) {
    const std::size_t most = runs_all() ? 60 : 14;
    for (const bool after : {false, true}) {
        for (int dies_at = 1;; ++dies_at) {
            Session session;
            session.limit = 1'200;
            auto dying = std::make_shared<DyingStore>(session.store, dies_at, after);
            std::size_t sent = 0;
            {
                auto agent = session.open(dying);
                for (; sent < most && !dying->dead(); ++sent) {
                    try {
                        (void)run(agent->prompt(words("note", 150) + fact(session.facts++)));
                    } catch (const CheckpointerError&) {
                    }
                }
            }
            auto agent = session.open(session.store);
            EXPECT_TRUE(run(agent->prompt("continue"))) << dies_at;
            EXPECT_NE(text_of(session.main.seen.back()).find("continue"), std::string::npos);
            // All that was stored can be read back, with either record.
            const std::string stored = stored_text(*session.store);
            const std::size_t made = session.facts;
            std::size_t known = 0;
            for (std::size_t i = 0; i < made; ++i)
                known += stored.find(fact(i)) != std::string::npos ? 1 : 0;
            EXPECT_GE(known + 1, made) << dies_at;
            EXPECT_EQ(recalled_facts(session), known) << dies_at;
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
