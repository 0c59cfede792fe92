#include <bub/builtin/builtin.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <bub/builtin/skills.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace bub {
namespace {

using cubepi::faux_assistant_message;
using cubepi::faux_tool_call;

/// A framework with the builtin plugin on a scripted model, and folders of its own.
class Builtin : public testing::Test {
protected:
    Builtin() {
        std::string name = (std::filesystem::temp_directory_path() / "bub-builtin-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no folder for temporary files");
        root = name;
        std::filesystem::create_directories(root / "work");
        FrameworkOptions options;
        options.workspace = root / "work";
        framework = std::make_unique<Framework>(std::move(options));
    }
    ~Builtin() override {
        framework.reset();
        std::error_code ignored;
        std::filesystem::remove_all(root, ignored);
    }

    void add_builtin(std::vector<cubepi::FauxStep> steps) {
        faux.set_responses(std::move(steps));
        BuiltinOptions options;
        options.model = faux.model("scripted");
        options.home = root / "home";
        options.with_user_skills = false;
        framework->add(builtin_plugin(*framework, std::move(options)));
    }

    TurnResult say(std::string text, std::string channel = "cli", bool streams = false) {
        Envelope inbound = Envelope(std::move(text)).on(std::move(channel), "room");
        return cubepi::run(framework->process_inbound(std::move(inbound), streams));
    }

    std::vector<TapeEntry> tape(const std::string& session) {
        const auto store = cubepi::run(framework->tape_store());
        return cubepi::run(store->fetch(tape_name(framework->workspace(), session), TapeQuery()));
    }

    static std::size_t count(const std::vector<TapeEntry>& entries, std::string_view kind,
                             std::string_view name = {}) {
        return static_cast<std::size_t>(
            std::count_if(entries.begin(), entries.end(), [&](const TapeEntry& entry) {
                return entry.kind == kind && (name.empty() || entry_name(entry) == name);
            }));
    }

    void write(const std::filesystem::path& file, std::string_view text) {
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }

    std::filesystem::path root;
    cubepi::FauxProvider faux;
    std::unique_ptr<Framework> framework;
};

std::vector<cubepi::FauxStep> two_steps() {
    std::vector<cubepi::AssistantContent> first;
    first.emplace_back(cubepi::faux_text("let me see"));
    first.emplace_back(faux_tool_call("tape_info", {}, "c1"));
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(faux_assistant_message(std::move(first), cubepi::stop_reason::tool_use));
    steps.emplace_back(faux_assistant_message("done"));
    return steps;
}

TEST_F(Builtin, B19_TheTextsOfSeveralStepsAreABlankLineApartInBothCallerModes) {
    std::vector<cubepi::FauxStep> steps = two_steps();
    for (cubepi::FauxStep& step : two_steps()) steps.push_back(std::move(step));
    add_builtin(std::move(steps));
    EXPECT_EQ(say("look").model_output, "let me see\n\ndone");
    EXPECT_EQ(say("look", "cli", true).model_output, "let me see\n\ndone");
    const std::vector<TapeEntry> entries = tape("cli:room");
    EXPECT_EQ(count(entries, entry_kind::tool_call), 2u);
    EXPECT_EQ(count(entries, entry_kind::tool_result), 2u);
}

TEST_F(Builtin, TheNextTurnKnowsWhatWasSaid) {
    std::size_t seen = 0;
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(faux_assistant_message("first answer"));
    steps.emplace_back([&seen](const cubepi::ModelRequest& request) {
        for (const cubepi::Message& message : request.messages) {
            const std::string text = message.text();
            if (text == "first question" || text == "first answer") ++seen;
        }
        return faux_assistant_message("second answer");
    });
    add_builtin(std::move(steps));
    (void)say("first question");
    (void)say("second question");
    EXPECT_EQ(seen, 2u);
}

TEST_F(Builtin, B11_ACommaIsACommandForOperatorsOnly) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(faux_assistant_message("I am a model"));
    add_builtin(std::move(steps));
    EXPECT_TRUE(say(",help").model_output.find(",tape_info") != std::string::npos);
    EXPECT_EQ(faux.call_count(), 0u);
    EXPECT_EQ(say(",help", "telegram").model_output, "I am a model");
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST_F(Builtin, CommandsTakeWordsInOrderAndByName) {
    add_builtin({});
    EXPECT_EQ(say(",tape.handoff chapter summary='what was'").model_output,
              "anchor added: chapter");
    EXPECT_EQ(say(",tape.anchors").model_output, "- session/start\n- chapter");
    const std::vector<TapeEntry> entries = tape("cli:room");
    EXPECT_EQ(count(entries, entry_kind::event, "command"), 2u);
    EXPECT_EQ(count(entries, entry_kind::message), 0u);
    EXPECT_EQ(say(",echo 'it is' $((1+1))").model_output, "it is 2");
    EXPECT_THROW(say(",tape.info nonsense"), cubepi::Error);
    EXPECT_THROW(say(",exit 3"), cubepi::Error);
    EXPECT_EQ(count(tape("cli:room"), entry_kind::event, "command"), 5u);
}

TEST_F(Builtin, TheModelThatWasChosenIsAskedFromTheNextTurnOn) {
    std::string asked;
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back([&asked](const cubepi::ModelRequest& request) {
        asked = request.model.id;
        return faux_assistant_message("ok");
    });
    add_builtin(std::move(steps));
    (void)say(",model other-model");
    (void)say("hello");
    EXPECT_EQ(asked, "other-model");
}

TEST_F(Builtin, B22_HintedSkillsAreExpandedInEveryStepAndThePromptStaysTheSame) {
    write(root / "work" / ".agents" / "skills" / "repo-map" / "SKILL.md",
          "---\nname: repo-map\ndescription: Draws the map.\n---\nUse ${SKILL_DIR}/map.sh.\n");
    write(root / "work" / "AGENTS.md", "Tabs, not spaces.\n");
    std::vector<std::string> prompts;
    const auto note = [&prompts](const cubepi::ModelRequest& request) {
        prompts.push_back(request.system_prompt.str());
    };
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back([note](const cubepi::ModelRequest& request) {
        note(request);
        std::vector<cubepi::AssistantContent> calls;
        calls.emplace_back(faux_tool_call("tape_info", {}, "c1"));
        return faux_assistant_message(std::move(calls), cubepi::stop_reason::tool_use);
    });
    steps.emplace_back([note](const cubepi::ModelRequest& request) {
        note(request);
        return faux_assistant_message("done");
    });
    add_builtin(std::move(steps));
    (void)say("draw it with $repo-map.");
    ASSERT_EQ(prompts.size(), 2u);
    EXPECT_EQ(prompts[0], prompts[1]);
    EXPECT_NE(prompts[0].find("Tabs, not spaces."), std::string::npos);
    EXPECT_NE(prompts[0].find("repo-map/map.sh."), std::string::npos);
}

TEST_F(Builtin, B10_TheUsersMessageStaysWhenTheModelFails) {
    std::vector<cubepi::FauxStep> steps;
    cubepi::ErrorInfo info;
    info.code = cubepi::ErrorCode::bad_request;
    steps.emplace_back(cubepi::faux_failure("no", info));
    add_builtin(std::move(steps));
    EXPECT_THROW(say("remember this"), cubepi::Error);
    const std::vector<TapeEntry> entries = tape("cli:room");
    const bool kept = std::any_of(entries.begin(), entries.end(), [](const TapeEntry& entry) {
        const Json* content = entry.payload.if_contains("content");
        return entry.kind == entry_kind::message && content && *content == "remember this";
    });
    EXPECT_TRUE(kept);
}

TEST_F(Builtin, ARequestThatDoesNotFitHandsTheTapeOffAndIsTriedOnceMore) {
    cubepi::ErrorInfo info;
    info.code = cubepi::ErrorCode::context_length;
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(cubepi::faux_failure("the prompt is too long", info));
    steps.emplace_back(faux_assistant_message("now it fits"));
    add_builtin(std::move(steps));
    EXPECT_EQ(say("hello").model_output, "now it fits");
    EXPECT_EQ(count(tape("cli:room"), entry_kind::anchor, "auto_handoff/context_overflow"), 1u);
}

TEST_F(Builtin, B20_ATurnThatAPluginAnsweredIsOnTheTapeToo) {
    add_builtin({});
    framework->add(Plugin{.name = "own", .run_model = [](RunModelCall&) { return "mine"; }});
    EXPECT_EQ(say("hello").model_output, "mine");
    EXPECT_EQ(count(tape("cli:room"), entry_kind::message), 2u);
}

TEST_F(Builtin, SteeringReachesTheTurnThatRuns) {
    std::vector<cubepi::FauxStep> steps;
    std::string last;
    steps.emplace_back([this](const cubepi::ModelRequest&) -> Task<cubepi::AssistantMessage> {
        const auto inbox = co_await framework->steering_inbox();
        inbox->enqueue("cli:room", Envelope("and be quick"));
        co_return faux_assistant_message("working");
    });
    steps.emplace_back([&last](const cubepi::ModelRequest& request) {
        last = request.messages.back().text();
        return faux_assistant_message("quickly done");
    });
    add_builtin(std::move(steps));
    EXPECT_EQ(say("hello").model_output, "working\n\nquickly done");
    EXPECT_EQ(last, "and be quick");
}

TEST_F(Builtin, InterceptionHooksGoThroughTheAgent) {
    std::vector<std::string> seen;
    add_builtin(two_steps());
    Plugin plugin;
    plugin.name = "watch";
    plugin.before_llm_call = [&seen](BeforeLlmCall&) { seen.push_back("before_llm_call"); };
    plugin.after_llm_call = [&seen](AfterLlmCall& call) {
        seen.push_back("after_llm_call " + call.result.text());
    };
    plugin.before_tool_call = [&seen](BeforeToolCall& call) {
        seen.push_back("before " + call.call.tool_call.name.str());
        cubepi::BeforeToolCallResult result;
        result.result = cubepi::AgentToolResult("replaced");
        return result;
    };
    plugin.after_tool_call = [&seen](AfterToolCall& call) {
        seen.push_back("after " + call.call.result.text());
    };
    framework->add(std::move(plugin));
    (void)say("look");
    const std::vector<std::string> order = {"before_llm_call",  "after_llm_call let me see",
                                            "before tape_info", "after replaced",
                                            "before_llm_call",  "after_llm_call done"};
    EXPECT_EQ(seen, order);
}

TEST_F(Builtin, APluginMayAnswerInTheModelsPlace) {
    add_builtin({});
    framework->add(Plugin{.name = "cache",
                          .before_llm_call = [](BeforeLlmCall&) { return "from the cache"; }});
    EXPECT_EQ(say("hello").model_output, "from the cache");
    EXPECT_EQ(faux.call_count(), 0u);
}

TEST(Skills, HintsLosePunctuationAtTheirEnd) {
    const std::set<std::string> hints = skill_hints("with $repo-map. and $a_b, not $");
    EXPECT_EQ(hints, (std::set<std::string>{"repo-map", "a_b"}));
}

}  // namespace
}  // namespace bub
