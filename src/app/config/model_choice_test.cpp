#include "model_choice.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/run.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace cubepi::app {
namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

/// A network in which the URLs that begin with `served` list `models`, and nothing else answers.
std::shared_ptr<MemoryTransport> network(std::string served, std::string models) {
    return std::make_shared<MemoryTransport>([=](const HttpRequest& request) -> MemoryResponse {
        if (served.empty() || !request.url.starts_with(served)) {
            return MemoryResponse::failing(
                NetworkError(ErrorCode::connect, "host", true, "Connection refused"));
        }
        return MemoryResponse(200, models);
    });
}

constexpr const char* one_model = R"({"object":"list","data":[{"id":"llama3.2"}]})";
constexpr const char* two_models = R"({"object":"list","data":[{"id":"llama3.2"},{"id":"qwen3"}]})";

ModelChoice choose(const ModelSources& sources, std::shared_ptr<MemoryTransport> transport,
                   ChooseModel ask = ChooseModel()) {
    return run(choose_model(sources, std::move(transport), std::move(ask)));
}

ErrorCode refusal(const ModelSources& sources, std::shared_ptr<MemoryTransport> transport) {
    try {
        choose(sources, std::move(transport));
    } catch (const Error& error) {
        return error.code();
    }
    return ErrorCode::unknown;
}

TEST(ModelChoice, AKeyAloneMeansOpenAi) {
    ModelSources sources;
    sources.openai_api_key = "sk-x";
    const auto nobody = network("", "");
    const ModelChoice choice = choose(sources, nobody);
    EXPECT_EQ(choice.where, "gpt-5.1 at api.openai.com");
    EXPECT_FALSE(choice.found_locally);
    EXPECT_TRUE(nobody->requests().empty()) << "nothing is sent before the first prompt";
}

TEST(ModelChoice, FlagsGoBeforeEnvironmentBeforeConfiguration) {
    ModelSources sources;
    sources.config.model = "from-config";
    sources.config.base_url = "https://config.example/v1";
    sources.config.api_key = "k";
    EXPECT_EQ(choose(sources, network("", "")).where, "from-config at config.example");
    sources.openai_base_url = "https://env.example/v1";
    EXPECT_EQ(choose(sources, network("", "")).where, "from-config at env.example");
    sources.flags.base_url = "https://flag.example/v1";
    sources.flags.model = "from-flag";
    EXPECT_EQ(choose(sources, network("", "")).where, "from-flag at flag.example");
    sources.flags.offline = true;
    const ModelChoice offline = choose(sources, network("", ""));
    EXPECT_TRUE(offline.offline);
}

TEST(ModelChoice, AnAddressWithoutModelIsAskedForItsOnlyOne) {
    ModelSources sources;
    sources.flags.base_url = "http://box:9/v1";
    EXPECT_EQ(choose(sources, network("http://box:9/v1/models", one_model)).where,
              "llama3.2 at box:9");
}

TEST(ModelChoice, TheKeyGoesToTheListToo) {
    ModelSources sources;
    sources.flags.base_url = "http://box:9/v1";
    sources.openai_api_key = "sk-x";
    const auto transport = network("http://box:9/v1/models", one_model);
    choose(sources, transport);
    ASSERT_EQ(transport->requests().size(), 1u);
    EXPECT_EQ(transport->requests().front().headers.get("authorization"), "Bearer sk-x");
}

TEST(ModelChoice, ALocalServerIsFoundAndSaidToBe) {
    for (const auto& [name, url] : std::vector<std::pair<std::string, std::string>>{
             {"Ollama", "http://127.0.0.1:11434/v1"},
             {"llama.cpp", "http://127.0.0.1:8080/v1"},
             {"vLLM", "http://127.0.0.1:8000/v1"},
             {"LM Studio", "http://127.0.0.1:1234/v1"}}) {
        const ModelChoice choice = choose(ModelSources(), network(url, one_model));
        EXPECT_TRUE(choice.found_locally) << name;
        EXPECT_NE(choice.where.find("llama3.2 at " + name), std::string::npos) << choice.where;
    }
}

TEST(ModelChoice, AServerThatListsNoModelsDoesNotCount) {
    for (const char* body : {"<html>hello</html>", "{}", R"({"data":{}})", "[]", ""}) {
        EXPECT_EQ(refusal(ModelSources(), network("http://127.0.0.1:8080", body)),
                  ErrorCode::not_found)
            << body;
    }
}

TEST(ModelChoice, SeveralModelsAreListedToChooseFrom) {
    const std::string url = "http://127.0.0.1:11434/v1";
    EXPECT_EQ(refusal(ModelSources(), network(url, two_models)), ErrorCode::invalid_argument);
    ModelSources sources;
    sources.interactive = true;
    std::vector<std::string> offered;
    const ChooseModel second = [&](std::string,
                                   std::vector<std::string> models) -> Task<std::size_t> {
        offered = std::move(models);
        co_return 1;
    };
    EXPECT_NE(choose(sources, network(url, two_models), second).where.find("qwen3"),
              std::string::npos);
    EXPECT_EQ(offered, (std::vector<std::string>{"llama3.2", "qwen3"}));
    sources.flags.model = "named";
    EXPECT_NE(choose(sources, network(url, two_models)).where.find("named"), std::string::npos);
}

TEST(ModelChoice, RefusalsSayWhatIsWrong) {
    ModelSources sources;
    sources.flags.provider = "oracle";
    EXPECT_EQ(refusal(sources, network("", "")), ErrorCode::invalid_argument);
    sources.flags = {};
    sources.flags.base_url = "http://box:9/v1";
    EXPECT_EQ(refusal(sources, network("", "")), ErrorCode::connect);
    sources.flags.base_url.clear();
    sources.flags.script = "/nowhere/script.json";
    EXPECT_EQ(refusal(sources, network("", "")), ErrorCode::not_found);
}

TEST(ModelChoice, ARefusedListIsAMatterOfTheKey) {
    ModelSources sources;
    sources.flags.base_url = "http://box:9/v1";
    const auto refusing = std::make_shared<MemoryTransport>(
        [](const HttpRequest&) -> MemoryResponse { return MemoryResponse(401, "{}"); });
    EXPECT_EQ(refusal(sources, refusing), ErrorCode::auth);
}

TEST(ModelChoice, SourcesComeFromTheEnvironment) {
    setenv("OPENAI_API_KEY", "sk-env", 1);
    setenv("OPENAI_BASE_URL", "http://env/v1", 1);
    setenv("CUBEPI_TEST_KEY", "named", 1);
    ConfigFile config;
    config.api_key_env = "CUBEPI_TEST_KEY";
    const ModelSources sources = model_sources(ModelFlags(), config, true);
    unsetenv("OPENAI_API_KEY");
    unsetenv("OPENAI_BASE_URL");
    unsetenv("CUBEPI_TEST_KEY");
    EXPECT_EQ(sources.openai_api_key, "sk-env");
    EXPECT_EQ(sources.openai_base_url, "http://env/v1");
    EXPECT_EQ(sources.configured_key, "named");
    EXPECT_TRUE(sources.interactive);
}

}  // namespace
}  // namespace cubepi::app
