// To-do lists and goals of sessions.

#include <gtest/gtest.h>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_session.hpp>

namespace bub {
namespace {

using test::calling;

cubepi::AssistantMessage writes(const char* first, const char* second) {
    JsonArray items;
    items.push_back(JsonObject{{"content", "read"}, {"status", first}});
    items.push_back(JsonObject{{"content", "write"}, {"status", second}});
    return calling("write_todos", JsonObject{{"todos", std::move(items)}});
}

cubepi::AssistantMessage verdict(bool achieved, const char* reason) {
    return calling("structured_output", JsonObject{{"achieved", achieved}, {"reason", reason}});
}

class Plans : public test::Builtin {
protected:
    /// A message in a chat.
    std::string user_says(std::string text, std::string chat = "chat", bool is_operator = false) {
        Envelope inbound = Envelope(std::move(text)).on("telegram", std::move(chat));
        inbound.from_operator = is_operator;
        inbound.note_arrival(std::chrono::system_clock::now());
        inbound.context["channel"] = "$telegram";
        return cubepi::run(framework->process_inbound(std::move(inbound), true)).model_output;
    }
    void restart(BuiltinOptions options = {}) {
        make_framework(FrameworkOptions());
        add_builtin({}, std::move(options));
    }
};

TEST_F(Plans, D117_ModelWritesList_UserOfSessionSeesIt) {
    add_builtin({writes("in_progress", "pending"), "ok"});
    EXPECT_EQ(user_says("go"), "ok");
    EXPECT_EQ(user_says("/todo"), "▸ read\n○ write");
    EXPECT_EQ(user_says("/todo", "another"), "(no to-dos)");
    EXPECT_EQ(user_says(",todo", "chat", true), "▸ read\n○ write");
    restart();
    EXPECT_EQ(user_says("/todo"), "▸ read\n○ write");
    EXPECT_EQ(faux.call_count(), 2U);
}

TEST_F(Plans, D159_ExtraAfterRun_HasNoLaterPlans) {
    add_builtin({writes("in_progress", "pending"), "ok", "Begun."});
    (void)user_says("go");
    const std::string tape = tape_name(framework->workspace(), "telegram:chat");
    const std::shared_ptr<TapeStore> store = cubepi::run(framework->tape_store());
    std::string run;
    for (const TapeEntry& entry : cubepi::run(store->fetch(tape, TapeQuery())))
        if (entry_name(entry) == "cubepi.run")
            run = std::string(entry.payload.at("data").at("run_id").as_string());
    (void)user_says("/goal write a file");
    EXPECT_TRUE(cubepi::run(stored_extra(store, tape)).contains("goal"));
    const JsonObject then = cubepi::run(extra_after_run(store, tape, run));
    EXPECT_FALSE(then.contains("goal"));
    EXPECT_TRUE(then.contains("todos"));
}

TEST_F(Plans, TodosOff_ToolIsNotOffered) {
    BuiltinOptions options;
    options.with_todos = false;
    bool offered = false;
    bool prompted = false;
    add_builtin({[&](const cubepi::ModelRequest& request) {
                    for (const cubepi::ToolDefinition& tool : *request.tools)
                        offered = offered || tool.name == "write_todos";
                    prompted = request.system_prompt.str().find("write_todos") != std::string::npos;
                    return faux_assistant_message("ok");
                }},
                std::move(options));
    (void)user_says("go");
    EXPECT_FALSE(offered || prompted);
    EXPECT_EQ(user_says("/todo"), "(no to-dos)");
}

TEST_F(Plans, CommandOfAnySender_NeverRunsOtherTools) {
    int ran = 0;
    struct NoArgs {};
    extra_tools.push_back(cubepi::tool<NoArgs>("todo", "Deletes all.", [&ran](NoArgs) {
        ++ran;
        return std::string("deleted");
    }));
    add_builtin({"a", "b", "c"});
    EXPECT_EQ(user_says("/todo"), "(no to-dos)");
    EXPECT_EQ(ran, 0);
    // Other texts remain messages for the model.
    EXPECT_EQ(user_says("/todo all"), "a");
    EXPECT_EQ(user_says(",todo"), "b");
    EXPECT_EQ(user_says("/help"), "c");
}

TEST_F(Plans, D119_GoalInMessageWithContext_ContinuesTurn) {
    std::vector<std::string> seen;
    const auto step = [&seen](const char* answer) {
        return [&seen, answer](const cubepi::ModelRequest& request) {
            seen.push_back(request.messages[1].text());
            return faux_assistant_message(answer);
        };
    };
    add_builtin({step("Begun."), verdict(false, "no file"), step("Finished."),
                 verdict(true, "the file exists")});
    EXPECT_EQ(user_says("/goal write a file"), "Begun.\n\nFinished.");
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_TRUE(seen[0].ends_with("\nwrite a file")) << seen[0];
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(
        user_says("/goal"),
        "Goal (achieved, 2 of 10 evaluations): write a file\nLast evaluation: the file exists");
    EXPECT_TRUE(user_says("/goal", "another").starts_with("(no goal"));
    EXPECT_EQ(user_says("/goal clear"), "Goal cleared: write a file");
    EXPECT_TRUE(user_says("/goal").starts_with("(no goal"));
}

TEST_F(Plans, ClearedGoal_IsNotEvaluated) {
    add_builtin({"Begun.", cubepi::faux_failure("http://host/ has no quota"), "Hello."});
    EXPECT_EQ(user_says("/goal finish"), "Begun.");
    const std::string state = user_says("/goal");
    EXPECT_NE(state.find("the evaluation failed"), std::string::npos) << state;
    // Senders see no details of failures (D98).
    EXPECT_EQ(state.find("http"), std::string::npos) << state;
    (void)user_says("/goal clear");
    restart();
    faux.set_responses({"Hello."});
    EXPECT_EQ(user_says("hi"), "Hello.");
    EXPECT_EQ(faux.pending_response_count(), 0U);
}

TEST_F(Plans, Subagent_HasNeitherListNorGoal) {
    std::vector<std::string> offered;
    JsonObject arguments{{"prompt", "/goal rob a bank"}};
    add_builtin({writes("in_progress", "pending"), calling("subagent", std::move(arguments)),
                 [&offered](const cubepi::ModelRequest& request) {
                     for (const cubepi::ToolDefinition& tool : *request.tools)
                         offered.push_back(tool.name.str());
                     return faux_assistant_message("child");
                 },
                 "parent"});
    EXPECT_EQ(user_says("go"), "parent");
    EXPECT_EQ(std::count(offered.begin(), offered.end(), "write_todos"), 0);
    EXPECT_FALSE(offered.empty());
    EXPECT_TRUE(user_says("/goal").starts_with("(no goal"));
    EXPECT_EQ(user_says("/todo"), "▸ read\n○ write");
}

}  // namespace
}  // namespace bub
