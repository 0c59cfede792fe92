#include <cubepi/middleware/compaction_test_support.hpp>

#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/provider/faux.hpp>

// Compaction together with other middleware, with several runs at the same time, and with records of other histories.

namespace cubepi {
namespace {

using namespace compaction_test;

/// Replaces a word in what users and tools write. `with_ids`: the messages keep their ids.
struct Redactor {
    bool with_ids = true;
    MessageList transform_context(MessageList messages, HookContext&) const {
        MessageList redacted;
        for (const Message& message : messages) redacted.push_back(changed(message));
        return redacted;
    }
    Message changed(const Message& message) const {
        std::string text = message.text();
        if (message.assistant() || text.find("secret") == std::string::npos) return message;
        for (std::size_t at = text.find("secret"); at != std::string::npos;
             at = text.find("secret", at + 1))
            text.replace(at, 6, "public");
        if (const ToolResultMessage* result = message.tool_result()) {
            ToolResultMessage copy = *result;
            copy.content = ContentList<Content>();
            copy.content.emplace_back(TextContent{std::move(text)});
            return copy;
        }
        return user_message(std::move(text), with_ids ? message.id() : std::string());
    }
};

/// Puts a message before the history and one after it.
struct Framer {
    MessageList transform_context(MessageList messages, HookContext&) const {
        MessageList framed{user_message("a note before")};
        framed.append(messages);
        framed.push_back(user_message("a note after"));
        return framed;
    }
};

/// Leaves out what is marked.
struct Hider {
    std::string word = "hidden";
    MessageList transform_context(MessageList messages, HookContext&) const {
        MessageList shown;
        for (const Message& message : messages) {
            if (message.text().find(word) == std::string::npos) shown.push_back(message);
        }
        return shown;
    }
};

struct Chat {
    RunResult prompt(std::string text) {
        if (!agent) open();
        return run(agent->prompt(std::move(text)));
    }
    CompactionMiddleware compaction() {
        options.summary_model = helper.model("helper");
        if (options.keep_tail_tokens == 8'000) options.keep_tail_tokens = 300;
        return CompactionMiddleware(options);
    }
    void open() {
        AgentOptions how;
        how.model = main.model();
        how.middleware = before;
        how.middleware.emplace_back(compaction());
        how.middleware.insert(how.middleware.end(), after.begin(), after.end());
        how.checkpointer = store;
        how.thread_id = "t";
        how.tools = tools;
        how.channel = channel;
        agent = std::make_unique<Agent>(std::move(how));
        notices = std::make_unique<Notices>(*agent);
    }
    std::size_t compactions() const { return notices->with("compaction").size(); }
    /// Prompts until there were `count` compactions.
    void fill(std::size_t count = 1) {
        for (int i = 0; i < 100; ++i) {
            EXPECT_TRUE(prompt(words("item" + std::to_string(i) + " secret", 400)));
            if (compactions() >= count) return;
        }
        ADD_FAILURE() << "not compacted";
    }

    Server main{[](const ModelRequest&) { return says(words("answer", 300)); }};
    Server helper{[](const ModelRequest&) { return says("The summary of rivers."); }};
    CompactionOptions options{.max_tokens_before_compact = 2'000};
    std::vector<Middleware> hooks;  ///< of AskingProcess, before its own
    std::vector<Middleware> before;
    std::vector<Middleware> after;
    std::vector<AgentTool> tools;
    std::shared_ptr<HitlChannel> channel;
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    std::unique_ptr<Agent> agent;
    std::unique_ptr<Notices> notices;
};

void expect_without(const std::vector<ModelRequest>& requests, const std::string& word) {
    for (const ModelRequest& request : requests)
        EXPECT_EQ(text_of(request).find(word), std::string::npos) << text_of(request);
}

TEST(CompactionHooks, D110_EarlierRedactor_ReachesEveryRequest) {
    for (const bool with_ids : {true, false}) {
        Chat chat;
        chat.before = {Redactor{with_ids}};
        chat.fill(2);
        EXPECT_GE(chat.helper.seen.size(), 2u);
        expect_without(chat.main.seen, "secret");
        // The summary model reads what the model of the agent would.
        expect_without(chat.helper.seen, "secret");
        EXPECT_EQ(chat.notices->with("cache_prefix_break").size(), 2u);
    }
}

TEST(CompactionHooks, D110_LaterRedactor_ReachesRetriedRequest) {
    for (const bool with_ids : {true, false}) {
        Chat chat;
        chat.options = CompactionOptions{.max_tokens_before_compact = 1'000'000};
        chat.main.window = 3'000;
        chat.after = {Redactor{with_ids}};
        chat.fill(2);
        expect_without(chat.main.seen, "secret");
        EXPECT_EQ(chat.main.seen.back().messages.back().text().substr(0, 12).find("item"), 0u);
    }
}

TEST(CompactionHooks, D110_MessagesOfEarlierHooks_Stay) {
    Chat chat;
    chat.before = {Framer()};
    chat.fill();
    EXPECT_TRUE(chat.prompt("next"));
    const MessageList& sent = chat.main.seen.back().messages;
    EXPECT_EQ(sent.front().text(), "a note before");
    EXPECT_TRUE(sent[1].text().starts_with(summary_prefix)) << sent[1].text();
    EXPECT_EQ(sent.back().text(), "a note after");
    EXPECT_EQ(sent[sent.size() - 2].text(), "next");
    std::size_t notes = 0;
    for (const Message& message : sent) notes += message.text().starts_with("a note") ? 1 : 0;
    EXPECT_EQ(notes, 2u);
}

/// A request is smaller when a later hook leaves messages out: no server has cut it.
TEST(CompactionHooks, D111_MessagesLeftOutLater_AreNotACut) {
    Chat chat;
    chat.options = CompactionOptions{.max_tokens_before_compact = 1'000'000};
    chat.open();
    EXPECT_TRUE(chat.prompt(words("private", 3'000)));
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(chat.prompt(words("item", 1'000)));
    chat.after = {Hider{"private"}};
    chat.open();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(chat.prompt("next"));
    EXPECT_TRUE(chat.notices->with("context_cut").empty());
}

TEST(CompactionHooks, D110_MessagesLeftOut_StayOut) {
    Chat chat;
    chat.before = {Hider()};
    chat.open();
    EXPECT_TRUE(chat.prompt("hidden words"));
    chat.fill();
    EXPECT_TRUE(chat.prompt("more hidden words"));
    EXPECT_TRUE(chat.prompt("next"));
    expect_without(chat.main.seen, "hidden");
    expect_without(chat.helper.seen, "hidden");
    EXPECT_TRUE(chat.main.seen.back().messages[0].text().starts_with(summary_prefix));
    EXPECT_EQ(chat.main.seen.back().messages.back().text(), "next");
}

/// Before or after compaction, a goal is sent without its command, also when the request is sent again.
TEST(CompactionHooks, D112_GoalOnEitherSide_SurvivesTheRetry) {
    for (const bool is_first : {true, false}) {
        FauxProvider judge;
        std::vector<FauxStep> verdicts;
        for (int i = 0; i < 20; ++i)
            verdicts.emplace_back(R"({"achieved": true, "reason": "it is done"})");
        judge.set_responses(std::move(verdicts));
        Chat chat;
        chat.options = CompactionOptions{.max_tokens_before_compact = 1'000'000};
        chat.main.window = 3'000;
        GoalOptions goal;
        goal.evaluator = judge.model();
        std::vector<Middleware>& place = is_first ? chat.before : chat.after;
        place.emplace_back(GoalMiddleware(std::move(goal)));
        chat.open();
        for (int i = 0; i < 20 && chat.compactions() == 0; ++i)
            EXPECT_TRUE(chat.prompt("/goal " + words("finish", 700)));
        EXPECT_EQ(chat.compactions(), 1u);
        expect_without(chat.main.seen, "/goal");
        EXPECT_TRUE(chat.prompt("next"));
        expect_without(chat.main.seen, "/goal");
    }
}

// Several runs.

[[noreturn]] void throw_refusal() {
    ErrorInfo info;
    info.code = ErrorCode::context_length;
    info.context_window = 1'234;
    throw ContextLengthExceeded(std::move(info), "the prompt is too long");
}

TEST(CompactionHooks, D110_RunsWithOneMiddleware_StayApart) {
    Chat chat;
    const CompactionMiddleware shared = chat.compaction();
    FauxProvider faux;
    const auto agent_of = [&](std::string thread) {
        AgentOptions how;
        how.model = faux.model();
        how.middleware = {shared};
        how.checkpointer = chat.store;
        how.thread_id = std::move(thread);
        return std::make_unique<Agent>(std::move(how));
    };
    std::unique_ptr<Agent> first = agent_of("first");
    MessageList retried;
    std::vector<FauxStep> steps;
    steps.emplace_back("noted");
    // Another run with the same middleware begins and ends while the first one waits for its answer.
    steps.emplace_back([&](const ModelRequest&) -> Task<AssistantMessage> {
        std::unique_ptr<Agent> second = agent_of("second");
        Task<RunResult> prompting = second->prompt("of the second thread");
        const RunResult result = co_await std::move(prompting);
        EXPECT_TRUE(result);
        second.reset();
        throw_refusal();
    });
    steps.emplace_back("answer of the second");
    steps.emplace_back([&](const ModelRequest& request) {
        retried = request.messages;
        return faux_assistant_message("done");
    });
    faux.set_responses(std::move(steps));
    EXPECT_TRUE(run(first->prompt(words("first", 4'000))));
    const RunResult result = run(first->prompt("continue"));
    EXPECT_TRUE(result);
    ASSERT_FALSE(retried.empty());
    EXPECT_TRUE(retried[0].text().starts_with(summary_prefix));
    EXPECT_EQ(retried.back().text(), "continue");
    EXPECT_NE(text_of(chat.helper.seen.at(0)).find("first first"), std::string::npos);
    const JsonObject other = run(chat.store->load("second"))->extra;
    EXPECT_EQ(other.if_contains("compaction"), nullptr) << other;
    const JsonObject own = run(chat.store->load("first"))->extra;
    EXPECT_TRUE(own.contains("compaction")) << own;
}

TEST(CompactionHooks, D110_ForkOnceDuringRun_HasItsOwnState) {
    Chat chat;
    FauxProvider faux;
    AgentOptions how;
    how.model = faux.model();
    how.middleware = {chat.compaction()};
    how.checkpointer = chat.store;
    how.thread_id = "t";
    Agent agent(std::move(how));
    MessageList retried;
    std::string first_run;
    std::vector<FauxStep> steps;
    steps.emplace_back("noted");
    steps.emplace_back([&](const ModelRequest&) -> Task<AssistantMessage> {
        Task<RunResult> probing = agent.fork_once("t", "a probe", first_run);
        const RunResult result = co_await std::move(probing);
        EXPECT_TRUE(result);
        throw_refusal();
    });
    steps.emplace_back("answer of the probe");
    steps.emplace_back([&](const ModelRequest& request) {
        retried = request.messages;
        return faux_assistant_message("done");
    });
    faux.set_responses(std::move(steps));
    first_run = run(agent.prompt(words("first", 4'000))).run_id;
    EXPECT_TRUE(run(agent.prompt("continue")));
    ASSERT_FALSE(retried.empty());
    EXPECT_EQ(retried.back().text(), "continue");
    EXPECT_TRUE(run(chat.store->load("t"))->extra.contains("compaction"));
}

// Suspended runs, and answers of a type.

/// One process of a thread in which the tool `recall` needs the user's consent.
struct AskingProcess {
    explicit AskingProcess(Chat& chat)
        : channel(std::make_shared<CheckpointedChannel>(chat.store, "t")) {
        ConfirmToolCallOptions about_recall;
        about_recall.require_confirm = {"recall"};
        chat.before = chat.hooks;
        chat.before.emplace_back(ConfirmToolCallMiddleware(channel, std::move(about_recall)));
        chat.channel = channel;
        chat.open();
        agent = chat.agent.get();
    }
    /// Suspends the run at its first question.
    RunResult prompt(std::string text) { return run(with_detach(agent->prompt(std::move(text)))); }
    RunResult approve() {
        return run(with_detach(agent->respond("", Json(to_json(ApproveAnswer())))));
    }

    std::shared_ptr<HitlChannel> channel;
    Agent* agent;

private:
    static Task<> detach_at_question(Agent* agent, std::shared_ptr<HitlChannel> channel) {
        HitlRequestStream requests = channel->subscribe();
        while (std::optional<HitlRequest> request = co_await requests.next()) {
            for (int i = 0; i < 10; ++i) co_await yield_now();
            (void)agent->detach();
        }
    }
    Task<RunResult> with_detach(Task<RunResult> work) {
        const Executor executor = co_await this_executor;
        BackgroundScope host(executor);
        host.spawn(detach_at_question(agent, channel));
        RunResult result = co_await std::move(work);
        co_await host.close();
        co_return result;
    }
};

TEST(CompactionHooks, D110_SuspendedRecall_ReadsTheHistory) {
    Chat chat;
    chat.fill();
    chat.main = Server([](const ModelRequest& request) {
        if (request.messages.back().tool_result()) return says("done");
        return calls("recall", JsonObject{{"find", "item0 secret"}}, "r");
    });
    ASSERT_EQ(AskingProcess(chat).prompt("recall it").outcome, RunOutcome::suspended);
    const std::string before = chat.main.seen.back().messages[0].text();
    // Another process, which sends nothing before the call.
    EXPECT_TRUE(AskingProcess(chat).approve());
    const MessageList& sent = chat.main.seen.back().messages;
    EXPECT_EQ(sent[0].text(), before) << "the same summary";
    EXPECT_NE(sent.back().text().find("Message 1, user: item0 secret"), std::string::npos);
}

TEST(CompactionHooks, D129_SuspendedRecall_ReadsNothingThatHooksChange) {
    for (const bool hides : {false, true}) {
        Chat chat;
        if (hides) {
            chat.hooks = {Hider{"item0 "}};
        } else {
            chat.hooks = {Redactor{}};
        }
        chat.before = chat.hooks;
        chat.fill();
        std::size_t calls_made = 0;
        chat.main = Server([&calls_made](const ModelRequest& request) {
            const bool is_done = request.messages.back().tool_result() && calls_made == 2;
            if (is_done) return says("done");
            return calls("recall", JsonObject{{"find", "item0"}},
                         "r" + std::to_string(++calls_made));
        });
        ASSERT_EQ(AskingProcess(chat).prompt("recall it").outcome, RunOutcome::suspended);
        // Another process, in which no hook has seen the history before the call.
        AskingProcess resumed(chat);
        ASSERT_EQ(resumed.approve().outcome, RunOutcome::suspended);
        const std::string refused = chat.main.seen.back().messages.back().text();
        EXPECT_NE(refused.find("call recall again"), std::string::npos) << refused;
        expect_without(chat.main.seen, hides ? "item0 " : "secret");
        EXPECT_EQ(refused.find("item0"), std::string::npos) << refused;
    }
}

TEST(CompactionHooks, D110_Recall_SeesWhatEarlierHooksLeave) {
    for (const bool hides : {false, true}) {
        Chat chat;
        if (hides) {
            chat.before = {Hider{"item0 "}};
        } else {
            chat.before = {Redactor{}};
        }
        chat.fill();
        std::string wanted = "item0";
        chat.main = Server([&wanted](const ModelRequest& request) {
            if (request.messages.back().tool_result()) return says("done");
            return calls("recall", JsonObject{{"find", wanted}}, "r");
        });
        EXPECT_TRUE(chat.prompt("recall it"));
        const std::string found = chat.main.seen.back().messages.back().text();
        EXPECT_EQ(found.find("item0 secret"), std::string::npos) << found;
        EXPECT_EQ(found.find("item0 public") == std::string::npos, hides) << found;
    }
}

struct Count {
    int number;
};

/// The calls and the notes by which an answer gets its type are part of the history like others.
TEST(CompactionHooks, D110_AnswerOfAType_SurvivesCompaction) {
    Chat chat;
    chat.fill();
    chat.main = Server([](const ModelRequest&) { return says(R"({"number": 7})"); });
    chat.main.window = 900;
    const TypedResult<Count> result = run(chat.agent->prompt<Count>(words("count", 900)));
    ASSERT_TRUE(result.value);
    EXPECT_EQ(result.value->number, 7);
    EXPECT_GE(chat.compactions(), 2u);
}

TEST(CompactionHooks, D111_LearnedWindow_LimitsTheSummaryRequest) {
    for (const bool is_learned : {false, true}) {
        Chat chat;
        JsonObject view{{"window", 1'000}, {"window_model", is_learned ? "helper" : "another"}};
        run(chat.store->save_extra("t", JsonObject{{"compaction_view", std::move(view)}}));
        chat.fill();
        EXPECT_EQ(text_of(chat.helper.seen.at(0)).size() < 2'500, is_learned);
    }
}

// Records of other histories.

TEST(CompactionHooks, D110_StaleRecord_IsRemovedOnce) {
    Chat chat;
    chat.options = CompactionOptions{.max_tokens_before_compact = 4'000};
    std::size_t number = 0;
    chat.main = Server([&number](const ModelRequest& request) {
        if (request.messages.back().tool_result()) return says("done");
        return calls("read", {}, "c" + std::to_string(++number));
    });
    chat.tools = {tool("read", "Reads.", Json({{"type", "object"}}),
                       [](JsonObject) { return words("file", 3'000); })};
    // As after a hand-off: the history is not the one that was summarized.
    JsonObject extra = boost::json::parse(
                           R"({"compaction":{"summary":"of another history",
                               "summarized_message_refs":["id:gone"]},
                               "compaction_until_msg_index":1,"compaction_failures":0,
                               "compaction_view":{"made_at":90,"tokens":7,"shortened_until":9}})")
                           .as_object();
    run(chat.store->append("t", MessageList{user_message("hello", "u"), Message(says("yes"))},
                           AppendOptions()));
    run(chat.store->save_extra("t", std::move(extra)));
    chat.fill();
    EXPECT_EQ(chat.notices->with("compaction")[0].details.at("summarized"), Json(0));
    EXPECT_EQ(run(chat.store->load("t"))->extra.if_contains("compaction"), nullptr);
    PrefixGuard guard;
    (void)guard.check(chat.main.seen.back());
    for (int i = 0; i < 3; ++i) {
        chat.open();  // another process
        EXPECT_TRUE(chat.prompt("next"));
        EXPECT_FALSE(guard.check(chat.main.seen[chat.main.seen.size() - 2])) << i;
        EXPECT_FALSE(guard.check(chat.main.seen.back())) << i;
    }
    expect_without(chat.main.seen, "another history");
}

}  // namespace
}  // namespace cubepi
