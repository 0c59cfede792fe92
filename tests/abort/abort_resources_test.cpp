#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/process/process_test.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "../conformance/runner/loopback.hpp"
#include "round.hpp"

// Sockets and processes: an aborted run releases its resources outside of the program.

namespace cubepi::abort_tests {

namespace {

using conformance::HttpAnswer;
using conformance::Loopback;

std::string chunk_line(const std::string& delta, const std::string& finish) {
    return "data: "
           "{\"id\":\"r1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","
           "\"choices\":[{"
           "\"index\":0,\"delta\":{" +
           (delta.empty() ? std::string() : "\"content\":\"" + delta + "\"") +
           "},\"finish_reason\":" + finish + "}]}\n\n";
}

HttpAnswer streamed_fine() {
    HttpAnswer answer;
    answer.headers["content-type"] = "text/event-stream";
    for (const char* piece : {"f", "i", "n", "e"}) answer.body += chunk_line(piece, "null");
    answer.body += chunk_line("", "\"stop\"") + "data: [DONE]\n\n";
    answer.stride = 50;
    return answer;
}

BoundModel model_at(std::uint16_t port) {
    OpenAIOptions options;
    options.api_key = "key";
    options.base_url = "http://127.0.0.1:" + std::to_string(port) + "/v1";
    return OpenAIProvider(std::move(options)).model("m");
}

/// A port that accepts connections and never sends anything.
class SilentPort {
public:
    SilentPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        EXPECT_EQ(bind(fd_, generic, size), 0);
        EXPECT_EQ(listen(fd_, 16), 0);
        EXPECT_EQ(getsockname(fd_, generic, &size), 0);
        port_ = ntohs(address.sin_port);
    }
    ~SilentPort() { close(fd_); }
    SilentPort(const SilentPort&) = delete;
    SilentPort& operator=(const SilentPort&) = delete;
    std::uint16_t port() const noexcept { return port_; }

private:
    int fd_;
    std::uint16_t port_ = 0;
};

struct Directory {
    std::filesystem::path path;
    Directory() {
        std::string name =
            (std::filesystem::temp_directory_path() / "cubepi-abort-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
        path = name;
    }
    ~Directory() { std::filesystem::remove_all(path); }
};

/// Prompts, and aborts from another thread as soon as `ready` returns true. Returns the outcome.
class AbortedRun {
public:
    AbortedRun(AgentOptions options, std::function<bool()> ready)
        : agent_(std::make_unique<Agent>(std::move(options))), ready_(std::move(ready)) {}

    RunOutcome perform() {
        auto context = std::make_unique<boost::asio::io_context>(1);
        BackgroundScope scope(context->get_executor());
        scope.spawn(prompt());
        const std::jthread aborter([this](std::stop_token stop) {
            while (!stop.stop_requested() && !ready_()) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            agent_->abort();
        });
        (void)context->run_for(std::chrono::seconds(20));
        EXPECT_TRUE(context->stopped()) << "something still waits after the run";
        EXPECT_TRUE(is_legal_transcript(agent_->state().messages)) << "D1";
        agent_.reset();
        return outcome_;
    }

private:
    Task<> prompt() {
        Task<RunResult> run = agent_->prompt("hi");
        const RunResult result = co_await std::move(run);
        outcome_ = result.outcome;
    }

    std::unique_ptr<Agent> agent_;
    std::function<bool()> ready_;
    RunOutcome outcome_ = RunOutcome::failed;
};

}  // namespace

TEST(AbortResources, D7_AbortedNetworkAnswer_ReleasesResources) {
    Loopback server({streamed_fine()});
    Situation situation;
    situation.name = "answer from a network";
    situation.script = [] { return std::vector<FauxStep>(); };
    situation.model = [&server](Points&) { return model_at(server.port()); };
    abort_everywhere(situation);
}

TEST(AbortResources, D7_AbortBeforeFirstByte_ReleasesResources) {
    const SilentPort port;
    Holdings before;
    for (int round = 0; round < 3; ++round) {
        AgentOptions options;
        options.model = model_at(port.port());
        const auto begin = std::chrono::steady_clock::now();
        AbortedRun run(std::move(options), [begin] {
            return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(30);
        });
        EXPECT_EQ(to_string(run.perform()), "aborted");
        if (round == 0) before = holdings();
        EXPECT_TRUE(back_to(before)) << describe(holdings());
    }
}

TEST(AbortResources, D7_AbortOfStalledStream_ReleasesResources) {
    HttpAnswer answer = streamed_fine();
    answer.stride = 0;
    answer.pause_after_bytes = answer.body.size() / 2;
    answer.pause_ms = 60'000;
    Holdings before;
    for (int round = 0; round < 3; ++round) {
        Loopback server({answer});
        AgentOptions options;
        options.model = model_at(server.port());
        AbortedRun run(std::move(options), [&server] { return !server.asked().empty(); });
        EXPECT_EQ(to_string(run.perform()), "aborted");
        if (round == 0) before = holdings();
        EXPECT_TRUE(back_to(before)) << describe(holdings());
    }
}

TEST(AbortResources, D7_AbortOfShellCommand_ReleasesResources) {
    const Directory directory;
    auto workspace = std::make_shared<LocalWorkspace>(directory.path);
    Situation situation;
    situation.name = "shell";
    situation.script = [] {
        JsonObject arguments;
        arguments["command"] = "echo begun; sleep 0.02; echo done";
        std::vector<FauxStep> steps;
        AssistantContent call = faux_tool_call("shell", std::move(arguments), "c1");
        steps.emplace_back(faux_assistant_message(std::move(call), stop_reason::tool_use));
        steps.emplace_back("All done");
        return steps;
    };
    situation.equip = [workspace](AgentOptions& options, Points&) {
        options.tools.push_back(shell_tool(ShellSessions::create(workspace)));
        options.limits.abort_grace = std::chrono::seconds(2);
    };
    abort_everywhere(situation);
}

TEST(AbortResources, D7_AbortOfCommand_EndsEveryProcess) {
    const Directory directory;
    const std::filesystem::path pids = directory.path / "pids";
    auto workspace = std::make_shared<LocalWorkspace>(directory.path);
    FauxProvider faux;
    JsonObject arguments;
    arguments["command"] =
        "sleep 1000 & echo $! > p; (trap '' TERM; sleep 1000) & echo $! >> p; mv p pids; sleep "
        "1000";
    AssistantContent call = faux_tool_call("shell", std::move(arguments), "c1");
    faux.set_responses({faux_assistant_message(std::move(call), stop_reason::tool_use)});
    AgentOptions options;
    options.model = faux.model("offline");
    ShellOptions shell;
    shell.kill_grace = std::chrono::milliseconds(20);
    options.tools.push_back(shell_tool(ShellSessions::create(workspace, shell)));
    AbortedRun run(std::move(options), [pids] { return std::filesystem::exists(pids); });
    EXPECT_EQ(to_string(run.perform()), "aborted");

    std::ifstream in(pids);
    int seen = 0;
    for (pid_t pid = 0; in >> pid; ++seen) {
        bool gone = false;
        for (int i = 0; i < 2000 && !gone; ++i) {
            gone = !is_running(pid);
            if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_TRUE(gone) << "process " << pid << " still runs";
    }
    EXPECT_EQ(seen, 2);
    Holdings none = holdings();
    EXPECT_EQ(none.children, 0u);
}

}  // namespace cubepi::abort_tests
