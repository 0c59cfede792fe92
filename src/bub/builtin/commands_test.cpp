// Comma commands, among them ,quit, with which an operator ends all activity of a session.

#include <signal.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/builtin/builtin_test_support.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/channel/turn_shards.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_entry.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/faux.hpp>

namespace bub {
namespace {

using test::calling;

class Commands : public test::Builtin {
protected:
    std::string command(std::string line) { return say(std::move(line)).model_output; }
};

TEST_F(Commands, BubCommandNames_TakeArgumentsOfBub) {
    add_builtin({});
    write(root / "work" / "a.txt", "one\ntwo\nthree\n");
    EXPECT_NE(command(",fs.read a.txt offset=1 limit=1").find("two"), std::string::npos);
    EXPECT_EQ(command(",fs.read a.txt 1 1").find("three"), std::string::npos);
    (void)command(",fs.write b.txt content='x y'");
    (void)command(",fs.edit b.txt old=x new=z");
    EXPECT_NE(command(",fs.read b.txt").find("z y"), std::string::npos);
    EXPECT_EQ(command(",bash cmd='echo hi'"), "hi");
    EXPECT_EQ(command(",bash 'echo hi' " + (root / "work").string()), "hi");
}

TEST_F(Commands, BackgroundCommands_AreReadAndKilled) {
    add_builtin({});
    const std::string started = command(",bash cmd='echo ready; sleep 60' background=true");
    ASSERT_NE(started.find(" as sh1."), std::string::npos) << started;
    const std::string id = "sh1";
    EXPECT_NE(command(",bash.output shell_id=" + id).find("running"), std::string::npos);
    EXPECT_FALSE(command(",bash.kill shell_id=" + id).empty());
}

TEST_F(Commands, TapeInfo_HasSevenLines) {
    add_builtin({});
    const std::string text = command(",tape.info");
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
    for (const char* line : {"\nentries: ", "\nanchors: 1", "\nlast_anchor: session/start",
                             "\nentries_since_last_anchor: ", "\nlast_token_usage: None",
                             "\nlast_token_cache_hit_rate: None"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line;
    }
}

TEST_F(Commands, TapeSearch_OmitsItsOwnResults) {
    std::vector<cubepi::FauxStep> steps;
    JsonObject query;
    query["query"] = "blue";
    steps.emplace_back(calling("tape_search", query));
    steps.emplace_back(faux_assistant_message("it was blue"));
    add_builtin(std::move(steps));
    (void)say("which colour, blue or red?");
    const std::string found = command(",tape.search blue");
    EXPECT_TRUE(found.starts_with("[tape.search]: 2 matches (1 filtered)\n")) << found;
}

TEST_F(Commands, MissingArguments_TakeTheirDefaults) {
    add_builtin({});
    EXPECT_EQ(command(",tape.handoff"), "anchor added: handoff");
    EXPECT_EQ(command(",tape.anchors"), "- session/start\n- handoff");
}

TEST_F(Commands, TapeResetWithoutOperatorPrompt_NeedsExplicitArgument) {
    add_builtin({});
    (void)command(",tape.handoff");
    try {
        (void)say(",tape.reset");
        ADD_FAILURE() << "reset without consent";
    } catch (const cubepi::Error& error) {
        EXPECT_NE(std::string(error.what()).find("run ,tape_reset archive=true"), std::string::npos)
            << error.what();
    }
    EXPECT_EQ(command(",tape.anchors"), "- session/start\n- handoff");
    EXPECT_TRUE(command(",tape.reset archive=false").starts_with("Removed ")) << "says what it did";
    EXPECT_EQ(command(",tape.anchors"), "- session/start");
}

TEST_F(Commands, TapeReset_AsksAndArchives) {
    bool agree = false;
    std::vector<std::string> asked;
    BuiltinOptions options;
    options.confirm_command = [&](CommandQuestion question) -> Task<bool> {
        asked.push_back(question.effect);
        co_return agree;
    };
    add_builtin({}, std::move(options));
    (void)command(",tape.handoff");
    EXPECT_EQ(command(",tape.reset"), "Not run.");
    EXPECT_EQ(command(",tape.anchors"), "- session/start\n- handoff");
    agree = true;
    EXPECT_TRUE(command(",tape.reset").starts_with("Archived: "));
    ASSERT_EQ(asked.size(), 2u);
    EXPECT_NE(asked[0].find("archives and removes the "), std::string::npos) << asked[0];
    (void)command(",tape.reset archive=true");
    EXPECT_EQ(asked.size(), 2u) << "an explicit archive destroys nothing";
    (void)command(",tape.reset archive=false");
    EXPECT_EQ(asked.size(), 3u);
}

TEST_F(Commands, PastedShellCommands_NeedConsent) {
    bool agree = false;
    std::vector<std::string> asked;
    BuiltinOptions options;
    options.confirm_command = [&](CommandQuestion question) -> Task<bool> {
        asked.push_back(question.effect);
        co_return agree;
    };
    add_builtin({}, std::move(options));
    const auto paste = [this](std::string text) {
        Envelope inbound = Envelope(std::move(text)).on("cli", "chat").with(pasted_key, true);
        return cubepi::run(framework->process_inbound(std::move(inbound))).model_output;
    };
    EXPECT_EQ(paste(",touch made"), "Not run.");
    EXPECT_EQ(paste(",!touch made"), "Not run.");
    EXPECT_FALSE(std::filesystem::exists(root / "work" / "made"));
    ASSERT_EQ(asked.size(), 2u);
    EXPECT_NE(asked[0].find("touch made"), std::string::npos) << asked[0];
    agree = true;
    EXPECT_EQ(paste(",echo hi"), "hi");
    EXPECT_EQ(asked.size(), 3u);
    (void)paste(",tape.info");
    EXPECT_EQ(asked.size(), 3u) << "known commands are not asked about";
    EXPECT_EQ(command(",echo typed"), "typed");
    EXPECT_EQ(asked.size(), 3u);
}

TEST_F(Commands, PastedShellCommandsWithoutUser_DoNotRun) {
    add_builtin({});
    Envelope inbound = Envelope(",touch made").on("cli", "chat").with(pasted_key, true);
    EXPECT_THROW(cubepi::run(framework->process_inbound(std::move(inbound))), cubepi::Error);
    EXPECT_FALSE(std::filesystem::exists(root / "work" / "made"));
}

TEST_F(Commands, BangOutput_ReachesModelWithNextPrompt) {
    std::vector<std::string> seen;
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back([&seen](const cubepi::ModelRequest& request) {
        for (const cubepi::Message& message : request.messages) seen.push_back(message.text());
        return faux_assistant_message("seen");
    });
    add_builtin(std::move(steps));
    EXPECT_EQ(command(",!echo some output"), "some output");
    const std::string failed = command(",! ls no-such-file");
    EXPECT_NE(failed.find("[exit code "), std::string::npos) << failed;
    (void)say("what did that print?");
    std::string all;
    for (const std::string& text : seen) all += text + "\n--\n";
    EXPECT_NE(all.find("$ echo some output\nsome output"), std::string::npos) << all;
    EXPECT_NE(all.find("$ ls no-such-file\n"), std::string::npos) << all;
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "command"), 2u);
}

TEST_F(Commands, OutputForTheModel_IsBounded) {
    add_builtin({});
    const std::string output = command(",!head -c 200000 /dev/zero | tr '\\0' x");
    EXPECT_LT(output.size(), 40000u);
    EXPECT_NE(output.find(" bytes left out]"), std::string::npos);
}

TEST_F(Commands, TapeReset_ArchivesTheTapeAndItsSidecars) {
    add_builtin({});
    (void)command(",echo something");
    const std::string output = command(",tape.reset archive=true");
    ASSERT_TRUE(output.starts_with("Archived: ")) << output;
    EXPECT_TRUE(std::filesystem::exists(output.substr(10)));
    const std::vector<TapeEntry> entries = tape("cli:chat");
    ASSERT_EQ(count(entries, entry_kind::anchor), 1u);
    EXPECT_EQ(entries[0].payload.at("state").as_object().at("archived"), Json(output.substr(10)));
    EXPECT_EQ(count(entries, entry_kind::event, "sidecar.reset"), 1u);
    EXPECT_EQ(count(entries, entry_kind::event, "command"), 1u);
}

TEST_F(Commands, B9_RunCommand_IsOnTheTapeAsTurn) {
    add_builtin({});
    EXPECT_THROW(say(",exit 3"), cubepi::Error);
    const std::vector<TapeEntry> entries = tape("cli:chat");
    EXPECT_EQ(count(entries, entry_kind::event, "command"), 1u);
    ASSERT_EQ(count(entries, entry_kind::event, "turn"), 1u);
    EXPECT_EQ(entries.back().payload.at("data").as_object().at("status"), Json("error"));
}

TEST_F(Commands, CommandsInTemporarySession_LeaveNoFiles) {
    add_builtin({});
    Envelope inbound = Envelope(",echo hi").on("cli", "chat");
    inbound.session_id = "temp/1";
    EXPECT_EQ(cubepi::run(framework->process_inbound(std::move(inbound))).model_output, "hi");
    EXPECT_TRUE(tape("temp/1").empty());
}

TEST_F(Commands, SkillCommand_ShowsOneOrListsAll) {
    write(root / "work" / ".agents" / "skills" / "map" / "SKILL.md",
          "---\nname: map\ndescription: Draws.\n---\nDo this.\n");
    add_builtin({});
    EXPECT_EQ(command(",skill"), "- map: Draws.");
    EXPECT_NE(command(",skill map").find("---\nDo this."), std::string::npos);
    EXPECT_EQ(command(",skill nothing"), "(no such skill)");
}

TEST_F(Commands, ReasoningEffort_IsValidatedAndSaved) {
    add_builtin({});
    EXPECT_EQ(command(",reasoning_effort"),
              "Reasoning effort: default; it is one of default, minimal, low, medium, high, max.");
    EXPECT_EQ(command(",reasoning_effort high"),
              "Session reasoning effort set to high (applies from the next turn).");
    EXPECT_EQ(command(",reasoning_effort").substr(0, 23), "Reasoning effort: high;");
    EXPECT_THROW(say(",reasoning_effort enormous"), cubepi::Error);
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "reasoning_effort_switch"), 1u);
}

TEST_F(Commands, PluginCommands_AreToolsOfTheirName) {
    add_builtin({});
    Plugin plugin;
    plugin.name = "more";
    struct Text {
        std::string text;
    };
    plugin.tools.push_back(
        cubepi::tool<Text>("shout", "Says it louder.", [](Text args) { return args.text + "!"; }));
    framework->add(std::move(plugin));
    EXPECT_EQ(command(",shout hello"), "hello!");
}

class ToolNames : public test::Builtin {
protected:
    /// Returns the tool result that the model sees.
    std::string told(std::string tool, JsonObject arguments = {}) {
        std::string text;
        std::vector<cubepi::FauxStep> steps;
        steps.emplace_back(calling(std::move(tool), std::move(arguments)));
        steps.emplace_back([&text](const cubepi::ModelRequest& request) {
            text = request.messages.back().text();
            return faux_assistant_message("ok");
        });
        add_builtin(std::move(steps));
        (void)say("go");
        return text;
    }
};

TEST_F(ToolNames, UnknownToolName_IsAnsweredWithSimilarNames) {
    const std::string text = told("tape_serch");
    EXPECT_TRUE(text.starts_with("There is no tool named 'tape_serch'. Did you mean 'tape_search'"))
        << text;
}

TEST_F(ToolNames, ToolWithCapitals_IsFoundByItsName) {
    extra_tools.push_back(cubepi::AgentTool(
        "mcp__GitHub__getIssue", "Reads an issue.", cubepi::AgentTool::no_parameters(),
        [](JsonObject, cubepi::ToolContext&) { return cubepi::AgentToolResult("issue 7"); }));
    EXPECT_EQ(told("mcp__GitHub__getIssue"), "issue 7");
}

TEST_F(ToolNames, NameUnlikeAnyTool_IsAnsweredWithSkills) {
    const std::string text = told("xylophone");
    EXPECT_TRUE(
        text.starts_with("There is no tool named 'xylophone'. No other has a name like it."))
        << text;
    EXPECT_NE(text.find("skill"), std::string::npos);
}

TEST_F(ToolNames, NameWithNamespace_IsFound) {
    EXPECT_TRUE(told("functions.tape_info").starts_with("name: "));
}

TEST_F(ToolNames, ToolNamedLikeNamespace_IsFound) {
    extra_tools.push_back(cubepi::AgentTool(
        "functions_list", "Lists functions.", cubepi::AgentTool::no_parameters(),
        [](JsonObject, cubepi::ToolContext&) { return cubepi::AgentToolResult("f, g"); }));
    EXPECT_EQ(told("functions_List"), "f, g");
}

TEST_F(ToolNames, BubToolNames_TakeArgumentsOfBub) {
    JsonObject arguments;
    arguments["cmd"] = "echo from Bub";
    EXPECT_NE(told("bash", std::move(arguments)).find("from Bub"), std::string::npos);
}

TEST_F(ToolNames, D73_ToolNamedLikeAlias_IsNotTheShell) {
    extra_tools.push_back(cubepi::AgentTool(
        "bash", "Asks a client.", cubepi::AgentTool::no_parameters(),
        [](JsonObject, cubepi::ToolContext&) { return cubepi::AgentToolResult("theirs"); }));
    for (const char* const name : {"bash", "Bash", "functions.bash", "functions_BASH"}) {
        make_framework(FrameworkOptions());
        EXPECT_EQ(told(name, {{"cmd", "touch here"}}), "theirs") << name;
    }
    EXPECT_FALSE(std::filesystem::exists(root / "work" / "here"));
}

TEST_F(ToolNames, D73_NameInTwoCases_IsNotGuessed) {
    for (const char* const name : {"bash", "Bash"}) {
        extra_tools.push_back(cubepi::AgentTool(
            name, "Asks a client.", cubepi::AgentTool::no_parameters(),
            [](JsonObject, cubepi::ToolContext&) { return cubepi::AgentToolResult("theirs"); }));
    }
    const std::string text = told("BASH", {{"cmd", "touch here"}});
    EXPECT_TRUE(text.starts_with("There is no tool named 'BASH'. Did you mean 'Bash' or 'bash'"))
        << text;
    EXPECT_FALSE(std::filesystem::exists(root / "work" / "here"));
}

TEST_F(ToolNames, B11_OperatorCommands_AreNotForModels) {
    JsonObject arguments;
    arguments["model_id"] = "expensive";
    const std::string text = told("model", std::move(arguments));
    EXPECT_TRUE(text.starts_with("There is no tool named 'model'.")) << text;
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "model_switch"), 0u);
}

TEST_F(ToolNames, D47_EmptyingATape_IsForUsersOnly) {
    EXPECT_TRUE(told("tape_reset").starts_with("There is no tool named 'tape_reset'."));
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::message), 2u);
}

TEST_F(Commands, TapeSearch_TakesOneDateAlone) {
    add_builtin({});
    (void)command(",tape.handoff x");
    const auto store = cubepi::run(framework->tape_store());
    TapeEntry output = message_entry("user", "blue");
    const Tape session(store, tape_name(framework->workspace(), "cli:chat"));
    (void)cubepi::run(session.append(std::move(output)));
    EXPECT_TRUE(command(",tape.search blue start=2020-01-01").starts_with("[tape.search]: 1 "));
    EXPECT_TRUE(command(",tape.search blue end=2020-01-01").starts_with("[tape.search]: 0 "));
}

class Desk final : public Channel {
public:
    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token) override { co_return; }
    Task<> stop() override { co_return; }
    Task<> send(Envelope message) override {
        sent.push_back(message.chat_id.value_or("") + ": " + message.content_text());
        co_return;
    }

    std::vector<std::string> sent;

private:
    const std::string name_ = "desk";
};

Envelope from_operator(const std::string& chat, const std::string& text) {
    Envelope message(text);
    message.channel = "desk";
    message.chat_id = chat;
    message.from_operator = true;
    return message;
}

class Quit : public testing::Test {
public:
    Quit() {
        std::string name = (std::filesystem::temp_directory_path() / "bub-quit-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no directory for temporary files");
        root = name;
        FrameworkOptions options;
        options.workspace = root;
        framework = std::make_unique<Framework>(std::move(options));
        BuiltinOptions builtin;
        builtin.model = faux.model("scripted");
        builtin.tape_store = std::make_shared<MemoryTapeStore>();
        builtin.with_user_skills = false;
        builtin.channels = [this](ProvideChannelsCall& call) {
            handler = call.handler;
            std::vector<std::shared_ptr<Channel>> all{desk};
            return all;
        };
        framework->add(builtin_plugin(*framework, std::move(builtin)));
        manager = std::make_unique<ChannelManager>(*framework);
    }
    ~Quit() override {
        manager.reset();
        framework.reset();
        std::error_code ignored;
        std::filesystem::remove_all(root, ignored);
    }

    /// Waits, without a limit of its own, until the file of a command exists.
    Task<> until_exists(std::string file) {
        while (!std::filesystem::exists(root / file)) co_await cubepi::yield_now();
    }

    Task<> act(std::function<Task<>(Quit&)> script) {
        co_await script(*this);
        manager->request_stop();
    }
    Task<> together(std::function<Task<>(Quit&)> script) {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(manager->run());
        scope.spawn(act(std::move(script)));
        co_await scope.join();
    }
    void run(std::function<Task<>(Quit&)> script) { cubepi::run(together(std::move(script))); }

    std::filesystem::path root;
    cubepi::FauxProvider faux;
    std::shared_ptr<Desk> desk = std::make_shared<Desk>();
    std::unique_ptr<Framework> framework;
    std::unique_ptr<ChannelManager> manager;
    MessageHandler handler;
};

TEST_F(Quit, Quit_StopsRunningAndWaitingTurnsWithNotice) {
    run([](Quit& t) -> Task<> {
        co_await t.handler(from_operator("1", ",touch begun; sleep 1000; touch slept"));
        co_await t.handler(from_operator("1", ",touch waited"));
        co_await t.until_exists("begun");
        co_await t.handler(from_operator("1", ", quit "));
        co_await t.manager->idle();
    });
    EXPECT_EQ(desk->sent, std::vector<std::string>{"1: Session tasks stopped."});
    EXPECT_FALSE(std::filesystem::exists(root / "waited"));
}

TEST_F(Quit, Quit_KillsTheCommandsInTheBackground) {
    run([](Quit& t) -> Task<> {
        const std::string command = "echo $$ > pid; touch begun; exec sleep 1000";
        co_await t.handler(from_operator("1", ",shell command='" + command + "' background=true"));
        co_await t.until_exists("begun");
        pid_t pid = 0;
        std::ifstream(t.root / "pid") >> pid;
        EXPECT_EQ(kill(pid, 0), 0);
        co_await t.handler(from_operator("1", ",quit"));
        co_await t.manager->idle();
        while (kill(pid, 0) == 0) co_await cubepi::yield_now();
    });
    EXPECT_EQ(desk->sent.back(), "1: Session tasks stopped.");
}

TEST_F(Quit, EndOfManager_EndsBackgroundCommandsOnThreads) {
    const auto make = [this] {
        FrameworkOptions options;
        options.workspace = root;
        auto made = std::make_unique<Framework>(std::move(options));
        BuiltinOptions builtin;
        builtin.model = faux.model("scripted");
        builtin.tape_store = std::make_shared<MemoryTapeStore>();
        builtin.with_user_skills = false;
        made->add(builtin_plugin(*made, std::move(builtin)));
        return made;
    };
    ChannelManagerOptions options;
    options.shards = std::make_shared<TurnShards>(2, make);
    manager.reset();
    manager = std::make_unique<ChannelManager>(*framework, std::move(options));
    run([](Quit& t) -> Task<> {
        co_await t.manager->started();
        const std::string command = "echo $$ > pid; touch begun; exec sleep 1000";
        co_await t.handler(from_operator("1", ",shell command='" + command + "' background=true"));
        co_await t.until_exists("begun");
        co_await t.manager->idle();
    });
    pid_t pid = 0;
    std::ifstream(root / "pid") >> pid;
    ASSERT_GT(pid, 0);
    manager.reset();  // waits for the threads
    while (kill(pid, 0) == 0) std::this_thread::yield();
}

TEST_F(Quit, Quit_LeavesOtherSessionsAlone) {
    run([](Quit& t) -> Task<> {
        co_await t.handler(
            from_operator("2", ",touch other; while [ ! -e go ]; do sleep 0.02; done; echo done"));
        co_await t.until_exists("other");
        co_await t.handler(from_operator("1", ",quit"));
        while (t.desk->sent.empty()) co_await cubepi::yield_now();
        EXPECT_TRUE(t.manager->snapshot("desk:2").is_running);
        std::ofstream(t.root / "go") << "now";
        co_await t.manager->idle();
    });
    const std::vector<std::string> expected = {"1: Session tasks stopped.", "2: done"};
    EXPECT_EQ(desk->sent, expected);
}

TEST_F(Quit, B11_OtherSender_EndsNothing) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back("what do you mean by quit?");
    faux.set_responses(std::move(steps));
    run([](Quit& t) -> Task<> {
        co_await t.handler(
            from_operator("1", ",touch begun; while [ ! -e go ]; do sleep 0.02; done; echo done"));
        co_await t.until_exists("begun");
        Envelope stranger = from_operator("1", ",quit");
        stranger.from_operator = false;
        co_await t.handler(std::move(stranger));
        std::ofstream(t.root / "go") << "now";
        co_await t.manager->idle();
    });
    const std::vector<std::string> expected = {"1: done", "1: what do you mean by quit?"};
    EXPECT_EQ(desk->sent, expected);
}

}  // namespace
}  // namespace bub
