#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>

// What the tests of this room share: a folder that goes away, and calls of tools as the agent makes them.

namespace cubepi {

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "cubepi-test-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = std::filesystem::canonical(name);
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::string operator/(const char* name) const { return (path_ / name).string(); }

    void put(const char* name, std::string_view content) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << content;
    }
    std::string get(const char* name) const {
        std::ifstream file(path_ / name, std::ios::binary);
        std::stringstream content;
        content << file.rdbuf();
        return content.str();
    }

private:
    std::filesystem::path path_;
};

struct ToolCallSettings {
    std::shared_ptr<const Runtime> runtime = Runtime::standard();
    std::stop_token stop = {};
    std::vector<Json>* updates = nullptr;

    ToolCallSettings() {}
};

inline Task<> keep_update(std::vector<Json>* updates, Json update) {
    if (updates != nullptr) updates->push_back(std::move(update));
    co_return;
}

inline Task<AgentToolResult> call_tool(AgentTool tool, JsonObject arguments,
                                       ToolCallSettings settings = ToolCallSettings()) {
    auto* updates = settings.updates;
    ToolContext::UpdateSink sink = [updates](Json update) {
        return keep_update(updates, std::move(update));
    };
    ToolContext context("call_1", tool.name, settings.stop, settings.runtime, std::move(sink));
    detail::ToolOutcome outcome = tool.execute(std::move(arguments), context);
    if (outcome.result) co_return std::move(*outcome.result);
    Task<AgentToolResult> task = std::move(*outcome.task);
    AgentToolResult result = co_await std::move(task);
    co_return result;
}

inline AgentToolResult run_tool(const AgentTool& tool, JsonObject arguments,
                                ToolCallSettings settings = ToolCallSettings()) {
    return run(call_tool(tool, std::move(arguments), std::move(settings)));
}

/// The text that the model gets, also when the tool throws.
inline std::string tool_text(const AgentTool& tool, JsonObject arguments) {
    try {
        return run_tool(tool, std::move(arguments)).text();
    } catch (const Error& error) {
        return std::string("error ") + std::string(to_string(error.code())) + ": " + error.what();
    }
}

}  // namespace cubepi
