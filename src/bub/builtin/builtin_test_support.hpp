#pragma once

#include <gtest/gtest.h>

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

namespace bub {

using cubepi::faux_assistant_message;
using cubepi::faux_tool_call;

namespace test {

/// A framework with the builtin plugin, a scripted model, and directories of its own.
class Builtin : public testing::Test {
protected:
    Builtin() {
        std::string name = (std::filesystem::temp_directory_path() / "bub-builtin-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no directory for temporary files");
        root = name;
        std::filesystem::create_directories(root / "work");
        make_framework(FrameworkOptions());
    }
    ~Builtin() override {
        framework.reset();
        std::error_code ignored;
        std::filesystem::remove_all(root, ignored);
    }

    void make_framework(FrameworkOptions options) {
        options.workspace = root / "work";
        framework = std::make_unique<Framework>(std::move(options));
    }

    void add_builtin(std::vector<cubepi::FauxStep> steps, BuiltinOptions options = {}) {
        faux.set_responses(std::move(steps));
        options.model = faux.model("scripted");
        options.home = root / "home";
        options.with_user_skills = false;
        options.tools = extra_tools;
        framework->add(builtin_plugin(*framework, std::move(options)));
    }

    TurnResult say(std::string text, std::string channel = "cli", bool streams = false) {
        Envelope inbound = Envelope(std::move(text)).on(std::move(channel), "chat");
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

    /// Tools that the program's first plugin adds; set before add_builtin().
    std::vector<cubepi::AgentTool> extra_tools;
    std::filesystem::path root;
    cubepi::FauxProvider faux;
    std::unique_ptr<Framework> framework;
};

/// Returns an answer that calls one tool.
inline cubepi::AssistantMessage calling(std::string tool, JsonObject arguments = {},
                                        std::string id = "c1") {
    cubepi::ContentList<cubepi::AssistantContent> content;
    content.emplace_back(faux_tool_call(std::move(tool), std::move(arguments), std::move(id)));
    return faux_assistant_message(std::move(content), cubepi::stop_reason::tool_use);
}

}  // namespace test
}  // namespace bub
