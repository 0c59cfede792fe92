// Traces and metrics of the program, as its variables and settings ask for them.

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>

#include "../wire/net/raw_server.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

constexpr const char* answers = R"(["A secret answer."])";

Piped run_once(const Home& home) {
    return run_piped(home, {"run", "--script", home.script(answers), "a secret prompt"});
}

/// Returns the text of the only trace file.
std::string trace_in(const std::filesystem::path& directory) {
    std::string text;
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
        if (!entry.is_regular_file()) continue;
        ++files;
        text = read_file(entry.path());
    }
    EXPECT_EQ(files, 1);
    return text;
}

/// The address of a port that no process listens on.
std::string dead_collector() {
    return wire::RawServer([](wire::Connection&) {}).url("");
}

TEST(Telemetry, RunWithoutSession_IsTraced) {
    Home home;
    const std::filesystem::path traces = home.root() / "traces";
    home.set("CUBEPI_TRACE", traces.string());
    const Piped run = run_once(home);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "A secret answer.\n");
    EXPECT_EQ(run.err, "");
    const std::string trace = trace_in(traces);
    for (const char* name : {"bub.turn", "bub.run_model", "invoke_agent", "cubepi.turn"})
        EXPECT_NE(trace.find(name), std::string::npos) << name;
    EXPECT_EQ(trace.find("secret"), std::string::npos) << trace;
    const Piped list = run_piped(home, {"trace", "ls"});
    EXPECT_EQ(list.status, 0) << list.err;
    EXPECT_NE(list.out.find(" spans\tok\t"), std::string::npos) << list.out;
}

TEST(Telemetry, OfflineModelCalls_AreTraced) {
    Home home;
    const std::filesystem::path traces = home.root() / "traces";
    home.set("CUBEPI_TRACE", traces.string());
    const Piped run = run_piped(home, {"run", "--offline", "hello"});
    EXPECT_EQ(run.status, 0) << run.err;
    const std::string trace = trace_in(traces);
    for (const char* name : {"chat offline", "gen_ai.usage.output_tokens"})
        EXPECT_NE(trace.find(name), std::string::npos) << name;
}

TEST(Telemetry, ContentOnRequest_IsRecorded) {
    Home home;
    const std::filesystem::path traces = home.root() / "traces";
    home.set("CUBEPI_TRACE", traces.string());
    home.set("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    EXPECT_EQ(run_once(home).status, 0);
    const std::string trace = trace_in(traces);
    EXPECT_NE(trace.find("a secret prompt"), std::string::npos);
    EXPECT_NE(trace.find("A secret answer."), std::string::npos);
}

TEST(Telemetry, UnusableDirectory_IsReported) {
    Home home;
    write_file(home.root() / "traces", "a file, not a directory");
    home.set("CUBEPI_TRACE", (home.root() / "traces").string());
    const Piped run = run_once(home);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "A secret answer.\n");
    EXPECT_NE(run.err.find("the exporter jsonl cannot deliver spans: cannot open "),
              std::string::npos)
        << run.err;
}

TEST(Telemetry, DeadOrHangingCollector_DelaysTheEndBriefly) {
    const wire::RawServer hanging([](wire::Connection& connection) {
        while (!connection.read_request().empty()) continue;
    });
    for (const std::string& url : {dead_collector(), hanging.url("")}) {
        Home home;
        home.set("OTEL_EXPORTER_OTLP_ENDPOINT", url);
        const Piped run = run_once(home);
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_EQ(run.out, "A secret answer.\n");
        EXPECT_NE(run.err.find("the exporter otlp delivered 0 spans"), std::string::npos)
            << run.err;
        EXPECT_NE(run.err.find("were not accepted"), std::string::npos) << run.err;
        EXPECT_EQ(run.err.find("secret"), std::string::npos) << run.err;
    }
}

TEST(Telemetry, RejectingCollector_IsReportedOnce) {
    const wire::RawServer rejecting([](wire::Connection& connection) {
        while (!connection.read_request().empty()) {
            if (!connection.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno")) return;
        }
    });
    Home home;
    home.set("OTEL_EXPORTER_OTLP_ENDPOINT", rejecting.url(""));
    const Piped run = run_once(home);
    EXPECT_EQ(run.status, 0) << run.err;
    const std::string notice = "the exporter otlp cannot deliver spans";
    const std::size_t first = run.err.find(notice);
    ASSERT_NE(first, std::string::npos) << run.err;
    EXPECT_EQ(run.err.find(notice, first + 1), std::string::npos) << run.err;
}

/// Sends a request to a server on loopback, and waits for the end of its answer.
std::string request(std::uint16_t port, const std::string& text) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string answer;
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
        wire::Connection connection(fd);
        if (connection.send(text)) {
            for (std::string part = "x"; !part.empty(); answer += part)
                part = connection.read_some();
        }
        return answer;
    }
    close(fd);
    return answer;
}

TEST(Telemetry, Gateway_ReportsUndeliveredTelemetry) {
    const wire::RawServer model([](wire::Connection& connection) {
        while (!connection.read_request().empty()) {
            if (!connection.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}")) return;
        }
    });
    const std::uint16_t port = wire::RawServer([](wire::Connection&) {}).port();
    Home home;
    const std::filesystem::path traces = home.root() / "traces";
    write_file(home.config(),
               "model: small\nbase_url: \"" + model.url("/v1") +
                   "\"\ngateway:\n  channels: [http]\n  http: {listen: \"127.0.0.1:" +
                   std::to_string(port) + "\"}\n");
    home.set("CUBEPI_HTTP_TOKEN", "0123456789abcdef");
    home.set("CUBEPI_TRACE", traces.string());
    home.set("OTEL_EXPORTER_OTLP_ENDPOINT", dead_collector());
    Terminal gateway(home, {"gateway", "--log-level", "info"});
    ASSERT_TRUE(gateway.expect("gateway.running")) << gateway.shown();
    EXPECT_TRUE(gateway.expect("Serving http. Ctrl-C waits for the running turns"))
        << gateway.shown();
    const std::string body = R"({"session": "1", "text": "a secret prompt"})";
    const std::string answer =
        request(port,
                "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                "0123456789abcdef\r\n"
                "Content-Type: application/json\r\nConnection: close\r\nContent-Length: " +
                    std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_NE(answer.find("\"ok\":false"), std::string::npos) << answer;
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0) << gateway.shown();
    EXPECT_NE(gateway.shown().find("cubepi: the exporter otlp delivered 0 spans"),
              std::string::npos)
        << gateway.shown();
    EXPECT_NE(gateway.shown().find("warning export_ended exported=0"), std::string::npos)
        << gateway.shown();
    const std::string trace = trace_in(traces);
    EXPECT_NE(trace.find("bub.turn"), std::string::npos);
    EXPECT_EQ((trace + gateway.shown()).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::terminal_tests
