#include "fetching.hpp"
#include "raw_server.hpp"

#include <cubepi/testing/memory_log.hpp>

#include <gtest/gtest.h>

namespace cubepi::wire {
namespace {

using cubepi::testing::MemoryLog;

/// Sends a request with secrets in path, query, headers and body.
Failure send_secrets(const MemoryLog& log, const std::string& base,
                     std::map<std::string, std::string> env = {}) {
    HttpClientOptions options = with_env(std::move(env));
    options.log = log.logger();
    HttpClient client(std::move(options));
    HttpRequest request("POST", base + "path-secret?key=query-secret");
    request.body = "body-secret";
    request.headers.add("authorization", "Bearer header-secret");
    const Failure failure = try_fetch(client, std::move(request));
    EXPECT_FALSE(log.contains("secret")) << log.text();
    return failure;
}

std::string without_times(std::string text) {
    for (std::size_t at = 0; (at = text.find("duration_ms=", at)) != std::string::npos; ++at)
        text.replace(at, text.find('\n', at) - at, "duration_ms");
    return text;
}

TEST(NetLog, B29_RecordsAFailedRequestWithServerAndCode) {
    const MemoryLog log(LogLevel::warning);
    const std::string server = "127.0.0.1:" + std::to_string(closed_port());
    EXPECT_EQ(send_secrets(log, "http://" + server + "/").code, ErrorCode::connect);
    EXPECT_EQ(without_times(log.text()), "<4>http.failed server=" + server +
                                             " method=POST error=connect proxy=\"\" duration_ms\n");
}

TEST(NetLog, RecordsAnswersAtLevelDebugOnly) {
    RawServer server([](Connection& connection) {
        connection.read_request();
        connection.send(ok("answer-secret", "set-cookie: cookie-secret\r\n"));
    });
    const MemoryLog quiet(LogLevel::info);
    EXPECT_TRUE(send_secrets(quiet, server.url()).none);
    EXPECT_EQ(quiet.text(), "");
    const MemoryLog debug;
    EXPECT_TRUE(send_secrets(debug, server.url()).none);
    EXPECT_EQ(without_times(debug.text()),
              "<7>http.answered server=127.0.0.1:" + std::to_string(server.port()) +
                  " method=POST status=200 proxy=\"\" duration_ms\n");
}

TEST(NetLog, NamesTheProxyWithoutItsPassword) {
    const MemoryLog log;
    const std::string proxy = "127.0.0.1:" + std::to_string(closed_port());
    (void)send_secrets(log, "http://server.example/",
                       {{"http_proxy", "http://user:proxy-secret@" + proxy}});
    EXPECT_TRUE(log.contains("server=server.example:80")) << log.text();
    EXPECT_TRUE(log.contains("proxy=" + proxy)) << log.text();
    EXPECT_FALSE(log.contains("user")) << log.text();
}

TEST(NetLog, RecordsThatTlsFailed) {
    RawServer server([](Connection& connection) { connection.send("this is not TLS\r\n\r\n"); });
    const MemoryLog log(LogLevel::warning);
    EXPECT_EQ(send_secrets(log, "https://127.0.0.1:" + std::to_string(server.port()) + "/").code,
              ErrorCode::tls);
    EXPECT_TRUE(log.contains("<4>http.failed")) << log.text();
    EXPECT_TRUE(log.contains("error=tls")) << log.text();
}

}  // namespace
}  // namespace cubepi::wire
