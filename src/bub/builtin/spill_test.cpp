#include <gtest/gtest.h>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/tape/memory_tape_store.hpp>

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

TEST_F(Spill, AResultThatIsTooLongIsReadableInALaterTurnAndAfterARestart) {
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

TEST_F(Spill, OfOneWorkspaceIsNotReadableFromAnother) {
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

TEST_F(Spill, TheConversationStillSaysWhereItIsAfterARestart) {
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

TEST_F(Spill, WithoutAPlaceOfItsOwnItLastsAsLongAsTheProcess) {
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

TEST_F(Spill, OfBubIsReadFromTheSidecarTape) {
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

}  // namespace
}  // namespace bub
