#include <gtest/gtest.h>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/tape/tape_entry.hpp>

namespace bub {
namespace {

using test::calling;

JsonObject task(std::string prompt, std::string session = {}) {
    JsonObject arguments;
    arguments["prompt"] = std::move(prompt);
    if (!session.empty()) arguments["session"] = std::move(session);
    return arguments;
}

/// All texts of a request, and the names of its tools.
struct Seen {
    std::vector<std::string> texts;
    std::vector<std::string> tools;
    std::string system_prompt;
    std::string model;

    bool has(std::string_view text) const {
        return std::find(texts.begin(), texts.end(), text) != texts.end();
    }
    bool offers(std::string_view tool) const {
        return std::find(tools.begin(), tools.end(), tool) != tools.end();
    }
};

class Subagent : public test::Builtin {
protected:
    /// A step that records the request and answers.
    cubepi::FauxStep seen(Seen& seen, cubepi::AssistantMessage answer) {
        return cubepi::FauxStep([&seen, answer](const cubepi::ModelRequest& request) {
            seen = Seen();
            for (const cubepi::Message& message : request.messages)
                seen.texts.push_back(message.text());
            if (request.tools) {
                for (const cubepi::ToolDefinition& tool : *request.tools)
                    seen.tools.push_back(tool.name.str());
            }
            seen.system_prompt = request.system_prompt.str();
            seen.model = request.model.id;
            return answer;
        });
    }
    /// The parent calls a sub-agent, which answers; the parent then says "done".
    Seen play(JsonObject arguments, std::string answer = "the answer") {
        Seen asked;
        std::vector<cubepi::FauxStep> steps;
        steps.emplace_back(calling("subagent", std::move(arguments)));
        steps.push_back(seen(asked, faux_assistant_message(std::move(answer))));
        steps.push_back(seen(parent, faux_assistant_message("done")));
        add_builtin(std::move(steps));
        EXPECT_EQ(say("do it").model_output, "done");
        return asked;
    }
    std::size_t tapes() {
        return cubepi::run(cubepi::run(framework->tape_store())->all_tapes()).size();
    }

    Seen parent;  ///< its second request
};

TEST_F(Subagent, KnowsNothingOfTheConversationAndLeavesNoTape) {
    const Seen asked = play(task("count the files"));
    EXPECT_TRUE(asked.has("count the files"));
    EXPECT_FALSE(asked.has("do it"));
    EXPECT_TRUE(parent.has("the answer"));
    EXPECT_EQ(tapes(), 1u);
}

TEST_F(Subagent, HasNoAgentsOfItsOwn) {
    const Seen asked = play(task("go"));
    EXPECT_FALSE(asked.offers("subagent"));
    EXPECT_TRUE(asked.offers("tape_info"));
    EXPECT_TRUE(parent.offers("subagent"));
}

TEST_F(Subagent, ContinuesANamedConversation) {
    Seen second;
    std::vector<cubepi::FauxStep> steps;
    for (int i = 0; i < 2; ++i) {
        steps.emplace_back(calling("subagent", task("part " + std::to_string(i), "research")));
        steps.push_back(seen(second, faux_assistant_message("result " + std::to_string(i))));
        steps.emplace_back(faux_assistant_message("done"));
    }
    add_builtin(std::move(steps));
    (void)say("first");
    (void)say("second");
    EXPECT_TRUE(second.has("part 0"));
    EXPECT_TRUE(second.has("result 0"));
    EXPECT_FALSE(second.has("first"));
    EXPECT_EQ(count(tape("research"), entry_kind::message), 4u);
}

TEST_F(Subagent, ThatInheritsSeesTheTurnInProgress) {
    const Seen asked = play(task("summarise", "inherit"));
    EXPECT_TRUE(asked.has("do it")) << "part of the turn that is not merged yet";
    EXPECT_TRUE(asked.has("summarise"));
    EXPECT_FALSE(asked.offers("tape_handoff"));
}

TEST_F(Subagent, D1_WhatAnInheritingOneSaysComesBehindTheTurn) {
    (void)play(task("summarise", "inherit"));
    std::vector<std::string> texts;
    for (const TapeEntry& entry : tape("cli:chat")) {
        const Json* content = entry.payload.if_contains("content");
        if (entry.kind == entry_kind::message) texts.emplace_back(content->as_string());
    }
    const std::vector<std::string> order = {"do it", "done", "summarise", "the answer"};
    EXPECT_EQ(texts, order);
    Seen next;
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(seen(next, faux_assistant_message("ok")));
    faux.set_responses(std::move(steps));
    (void)say("and now?");
    EXPECT_TRUE(next.has("the answer"));
}

class SubagentOf : public Subagent, public testing::WithParamInterface<std::string> {};

TEST_P(SubagentOf, LeavesTheMessagesForItsParentAlone) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(calling("subagent", task("go", GetParam())));
    steps.emplace_back([this](const cubepi::ModelRequest&) -> Task<cubepi::AssistantMessage> {
        const auto inbox = co_await framework->steering_inbox();
        inbox->enqueue("cli:chat", Envelope("hurry up"));
        co_return faux_assistant_message("the answer");
    });
    steps.push_back(seen(parent, faux_assistant_message("done")));
    add_builtin(std::move(steps));
    EXPECT_EQ(say("do it").model_output, "done");
    EXPECT_TRUE(parent.has("hurry up")) << "the parent is told, in its next step";
}

INSTANTIATE_TEST_SUITE_P(Subagent, SubagentOf, testing::Values("temp", "inherit", "named"));

TEST_F(Subagent, MayUseOnlyTheToolsThatItIsAllowed) {
    JsonObject arguments = task("go");
    arguments["allowed_tools"] = JsonArray{" Tape.Info ", "fs.read"};
    const Seen asked = play(std::move(arguments));
    EXPECT_EQ(asked.tools, (std::vector<std::string>{"read", "tape_info"}));
}

TEST_F(Subagent, UnknownToolsAreNamedInTheError) {
    JsonObject arguments = task("go");
    arguments["allowed_tools"] = JsonArray{"read", "teleport"};
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(calling("subagent", std::move(arguments)));
    steps.push_back(seen(parent, faux_assistant_message("done")));
    add_builtin(std::move(steps));
    (void)say("do it");
    ASSERT_FALSE(parent.texts.empty());
    EXPECT_NE(parent.texts.back().find("unknown tools in allowed_tools: teleport"),
              std::string::npos)
        << parent.texts.back();
}

TEST_F(Subagent, WhatItIsAllowedDoesNotBindItsParent) {
    for (const char* name : {"one", "two"}) {
        write(
            root / "work" / ".agents" / "skills" / name / "SKILL.md",
            "---\nname: " + std::string(name) + "\ndescription: Skill " + name + ".\n---\nBody.\n");
    }
    JsonObject arguments = task("go");
    arguments["allowed_skills"] = JsonArray{"One"};
    arguments["allowed_tools"] = JsonArray{"skill"};
    Seen first;
    Seen shown;
    JsonObject two;
    two["name"] = "two";
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(calling("subagent", std::move(arguments)));
    steps.push_back(seen(first, calling("skill", two, "s1")));
    steps.push_back(seen(shown, faux_assistant_message("the answer")));
    steps.push_back(seen(parent, calling("skill", two, "s2")));
    steps.push_back(seen(parent, faux_assistant_message("done")));
    add_builtin(std::move(steps));
    EXPECT_EQ(say("do it").model_output, "done");
    EXPECT_NE(first.system_prompt.find("Skill one."), std::string::npos);
    EXPECT_EQ(first.system_prompt.find("Skill two."), std::string::npos);
    EXPECT_EQ(shown.texts.back(), "(the skill two is not allowed here)");
    EXPECT_NE(parent.texts.back().find("Body."), std::string::npos) << parent.texts.back();
    EXPECT_TRUE(parent.offers("tape_info"));
}

TEST_F(Subagent, MayAskAnotherModel) {
    JsonObject arguments = task("go");
    arguments["model"] = "small-one";
    EXPECT_EQ(play(std::move(arguments)).model, "small-one");
    EXPECT_EQ(parent.model, "scripted");
}

TEST_F(Subagent, B11_ItsPromptIsNeverACommand) {
    const Seen asked = play(task(",tape.reset"));
    EXPECT_TRUE(asked.has(",tape.reset"));
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "command"), 0u);
}

TEST_F(Subagent, TakesContentPartsToo) {
    JsonObject part;
    part["type"] = "text";
    part["text"] = "in parts";
    JsonObject arguments;
    arguments["prompt"] = JsonArray{part};
    EXPECT_TRUE(play(std::move(arguments)).has("in parts"));
}

TEST_F(Subagent, ThatFailsIsAnErrorResultForTheParent) {
    cubepi::ErrorInfo info;
    info.code = cubepi::ErrorCode::bad_request;
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(calling("subagent", task("go")));
    steps.emplace_back(cubepi::faux_failure("no such model", info));
    steps.push_back(seen(parent, faux_assistant_message("done")));
    add_builtin(std::move(steps));
    EXPECT_EQ(say("do it").model_output, "done");
    EXPECT_NE(parent.texts.back().find("[Error: "), std::string::npos) << parent.texts.back();
}

TEST_F(Subagent, CanBeAskedForByAnOperator) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(faux_assistant_message("the answer"));
    add_builtin(std::move(steps));
    EXPECT_EQ(say(",subagent 'count the files'").model_output, "the answer");
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::message), 0u);
}

}  // namespace
}  // namespace bub
