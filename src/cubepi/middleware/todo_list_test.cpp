#include <cubepi/middleware/todo_list.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/prefix_guard.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

JsonObject item(const char* content, const char* status) {
    return {{"content", content}, {"status", status}};
}

JsonObject list_of(JsonArray items) { return {{"todos", std::move(items)}}; }

JsonObject two_items() { return list_of({item("read", "in_progress"), item("write", "pending")}); }
JsonObject two_completed() {
    return list_of({item("read", "completed"), item("write", "completed")});
}

AssistantMessage calls(std::string_view tool, JsonObject arguments, std::string text = {}) {
    ContentList<AssistantContent> blocks;
    if (!text.empty()) blocks.emplace_back(faux_text(std::move(text)));
    blocks.emplace_back(faux_tool_call(tool, std::move(arguments)));
    return faux_assistant_message(std::move(blocks), stop_reason::tool_use);
}

AssistantMessage writes(JsonObject list) { return calls("write_todos", std::move(list)); }

struct Step {
    Step(const char* text) : answer(faux_assistant_message(text)) {}
    Step(AssistantMessage message) : answer(std::move(message)) {}
    AssistantMessage answer;
};
using Script = std::vector<Step>;

/// An agent with the middleware and a tool `work`, whose model answers by a script.
struct Fixture {
    explicit Fixture(TodoListOptions options = {}) : middleware(std::move(options)) {}

    RunResult prompt(Script script) {
        std::vector<FauxStep> steps;
        for (const auto& [answer] : script) {
            steps.emplace_back([this, answer = answer](const ModelRequest& request) {
                requests.push_back(request);
                if (const auto broken = guard.check(request)) breaks.push_back(broken->text);
                return answer;
            });
        }
        faux.set_responses(std::move(steps));
        Agent agent({.model = faux.model("scripted"),
                     .tools = {tool<JsonObject>("work", "Works.",
                                                [](JsonObject) { return std::string("ok"); })},
                     .middleware = {middleware},
                     .checkpointer = store,
                     .thread_id = "t"});
        RunResult result = run(agent.prompt("go"));
        return result;
    }
    JsonObject extra() const {
        const auto data = run(store->load("t"));
        return data ? data->extra : JsonObject();
    }
    void set_extra(JsonObject state) { run(store->save_extra("t", std::move(state))); }
    std::string todos() const { return json_text(to_json(TodoListMiddleware::todos_in(extra()))); }

    TodoListMiddleware middleware;
    FauxProvider faux;
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    std::vector<ModelRequest> requests;
    PrefixGuard guard;
    std::vector<std::string> breaks;
};

/// The synthetic messages of a run.
std::vector<std::string> sources(const RunResult& result) {
    std::vector<std::string> found;
    for (const Message& message : result.new_messages) {
        if (const Json* source = message.metadata().find("synthetic_source"))
            found.emplace_back(source->get_string());
    }
    return found;
}

std::vector<bool> errors(const RunResult& result) {
    std::vector<bool> found;
    for (const Message& message : result.new_messages) {
        if (const ToolResultMessage* one = message.tool_result()) found.push_back(one->is_error);
    }
    return found;
}

using Sources = std::vector<std::string>;

TEST(TodoList, ModelWritesList_ListIsStoredWithThread) {
    Fixture fixture;
    const RunResult result = fixture.prompt({writes(two_items()), writes(two_completed()), "done"});
    EXPECT_EQ(result.text(), "done");
    EXPECT_EQ(fixture.extra(), two_completed());
    EXPECT_EQ(sources(result), Sources());
    EXPECT_EQ(result.new_messages[2].text(), json_text(two_items()));
}

TEST(TodoList, SimpleConversation_LeavesNoState) {
    Fixture fixture;
    (void)fixture.prompt({calls("work", {}), "done"});
    EXPECT_EQ(fixture.extra(), JsonObject());
}

TEST(TodoList, InvalidLists_PreviousOneRemains) {
    Fixture fixture;
    const RunResult result = fixture.prompt(
        {writes(two_items()), writes(list_of({})), writes(list_of({item(" ", "in_progress")})),
         writes(list_of({item("a", "pending")})),
         writes(list_of({item("a", "in_progress"), item("b", "in_progress")})),
         writes(list_of({item("a", "later")})), writes({}), writes(two_completed()), "done"});
    EXPECT_EQ(errors(result),
              (std::vector<bool>{false, true, true, true, true, true, true, false}));
    EXPECT_EQ(sources(result), Sources(6, "todo_validation_error"));
    EXPECT_EQ(fixture.todos(), json_text(two_completed().at("todos")));
}

TEST(TodoList, SeveralCallsInOneAnswer_AllAreRejected) {
    Fixture fixture;
    ContentList<AssistantContent> blocks;
    blocks.emplace_back(faux_tool_call("write_todos", two_completed()));
    blocks.emplace_back(faux_tool_call("write_todos", list_of({})));
    const RunResult result = fixture.prompt(
        {writes(two_items()), faux_assistant_message(std::move(blocks), stop_reason::tool_use),
         writes(two_completed()), "done"});
    EXPECT_EQ(errors(result), (std::vector<bool>{false, true, true, false}));
    EXPECT_EQ(sources(result), Sources(2, "todo_parallel_error"));
    EXPECT_EQ(fixture.extra().at("_todos_snapshot"), two_items().at("todos"));
}

TEST(TodoList, TextWithUnfinishedItems_IsCorrectedThenEnds) {
    Fixture fixture;
    const RunResult result =
        fixture.prompt({writes(two_items()), "one", "two", "three", "it is stuck"});
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(sources(result), (Sources{"todo_guard", "todo_guard", "todo_blocked"}));
    JsonObject expected = two_items();
    expected["todo_guard_retries"] = JsonObject();
    expected["todo_guard_suppressed"] = true;
    EXPECT_EQ(fixture.extra(), expected);
    // The guard is off until the list is written.
    EXPECT_EQ(sources(fixture.prompt({"still"})), Sources());
    EXPECT_EQ(sources(fixture.prompt({writes(two_items()), "a", writes(two_completed()), "b"})),
              Sources{"todo_guard"});
}

TEST(TodoList, ToolCallsWhileBlocked_RunEnds) {
    Fixture fixture;
    Script script = {writes(two_items()), "one", "two", "three"};
    script.resize(10, calls("work", {}));
    const RunResult result = fixture.prompt(std::move(script));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(fixture.faux.pending_response_count(), 2U);
    EXPECT_FALSE(fixture.extra().contains("todo_guard_blocked"));
}

TEST(TodoList, FinishedItemsNotRequired_TextEndsRun) {
    TodoListOptions options;
    options.require_finished = false;
    Fixture fixture(std::move(options));
    const RunResult result = fixture.prompt({writes(two_items()), "Which database?"});
    EXPECT_EQ(result.text(), "Which database?");
    EXPECT_EQ(fixture.extra(), two_items());
}

TEST(TodoList, D117_TwelveTurnsWithoutUpdate_RemindersKeepPrefix) {
    Fixture fixture;
    Script script = {writes(two_items())};
    script.resize(13, calls("work", {}));
    script.push_back(writes(two_completed()));
    script.push_back("done");
    const RunResult result = fixture.prompt(std::move(script));
    EXPECT_EQ(sources(result), Sources(2, "todo_stale_reminder"));
    EXPECT_EQ(fixture.breaks, std::vector<std::string>());
    EXPECT_EQ(fixture.requests.size(), 15U);
    EXPECT_NE(result.new_messages[13].text().find(json_text(two_items().at("todos"))),
              std::string::npos)
        << result.new_messages[13].text();
}

TEST(TodoList, MalformedState_IsDropped) {
    for (const char* text :
         {R"({"todos": 7})", R"({"todos": [{"content": 1}]})", R"({"todos": {"a": []}})",
          R"({"todos": [{"content": "a", "status": "x"}], "todo_stale_iterations": "9"})",
          R"({"todo_guard_blocked": {}, "todo_guard_retries": [1], "todo_guard_suppressed": 3})",
          R"({"todo_guard_blocked": {"guard_type": "?", "message": []}, "todo_task_wait": 1})"}) {
        Fixture fixture;
        fixture.set_extra(parse_json(text).get_object());
        const RunResult result = fixture.prompt({calls("work", {}), "done"});
        EXPECT_EQ(result.text(), "done") << text;
        EXPECT_EQ(sources(result), Sources()) << text;
    }
}

TEST(TodoList, TwoAgents_DoNotShareList) {
    Fixture parent;
    Fixture child;
    child.middleware = parent.middleware;
    (void)parent.prompt({writes(two_items()), writes(two_completed()), "done"});
    (void)child.prompt({"done"});
    EXPECT_EQ(child.extra(), JsonObject());
}

// The wait for tasks (D118).

TodoListOptions with_host(std::vector<TaskWaitStatus> answers,
                          std::shared_ptr<std::vector<std::string>> asked) {
    TodoListOptions options;
    auto next = std::make_shared<std::vector<TaskWaitStatus>>(std::move(answers));
    options.validate_task_wait =
        [next, asked](std::vector<std::string> ids, const HookContext&,
                      std::optional<TaskWaitBinding> binding) -> Task<TaskWaitValidation> {
        asked->push_back(ids.at(0) + (binding ? " bound" : ""));
        TaskWaitValidation validation;
        validation.status = next->front();
        validation.reason = "as told";
        next->erase(next->begin());
        return [](TaskWaitValidation value) -> Task<TaskWaitValidation> {
            co_return value;
        }(std::move(validation));
    };
    return options;
}

JsonObject waiting(JsonArray ids) {
    JsonObject list = two_items();
    list["wait_for_tasks"] = std::move(ids);
    return list;
}

TEST(TaskWait, D118_HostAgrees_RunEndsWithUnfinishedItems) {
    using enum TaskWaitStatus;
    for (const TaskWaitStatus second : {valid, cancelled}) {
        auto asked = std::make_shared<std::vector<std::string>>();
        Fixture fixture(with_host({valid, second}, asked));
        const RunResult result = fixture.prompt({writes(waiting({"t1"})), "I wait for t1."});
        EXPECT_EQ(result.text(), "I wait for t1.");
        EXPECT_EQ(sources(result), Sources());
        EXPECT_EQ(*asked, (std::vector<std::string>{"t1", "t1 bound"}));
        EXPECT_EQ(fixture.extra().at("todo_task_wait").at("task_ids"), Json(JsonArray{"t1"}));
        EXPECT_EQ(fixture.extra().at("todo_task_wait_outcome").at("status"),
                  Json(enum_name(second)));
        EXPECT_EQ(fixture.todos(), json_text(two_items().at("todos")));
        // The next run has another id: its items have to be finished or waited for.
        EXPECT_EQ(sources(fixture.prompt({"done?", writes(two_completed()), "done"})),
                  Sources{"todo_guard"});
    }
}

TEST(TaskWait, D118_HostRefuses_ListIsUnchanged) {
    auto asked = std::make_shared<std::vector<std::string>>();
    Fixture fixture(with_host({TaskWaitStatus::invalid}, asked));
    const RunResult result = fixture.prompt(
        {writes(waiting({"t1"})), writes(waiting({" "})), writes(waiting({"t1", "t1"})), "done"});
    EXPECT_EQ(errors(result), (std::vector<bool>{true, true, true}));
    EXPECT_EQ(fixture.extra(), JsonObject());
    EXPECT_EQ(asked->size(), 1U);
    EXPECT_NE(result.new_messages[2].text().find("as told"), std::string::npos);
}

TEST(TaskWait, D118_HostThrows_WaitIsRefused) {
    TodoListOptions options;
    options.validate_task_wait = [](std::vector<std::string>, const HookContext&,
                                    std::optional<TaskWaitBinding>) -> Task<TaskWaitValidation> {
        throw std::runtime_error("database");
    };
    Fixture fixture(std::move(options));
    const RunResult result = fixture.prompt({writes(waiting({"t1"})), "done"});
    EXPECT_EQ(errors(result), std::vector<bool>{true});
    EXPECT_EQ(result.text(), "done");
}

TEST(TaskWait, NoHost_ArgumentIsNotOffered) {
    Fixture fixture;
    const std::string schema = json_text(fixture.middleware.tools[0].parameters.source());
    EXPECT_EQ(schema.find("wait_for_tasks"), std::string::npos) << schema;
    const RunResult result = fixture.prompt({writes(waiting({"t1"})), "done"});
    EXPECT_EQ(errors(result), std::vector<bool>{true});
}

}  // namespace
}  // namespace cubepi
