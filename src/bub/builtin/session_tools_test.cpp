// Tools of a session that have tests of their own: results too long for the model, and sub-agents.

#include <gtest/gtest.h>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_entry.hpp>

namespace bub {
namespace {

using test::calling;

class Spill : public test::Builtin {
protected:
    struct NoArgs {};

    /// Adds a tool whose result is too long, with a marker in its middle.
    void offer_long_text() {
        extra_tools.push_back(cubepi::tool<NoArgs>("long_text", "Says a lot.", [](NoArgs) {
            std::string text;
            for (int line = 1; line <= 40'000; ++line) {
                text += line == 20'000 ? "the needle\n" : "a line of hay\n";
            }
            return text;
        }));
    }
    std::string tool_output(std::string tool, JsonObject arguments) {
        std::string text;
        std::vector<cubepi::FauxStep> steps;
        steps.emplace_back(calling(std::move(tool), std::move(arguments)));
        steps.emplace_back([&text](const cubepi::ModelRequest& request) {
            text = request.messages.back().text();
            return faux_assistant_message("ok");
        });
        faux.set_responses(std::move(steps));
        EXPECT_EQ(say("go").model_output, "ok");
        return text;
    }
    static std::string path_in(const std::string& text, const std::string& directory) {
        const std::size_t at = text.find(directory);
        return at == std::string::npos ? std::string()
                                       : text.substr(at, text.find(".txt", at) + 4 - at);
    }
    JsonObject the_needle(std::string path) {
        JsonObject arguments;
        arguments["path"] = std::move(path);
        arguments["start_line"] = 20'000;
        arguments["line_count"] = 1;
        return arguments;
    }
};

/// The notes of the tool memory (D123), and turns that repeat their calls (D121).
class TurnLimits : public Spill {
protected:
    /// Creates a note in the session of channel "a" and returns what that of `reader` sees of it.
    std::string note_seen_by(const std::string& reader, MemoryScope scope) {
        BuiltinOptions options;
        options.memory = scope;
        std::vector<cubepi::FauxStep> steps;
        steps.emplace_back(calling(
            "memory",
            JsonObject{{"command", "create"}, {"path", "/memories/n"}, {"file_text", "the note"}}));
        steps.emplace_back("noted");
        std::string text;
        steps.emplace_back(
            calling("memory", JsonObject{{"command", "view"}, {"path", "/memories/n"}}));
        steps.emplace_back([&text](const cubepi::ModelRequest& request) {
            text = request.messages.back().text();
            return faux_assistant_message("ok");
        });
        add_builtin(std::move(steps), std::move(options));
        EXPECT_EQ(say("note it", "a").model_output, "noted");
        EXPECT_EQ(say("read it", reader).model_output, "ok");
        return text;
    }
};

TEST_F(TurnLimits, D123_NoteOfSession_IsItsOwn) {
    EXPECT_NE(note_seen_by("a", MemoryScope::session).find("the note"), std::string::npos);
    make_framework(FrameworkOptions());
    std::filesystem::remove_all(root / "home" / "memory");
    EXPECT_NE(note_seen_by("b", MemoryScope::session).find("there is no /memories/n"),
              std::string::npos);
}

TEST_F(TurnLimits, D123_NoteOfWorkspace_IsSharedBySessions) {
    EXPECT_NE(note_seen_by("b", MemoryScope::workspace).find("the note"), std::string::npos);
}

TEST_F(TurnLimits, D121_TurnAndSubagentThatRepeat_AreEnded) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(calling("subagent", JsonObject{{"prompt", "go"}}));
    for (int i = 0; i < 10; ++i) steps.emplace_back(calling("tape_anchors"));
    std::string told;
    steps.emplace_back([&told](const cubepi::ModelRequest& request) {
        told = request.messages.back().text();
        return calling("tape_anchors");
    });
    for (int i = 0; i < 20; ++i) steps.emplace_back(calling("tape_anchors"));
    add_builtin(std::move(steps));
    (void)say("go");
    EXPECT_NE(told.find("max_repeated_calls (10)"), std::string::npos) << told;
    EXPECT_EQ(faux.call_count(), 21u) << "ten of the sub-agent, and of the turn ten after its call";
}

TEST_F(Spill, LongResult_IsReadableLaterAndAfterRestart) {
    offer_long_text();
    add_builtin({});
    const std::string shown = tool_output("long_text", JsonObject());
    EXPECT_EQ(shown.find("the needle"), std::string::npos);
    const std::string path = path_in(shown, (root / "home" / "spill").string());
    ASSERT_FALSE(path.empty()) << shown.substr(0, 200);
    EXPECT_NE(tool_output("read", the_needle(path)).find("the needle"), std::string::npos);

    FrameworkOptions options;
    options.workspace = root / "work";
    framework = std::make_unique<Framework>(std::move(options));
    add_builtin({});
    EXPECT_NE(tool_output("read", the_needle(path)).find("the needle"), std::string::npos);
}

TEST_F(Spill, SpillOfOneWorkspace_IsUnreadableFromAnother) {
    offer_long_text();
    add_builtin({});
    const std::string shown = tool_output("long_text", JsonObject());
    const std::string path = path_in(shown, (root / "home" / "spill").string());
    ASSERT_FALSE(path.empty()) << shown.substr(0, 200);
    FrameworkOptions options;
    std::filesystem::create_directories(root / "other");
    options.workspace = root / "other";
    framework = std::make_unique<Framework>(std::move(options));
    add_builtin({});
    EXPECT_EQ(tool_output("read", the_needle(path)).find("the needle"), std::string::npos);
}

TEST_F(Spill, ConversationAfterRestart_StillNamesTheSpill) {
    offer_long_text();
    add_builtin({});
    const std::string shown = tool_output("long_text", JsonObject());
    const std::string path = path_in(shown, (root / "home" / "spill").string());
    FrameworkOptions options;
    options.workspace = root / "work";
    framework = std::make_unique<Framework>(std::move(options));
    add_builtin({});
    bool told = false;
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back([&](const cubepi::ModelRequest& request) {
        for (const cubepi::Message& message : request.messages)
            told = told || message.text().find(path) != std::string::npos;
        return faux_assistant_message("ok");
    });
    faux.set_responses(std::move(steps));
    (void)say("where was it?");
    EXPECT_TRUE(told);
}

TEST_F(Spill, SpillWithoutOwnDirectory_EndsWithTheProcess) {
    offer_long_text();
    write(root / "home", "a file in the directory's place");
    BuiltinOptions made;
    made.model = faux.model("scripted");
    made.home = root / "home";
    made.with_user_skills = false;
    made.tape_store = std::make_shared<MemoryTapeStore>();
    made.tools = extra_tools;
    framework->add(builtin_plugin(*framework, std::move(made)));
    const std::string shown = tool_output("long_text", JsonObject());
    EXPECT_NE(shown.find("The whole text is in "), std::string::npos);
}

TEST_F(Spill, BubSpill_IsReadFromTheSidecarTape) {
    add_builtin({});
    (void)say(",help");
    const auto store = cubepi::run(framework->tape_store());
    const std::string owner = tape_name(framework->workspace(), "cli:chat");
    const Tape sidecar(store, sidecar_tape_name(owner, "spill"));
    const std::string handle = "0123456789abcdef0123456789abcdef";
    for (int chunk = 0; chunk < 3; ++chunk) {
        cubepi::run(
            sidecar.append(anchor_entry("spill/" + handle + "/chunk/" + std::to_string(chunk))));
        JsonObject payload;
        payload["results"] = JsonArray{"part " + std::to_string(chunk) + "; "};
        cubepi::run(sidecar.append(tape_entry("tool_result", std::move(payload))));
    }
    JsonObject manifest;
    manifest["handle"] = handle;
    manifest["chunks"] = 3;
    manifest["bytes"] = 24;
    cubepi::run(sidecar.append(anchor_entry("spill/" + handle + "/manifest")));
    cubepi::run(sidecar.append(event_entry("spill.manifest", std::move(manifest))));
    JsonObject arguments;
    arguments["handle"] = handle;
    arguments["count"] = 2;
    const std::string first = tool_output("spill_read", arguments);
    EXPECT_NE(
        first.find("chunks: 0-1\nnext_cursor: 2\ncomplete: false\ncontent:\npart 0; part 1; "),
        std::string::npos)
        << first;
    arguments["cursor"] = 2;
    EXPECT_NE(tool_output("spill_read", arguments).find("complete: true\ncontent:\npart 2; "),
              std::string::npos);
    arguments["cursor"] = 0;
    arguments["count"] = 1;
    arguments["from_end"] = true;
    EXPECT_NE(say(",spill.read " + handle + " count=1 from_end=true").model_output.find("part 2; "),
              std::string::npos);
    arguments["handle"] = "nothing";
    EXPECT_EQ(tool_output("spill_read", arguments), "[no such spilled result: nothing]");
}

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

TEST_F(Subagent, Subagent_KnowsNoConversationAndLeavesNoTape) {
    const Seen asked = play(task("count the files"));
    EXPECT_TRUE(asked.has("count the files"));
    EXPECT_FALSE(asked.has("do it"));
    EXPECT_TRUE(parent.has("the answer"));
    EXPECT_EQ(tapes(), 1u);
}

TEST_F(Subagent, Subagent_HasNoSubagentsOfItsOwn) {
    const Seen asked = play(task("go"));
    EXPECT_FALSE(asked.offers("subagent"));
    EXPECT_TRUE(asked.offers("tape_info"));
    EXPECT_TRUE(parent.offers("subagent"));
}

TEST_F(Subagent, NamedConversation_IsContinued) {
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
    EXPECT_EQ(count(tape("cli:chat/agent/research"), entry_kind::message), 4u);
}

TEST_F(Subagent, InheritingSubagent_SeesTheTurnInProgress) {
    const Seen asked = play(task("summarise", "inherit"));
    EXPECT_TRUE(asked.has("do it")) << "part of the turn that is not merged yet";
    EXPECT_TRUE(asked.has("summarise"));
}

/// The prompt cache of the conversation serves both.
TEST_F(Subagent, D161_InheritingSubagent_SharesThePrefix) {
    std::vector<cubepi::FauxStep> steps;
    Seen first;
    Seen child;
    steps.push_back(seen(first, calling("subagent", task("summarise", "inherit"))));
    steps.emplace_back(calling("tape_handoff", JsonObject{{"name", "x"}}, "h1"));
    steps.emplace_back(calling("subagent", task("more", "inherit"), "s1"));
    steps.push_back(seen(child, faux_assistant_message("the answer")));
    steps.push_back(seen(parent, faux_assistant_message("done")));
    BuiltinOptions options;
    options.memory = MemoryScope::session;
    add_builtin(std::move(steps), std::move(options));
    EXPECT_EQ(say("do it").model_output, "done");
    EXPECT_TRUE(first.offers("memory"));
    EXPECT_EQ(child.tools, first.tools);
    EXPECT_EQ(child.system_prompt, first.system_prompt);
    EXPECT_EQ(parent.tools, first.tools);
    EXPECT_EQ(std::count_if(child.texts.begin(), child.texts.end(),
                            [](const std::string& text) {
                                return text.starts_with("a sub-agent cannot use this tool");
                            }),
              2);
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::anchor), 1u) << "no hand-off was made";
}

TEST_F(Subagent, D1_MessagesOfInheritingSubagent_FollowTheTurn) {
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

TEST_P(SubagentOf, MessagesForTheParent_AreLeftToIt) {
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

TEST_F(Subagent, AllowedTools_AreTheOnlyUsableOnes) {
    JsonObject arguments = task("go");
    arguments["allowed_tools"] = JsonArray{" Tape.Info ", "fs.read"};
    const Seen asked = play(std::move(arguments));
    EXPECT_EQ(asked.tools, (std::vector<std::string>{"read", "tape_info"}));
}

TEST_F(Subagent, UnknownTools_AreNamedInTheError) {
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

TEST_F(Subagent, AllowedTools_DoNotBindTheParent) {
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

TEST_F(Subagent, Subagent_MayAskAnotherModel) {
    JsonObject arguments = task("go");
    arguments["model"] = "small-one";
    EXPECT_EQ(play(std::move(arguments)).model, "small-one");
    EXPECT_EQ(parent.model, "scripted");
}

TEST_F(Subagent, D245_ModelOfASubagent_IsRestricted) {
    const auto result_of = [this](const std::string& model, const std::string& of_session = {}) {
        make_framework(FrameworkOptions());
        JsonObject arguments = task("go");
        arguments["model"] = model;
        std::vector<cubepi::FauxStep> steps;
        steps.emplace_back(calling("subagent", arguments));
        steps.push_back(seen(parent, faux_assistant_message("done")));
        steps.push_back(seen(parent, faux_assistant_message("done")));
        BuiltinOptions options;
        options.may_name_model = [](const std::string& id) { return id == "small"; };
        if (!of_session.empty())
            options.select_model = [of_session](const JsonObject&) { return of_session; };
        add_builtin(std::move(steps), std::move(options));
        (void)say("do it");
        return parent.texts.back();
    };
    EXPECT_EQ(result_of("dear"),
              "the model 'dear' is not one that sub-agents may have here; leave `model` out");
    for (const char* const model : {"small", "", "chosen"})
        EXPECT_EQ(result_of(model, "chosen"), "done") << model;
    // An operator may choose any.
    faux.set_responses({faux_assistant_message("done")});
    EXPECT_EQ(say(",subagent go model=dear").model_output, "done");
}

TEST_F(Subagent, B11_Prompt_IsNeverACommand) {
    const Seen asked = play(task(",tape.reset"));
    EXPECT_TRUE(asked.has(",tape.reset"));
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "command"), 0u);
}

TEST_F(Subagent, ContentParts_AreAccepted) {
    JsonObject part;
    part["type"] = "text";
    part["text"] = "in parts";
    JsonObject arguments;
    arguments["prompt"] = JsonArray{part};
    EXPECT_TRUE(play(std::move(arguments)).has("in parts"));
}

/// The endpoint of the model would fetch it, unseen by rules and hooks.
TEST_F(Subagent, D85_PictureByUrl_IsRefused) {
    const auto part = [](const Json& place) {
        return JsonObject{{"type", "image_url"}, {"image_url", place}};
    };
    for (const char* const url :
         {"http://169.254.169.254/latest", "HTTPS://example.org/?secret", "data:image/png,x", "",
          "data:image/png;base64,", "data:image/png;base64,http://169.254.169.254/"}) {
        for (const Json& place : {Json(JsonObject{{"url", url}}), Json(url)}) {
            make_framework(FrameworkOptions());
            std::vector<cubepi::FauxStep> steps;
            JsonObject arguments{{"prompt", JsonArray{part(place)}}};
            steps.emplace_back(calling("subagent", std::move(arguments)));
            steps.push_back(seen(parent, faux_assistant_message("done")));
            add_builtin(std::move(steps));
            EXPECT_EQ(say("do it").model_output, "done") << place;
            EXPECT_NE(parent.texts.back().find("not a data URL with base64"), std::string::npos)
                << place << parent.texts.back();
        }
    }
    make_framework(FrameworkOptions());
    JsonArray prompt{JsonObject{{"type", "text"}, {"text", "see"}},
                     part(JsonObject{{"url", "data:image/png;base64,AAAA"}})};
    EXPECT_TRUE(play({{"prompt", std::move(prompt)}}).has("see"));
}

TEST_F(Subagent, FailedSubagent_IsAnErrorForTheParent) {
    cubepi::ErrorInfo info;
    info.code = cubepi::ErrorCode::bad_request;
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(calling("subagent", task("go")));
    steps.emplace_back(cubepi::faux_failure("no such model", info));
    steps.push_back(seen(parent, faux_assistant_message("done")));
    add_builtin(std::move(steps));
    EXPECT_EQ(say("do it").model_output, "done");
    EXPECT_NE(parent.texts.back().find("[error: "), std::string::npos) << parent.texts.back();
}

TEST_F(Subagent, Operator_MayAskForASubagent) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(faux_assistant_message("the answer"));
    add_builtin(std::move(steps));
    EXPECT_EQ(say(",subagent 'count the files'").model_output, "the answer");
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::message), 0u);
}

}  // namespace
}  // namespace bub
