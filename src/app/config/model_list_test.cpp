#include "model_list.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace cubepi::app {
namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

Endpoint anthropic() {
    return endpoint_of(*known_provider("anthropic"), {{"ANTHROPIC_API_KEY", "sk-ant-secret"}});
}

Endpoint openai(const std::string& base_url) {
    Endpoint endpoint = endpoint_of(*known_provider("openai"), {{"OPENAI_API_KEY", "sk-secret"}});
    endpoint.redirect(base_url, "--base-url");
    return endpoint;
}

std::shared_ptr<MemoryTransport> answering(std::vector<MemoryResponse> answers) {
    return std::make_shared<MemoryTransport>(std::move(answers));
}

Error refusal(const Endpoint& endpoint, MemoryResponse response) {
    try {
        run(list_models(answering({std::move(response)}), endpoint));
    } catch (const Error& error) {
        return error;
    }
    return Error(ErrorCode::unknown, "nothing was refused");
}

TEST(ModelList, AnthropicIsAskedPageByPage) {
    const auto transport = answering(
        {MemoryResponse(200, R"({"data":[{"type":"model","id":"claude-a","display_name":"Claude A",
                              "created_at":"2025-09-29T00:00:00Z"},{"id":"claude-b"}],
                              "has_more":true,"first_id":"claude-a","last_id":"claude-b"})"),
         MemoryResponse(200, R"({"data":[{"id":"claude-c","display_name":"claude-c"}],
                              "has_more":false,"last_id":"claude-c"})")});
    const std::vector<OfferedModel> models = run(list_models(transport, anthropic()));
    ASSERT_EQ(models.size(), 3u);
    EXPECT_EQ(models[0].name, "Claude A");
    EXPECT_EQ(models[0].created, "2025-09-29");
    EXPECT_EQ(models[2].id, "claude-c");
    EXPECT_EQ(models[2].name, "") << "the id again says nothing";
    const std::vector<HttpRequest> requests = transport->requests();
    ASSERT_EQ(requests.size(), 2u);
    EXPECT_EQ(requests[0].url, "https://api.anthropic.com/v1/models?limit=1000");
    EXPECT_EQ(requests[1].url, "https://api.anthropic.com/v1/models?limit=1000&after_id=claude-b");
    EXPECT_EQ(requests[0].headers.get("x-api-key"), "sk-ant-secret");
    EXPECT_EQ(requests[0].headers.get("anthropic-version"), "2023-06-01");
    EXPECT_EQ(requests[0].headers.get("authorization"), "");
}

TEST(ModelList, APageThatRepeatsEndsIt) {
    MemoryResponse page(200, R"({"data":[{"id":"a"}],"has_more":true,"last_id":"a"})");
    const auto transport = std::make_shared<MemoryTransport>(
        [page](const HttpRequest&) -> MemoryResponse { return page; });
    EXPECT_EQ(run(list_models(transport, anthropic())).size(), 2u);
    EXPECT_EQ(transport->requests().size(), 2u);
}

TEST(ModelList, CompatibleServersSayMoreOrLess) {
    const auto transport = answering({MemoryResponse(
        200, R"({"object":"list","data":[{"id":"m1","created":1759104000,"owned_by":"x"},
                {"id":"m2","name":"Model Two","context_length":131072},
                {"id":"m3","max_model_len":8192},{"id":7},{"name":"no id"},"m4",{"id":""}]})")});
    const std::vector<OfferedModel> models =
        run(list_models(transport, openai("https://box.example/v1/?api-version=1")));
    ASSERT_EQ(models.size(), 3u);
    EXPECT_EQ(models[0].created, "2025-09-29");
    EXPECT_EQ(models[1].name, "Model Two");
    EXPECT_EQ(models[1].context_window, 131072);
    EXPECT_EQ(models[2].context_window, 8192);
    EXPECT_EQ(transport->requests().front().url, "https://box.example/v1/models?api-version=1");
    EXPECT_EQ(transport->requests().front().headers.get("authorization"), "Bearer sk-secret");
}

TEST(ModelList, ABareArrayIsAList) {
    const auto transport = answering({MemoryResponse(200, R"([{"id":"m1"}])")});
    EXPECT_EQ(run(list_models(transport, openai("https://box.example/v1"))).size(), 1u);
}

TEST(ModelList, RefusalsSayWhy) {
    const Error key = refusal(
        anthropic(), MemoryResponse(401, R"({"type":"error","error":{"type":"authentication_error",
                                          "message":"invalid x-api-key: sk-ant-secret"}})"));
    EXPECT_EQ(key.code(), ErrorCode::auth);
    EXPECT_NE(std::string(key.what()).find("invalid x-api-key"), std::string::npos);
    EXPECT_EQ(std::string(key.what()).find("sk-ant-secret"), std::string::npos) << key.what();

    const Error missing = refusal(openai("https://box.example"), MemoryResponse(404, "not here"));
    EXPECT_EQ(missing.code(), ErrorCode::protocol);
    EXPECT_NE(std::string(missing.what()).find("/v1"), std::string::npos) << missing.what();

    EXPECT_EQ(refusal(anthropic(), MemoryResponse(429, "{}")).code(), ErrorCode::rate_limited);
    for (const char* body : {"<html>hello</html>", "{}", R"({"data":{}})", ""})
        EXPECT_EQ(refusal(anthropic(), MemoryResponse(200, body)).code(), ErrorCode::protocol);
}

TEST(ModelList, AnAddressWithoutASchemeIsNamedWithItsSource) {
    const Error error = refusal(openai("localhost:9"), MemoryResponse(200, "{}"));
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(),
                 "'localhost:9' is not a server address (--base-url); write the full URL, such as "
                 "http://localhost:11434/v1");
}

TEST(ModelList, NoServerOfThisMachineIsAskedWhenTheEnvironmentSaysSo) {
    const auto transport = answering({});
    setenv("CUBEPI_LOCAL_SERVERS", "off", 1);
    const std::vector<LocalServer> servers = run(find_local_servers(transport));
    unsetenv("CUBEPI_LOCAL_SERVERS");
    EXPECT_TRUE(servers.empty());
    EXPECT_TRUE(transport->requests().empty());
}

}  // namespace
}  // namespace cubepi::app
