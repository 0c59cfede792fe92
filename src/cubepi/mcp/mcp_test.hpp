#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <cubepi/core/run.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/stdio_transport.hpp>

#include "source_tree.hpp"

// Clients of fake_server.py, for tests.

namespace cubepi::mcp_test {

/// A client of a fake server and its settings.
struct FakeServer {
    McpStdioOptions process;
    McpClientOptions client;
    std::shared_ptr<const Runtime> runtime = Runtime::standard();

    explicit FakeServer(std::string mode) {
        process.server = "fake";
        // Not the first one of PATH: that may be a script that starts slower than a test takes.
        process.program = "/usr/bin/python3";
        process.arguments = {testing::source_path("src/cubepi/mcp/fake_server.py"),
                             std::move(mode)};
        process.exit_grace = std::chrono::milliseconds(100);
        client.server = "fake";
        // Long enough for a busy machine; tests of timeouts set their own.
        client.connect_timeout = std::chrono::seconds(60);
        client.probe_timeout = std::chrono::seconds(60);
    }

    std::shared_ptr<McpClient> start() const {
        McpStdioOptions options = process;
        options.limits = client.limits;
        return std::make_shared<McpClient>(client, mcp_stdio_transport(options, runtime), runtime);
    }
};

/// Returns the text of the first block of a result.
inline std::string text_of(const JsonObject& result) {
    return std::string(result.at("content").at(0).at("text").as_string());
}

inline McpCall echo_call(std::string text) {
    JsonObject arguments;
    arguments["text"] = std::move(text);
    return McpCall("echo", std::move(arguments));
}

}  // namespace cubepi::mcp_test
