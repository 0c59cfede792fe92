#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/fallback.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "../models.hpp"
#include "model_choice.hpp"
#include "model_sources.hpp"

// Precedence of flags, the environment, the configuration file, BUB_* and Bub's file.

namespace cubepi::app {

namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

constexpr const char* bub_file = "/home/you/.bub/config.yml";

/// Bub's settings as they come out of its file.
void in_bub_file(ModelSources& sources, const std::string& member, const std::string& value) {
    if (member == "model") sources.bub.model = value;
    if (member == "api_key") sources.bub.api_key = value;
    if (member == "api_base") sources.bub.api_base = value;
    sources.bub.origins[member] = bub_file;
}

struct Layer {
    std::string name;
    std::function<void(ModelSources&)> say;
    std::string base_url;
    std::string base_url_from;
    std::string key;
    std::string key_from;
    std::string model;
    std::string model_from;
};

/// From the weakest on. Each says something of its own about the same provider.
std::vector<Layer> layers() {
    const auto variable = [](const char* name, const char* value) {
        return [=](ModelSources& sources) { sources.environment[name] = value; };
    };
    return {
        {"Bub's file",
         [](ModelSources& sources) {
             in_bub_file(sources, "model", "openai:of-bub");
             in_bub_file(sources, "api_key", "bub-key");
             in_bub_file(sources, "api_base", "http://bub/v1");
         },
         "http://bub/v1", bub_file, "bub-key", bub_file, "of-bub", bub_file},
        {"BUB_API_KEY",
         [](ModelSources& sources) {
             sources.bub.api_keys["openai"] = "bub-env-key";
             sources.bub.origins["api_keys.openai"] = "BUB_OPENAI_API_KEY";
         },
         "http://bub/v1", bub_file, "bub-env-key", "BUB_OPENAI_API_KEY", "of-bub", bub_file},
        {"model in config.yaml", [](ModelSources& sources) { sources.config.model = "of-file"; },
         "http://bub/v1", bub_file, "bub-env-key", "BUB_OPENAI_API_KEY", "of-file", config_origin},
        {"api_key in config.yaml",
         [](ModelSources& sources) { sources.config.api_key = "file-key"; }, "http://bub/v1",
         bub_file, "bub-env-key", "BUB_OPENAI_API_KEY", "of-file", config_origin},
        {"base_url in config.yaml",
         [](ModelSources& sources) { sources.config.base_url = "http://file/v1"; },
         "http://file/v1", config_origin, "file-key", config_origin, "of-file", config_origin},
        {"OPENAI_API_KEY", variable("OPENAI_API_KEY", "env-key"), "http://file/v1", config_origin,
         "file-key", config_origin, "of-file", config_origin},
        {"OPENAI_BASE_URL", variable("OPENAI_BASE_URL", "http://env/v1"), "http://env/v1",
         "OPENAI_BASE_URL", "env-key", "OPENAI_API_KEY", "of-file", config_origin},
        {"--model", [](ModelSources& sources) { sources.flags.model = "of-flag"; }, "http://env/v1",
         "OPENAI_BASE_URL", "env-key", "OPENAI_API_KEY", "of-flag", "--model"},
        {"--base-url", [](ModelSources& sources) { sources.flags.base_url = "http://flag/v1"; },
         "http://flag/v1", "--base-url", "", "", "of-flag", "--model"},
        {"--api-key-env",
         [](ModelSources& sources) {
             sources.flags.api_key_env = "FLAG_KEY";
             sources.environment["FLAG_KEY"] = "flag-key";
         },
         "http://flag/v1", "--base-url", "flag-key", "FLAG_KEY", "of-flag", "--model"},
    };
}

TEST(Precedence, EachLayer_PrecedesTheLayersBelow) {
    ModelSources sources;
    for (const Layer& layer : layers()) {
        layer.say(sources);
        const Endpoint endpoint = choose_endpoint(sources);
        EXPECT_EQ(endpoint.provider, "openai") << layer.name;
        EXPECT_EQ(endpoint.base_url, layer.base_url) << layer.name;
        EXPECT_EQ(endpoint.from.base_url, layer.base_url_from) << layer.name;
        EXPECT_EQ(endpoint.api_key, layer.key) << layer.name;
        EXPECT_EQ(endpoint.from.api_key, layer.key_from) << layer.name;
        EXPECT_EQ(endpoint.model, layer.model) << layer.name;
        EXPECT_EQ(endpoint.from.model, layer.model_from) << layer.name;
    }
}

TEST(Precedence, FirstLayerNamingAProvider_DecidesTheProvider) {
    ModelSources sources;
    const auto expect = [&](const char* provider, const char* from) {
        const Endpoint endpoint = choose_endpoint(sources);
        EXPECT_EQ(endpoint.provider, provider);
        EXPECT_EQ(endpoint.from.provider, from);
    };
    expect("", "");
    in_bub_file(sources, "model", "openrouter:openrouter/free");
    expect("openrouter", bub_file);
    sources.environment["ANTHROPIC_API_KEY"] = "k";
    expect("anthropic", "ANTHROPIC_API_KEY");
    sources.environment["OPENAI_API_KEY"] = "k";
    expect("openai", "OPENAI_API_KEY");
    sources.config.provider = "ollama";
    expect("ollama", config_origin);
    sources.flags.model = "anthropic/claude-x";
    expect("anthropic", "--model");
    sources.flags.provider = "openrouter";
    expect("openrouter", "--provider");
}

TEST(BubsSettings, BubSettings_AreUsedWhereOursAreSilent) {
    ModelSources sources;
    in_bub_file(sources, "model", "openrouter:openrouter/free");
    in_bub_file(sources, "api_key", "or-key");
    const Endpoint endpoint = choose_endpoint(sources);
    EXPECT_EQ(endpoint.base_url, "https://openrouter.ai/api/v1");
    EXPECT_EQ(endpoint.model, "openrouter/free");
    EXPECT_EQ(endpoint.api_key, "or-key");
    sources.flags.provider = "anthropic";
    EXPECT_EQ(choose_endpoint(sources).api_key, "") << "a key goes where it was meant to go";
    EXPECT_NE(choose_endpoint(sources).model, "openrouter/free");
    sources.flags = {};
    sources.flags.base_url = "http://box/v1";
    EXPECT_EQ(choose_endpoint(sources).api_key, "") << "nor to another server";
}

TEST(BubsSettings, KeyOfBub_IsWithheldFromOtherAddresses) {
    ModelSources sources;
    in_bub_file(sources, "model", "openai:m");
    in_bub_file(sources, "api_key", "bub-key");
    sources.environment["OPENAI_BASE_URL"] = "http://elsewhere/v1";
    EXPECT_EQ(choose_endpoint(sources).api_key, "");
    in_bub_file(sources, "api_base", "http://elsewhere/v1");
    EXPECT_EQ(choose_endpoint(sources).api_key, "bub-key");
    sources.environment.clear();
    sources.flags.base_url = "http://flag/v1";
    EXPECT_EQ(choose_endpoint(sources).api_key, "");
}

TEST(BubsSettings, ProviderKnownOnlyToBub_IsCompatibleServer) {
    ModelSources sources;
    in_bub_file(sources, "model", "lab:llama");
    in_bub_file(sources, "api_base", "http://lab:9/v1");
    in_bub_file(sources, "api_key", "k");
    const Endpoint endpoint = choose_endpoint(sources);
    EXPECT_EQ(endpoint.base_url, "http://lab:9/v1");
    EXPECT_EQ(endpoint.type, ModelApi::openai_chat);
    EXPECT_EQ(endpoint.api_key, "k");
    EXPECT_EQ(endpoint.model, "llama");
    sources.bub.api_base.clear();
    sources.bub.origins.erase("api_base");
    try {
        choose_endpoint(sources);
        FAIL() << "its address is not known";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(bub_file), std::string::npos) << error.what();
    }
    sources.config.provider = "ollama";
    EXPECT_EQ(choose_endpoint(sources).provider, "ollama") << "Bub's are not needed";
}

TEST(BubsSettings, UnreadableBubSetting_IsAWarningUnlessNeeded) {
    ModelSources sources;
    sources.bub.problems.push_back("cannot read /home/you/.bub/config.yml: bad");
    sources.environment["OPENAI_API_KEY"] = "k";
    const auto no_servers = std::make_shared<MemoryTransport>(std::vector<MemoryResponse>());
    const ModelChoice choice = run(choose_model(sources, no_servers, ChooseModel()));
    EXPECT_EQ(choice.warnings, sources.bub.problems);
    sources.environment.clear();
    try {
        run(choose_model(sources, no_servers, ChooseModel()));
        FAIL() << "there is no model";
    } catch (const Error& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("no model"));
        EXPECT_NE(std::string(error.what()).find("cannot read /home/you/.bub/config.yml"),
                  std::string::npos)
            << error.what();
    }
}

TEST(TurnSettings, OwnSettings_PrecedeThoseOfBub) {
    ModelSources sources;
    EXPECT_FALSE(turn_settings(sources).max_turns.value);
    sources.bub.max_steps = 9;
    sources.bub.max_tokens = 900;
    sources.bub.model_timeout = std::chrono::seconds(9);
    sources.bub.fallback_models = {"openai:b"};
    sources.bub.origins = {{"max_steps", "BUB_MAX_STEPS"}, {"max_tokens", bub_file}};
    EXPECT_EQ(turn_settings(sources).max_turns.value, 9u);
    EXPECT_EQ(turn_settings(sources).max_turns.by, "BUB_MAX_STEPS");
    EXPECT_EQ(turn_settings(sources).max_tokens.by, bub_file);
    sources.config.max_turns = 3;
    sources.config.max_tokens = 300;
    sources.config.model_timeout = std::chrono::seconds(3);
    sources.config.fallback_models = {"a"};
    const TurnSettings ours = turn_settings(sources);
    EXPECT_EQ(ours.max_turns.value, 3u);
    EXPECT_EQ(ours.max_turns.by, config_origin);
    EXPECT_EQ(ours.limits().max_tokens, 300);
    EXPECT_EQ(ours.limits().time, std::chrono::seconds(3));
    EXPECT_EQ(ours.fallback_models.value, std::vector<std::string>{"a"});
}

ModelSources with_fallbacks(std::vector<std::string> names) {
    ModelSources sources;
    sources.environment["OPENAI_API_KEY"] = "k";
    sources.config.fallback_models = std::move(names);
    return sources;
}

ModelChoice chosen(const ModelSources& sources) {
    const auto no_servers = std::make_shared<MemoryTransport>(std::vector<MemoryResponse>());
    return run(choose_model(sources, no_servers, ChooseModel()));
}

TEST(FallbackModels, FallbackWithoutProvider_BelongsToTheSameProvider) {
    ModelSources sources = with_fallbacks({"gpt-small", "anthropic/claude-x", "ollama/llama3.2"});
    sources.environment["ANTHROPIC_API_KEY"] = "a";
    const std::vector<FallbackModel> models = fallback_models(sources, choose_endpoint(sources));
    ASSERT_EQ(models.size(), 3u);
    EXPECT_EQ(models[0].endpoint.provider, "openai");
    EXPECT_EQ(models[0].endpoint.model, "gpt-small");
    EXPECT_EQ(models[1].endpoint.api_key, "a");
    EXPECT_EQ(models[1].endpoint.model, "claude-x");
    EXPECT_EQ(models[2].endpoint.model, "llama3.2");
    sources.config.fallback_models.clear();
    sources.bub.fallback_models = {"anthropic:claude-y"};
    EXPECT_EQ(fallback_models(sources, choose_endpoint(sources)).at(0).endpoint.model, "claude-y")
        << "as Bub writes it";
    sources.bub.fallback_models = {"oracle:x"};
    EXPECT_NE(fallback_models(sources, choose_endpoint(sources)).at(0).problem.find("'oracle'"),
              std::string::npos)
        << "never at another provider";
}

TEST(FallbackModels, MissingKey_OmitsTheFallbackAndReportsIt) {
    const ModelChoice choice = chosen(with_fallbacks({"anthropic/claude-x", "gpt-small"}));
    EXPECT_EQ(choice.fallbacks, std::vector<std::string>{"gpt-small"});
    ASSERT_EQ(choice.warnings.size(), 1u);
    EXPECT_EQ(choice.warnings[0],
              "the fallback model anthropic/claude-x is not used: there is no key for anthropic, "
              "since ANTHROPIC_API_KEY is not set");
}

TEST(FallbackModels, ModelOrProviderFlag_DisablesFallbacks) {
    ModelSources sources = with_fallbacks({"gpt-small"});
    EXPECT_EQ(chosen(sources).fallbacks.size(), 1u);
    sources.flags.model = "gpt-other";
    EXPECT_TRUE(chosen(sources).fallbacks.empty());
    sources.flags = {};
    sources.flags.provider = "openai";
    EXPECT_TRUE(chosen(sources).fallbacks.empty());
}

/// Servers that answer by the model that is asked for: `busy` ones with status 503.
std::shared_ptr<MemoryTransport> servers(std::string busy) {
    return std::make_shared<MemoryTransport>([=](const HttpRequest& request) -> MemoryResponse {
        if (request.body.find(busy) != std::string::npos) {
            return MemoryResponse(404, R"({"error":{"message":"no such model","type":)"
                                       R"("invalid_request_error","code":"model_not_found"}})");
        }
        return MemoryResponse(200)
            .with_header("content-type", "text/event-stream")
            .with_event(R"({"choices":[{"index":0,"delta":{"content":"hello"}}]})")
            .with_event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})")
            .with_event("[DONE]");
    });
}

TEST(FallbackModels, FallbackModel_AnswersWithConfiguredLimits) {
    ModelSources sources = with_fallbacks({"second"});
    sources.config.model = "first";
    sources.config.max_tokens = 77;
    sources.config.model_timeout = std::chrono::seconds(42);
    const auto transport = servers("\"first\"");
    const ModelChoice choice = run(choose_model(sources, transport, ChooseModel()));
    MessageList messages;
    messages.push_back(user_message("hi"));
    const auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    const AssistantMessage answer =
        run(choice.model.generate(messages, {}, {}, StreamOptions().runtime(runtime)));
    EXPECT_EQ(answer.text(), "hello") << answer.error_message;
    EXPECT_EQ(answer.model_id, "second");
    const std::vector<HttpRequest> requests = transport->requests();
    ASSERT_EQ(requests.size(), 2u);
    for (const HttpRequest& request : requests) {
        EXPECT_NE(request.body.find("77"), std::string::npos) << request.body;
        EXPECT_EQ(request.timeouts.total, std::chrono::seconds(42));
    }
}

TEST(FallbackModels, ModelChosenInConversation_IsFoundWithProvider) {
    ModelSources sources = with_fallbacks({"gpt-small"});
    sources.config.max_tokens = 77;
    const SessionModel model(sources, servers(""), chosen(sources));
    const BoundModel same = model.find("gpt-other");
    EXPECT_EQ(same.spec().id, "gpt-other");
    EXPECT_EQ(same.spec().max_tokens, 77);
    EXPECT_EQ(same.provider()->provider_id(), "openai");
    EXPECT_EQ(model.find("ollama/llama3.2").provider()->provider_id(), "ollama");
    EXPECT_THROW(model.find("anthropic/claude-x"), Error) << "there is no key";
}

Endpoint anthropic() {
    return endpoint_of(*known_provider("anthropic"), {{"ANTHROPIC_API_KEY", "sk-ant-secret"}});
}

Endpoint openai(const std::string& base_url) {
    Endpoint endpoint = endpoint_of(*known_provider("openai"), {{"OPENAI_API_KEY", "sk-secret"}});
    endpoint.redirect(base_url, "--base-url");
    return endpoint;
}

TEST(CallLimits, D16_ServerOnThisMachine_GetsMoreTime) {
    const auto first_byte = [](const char* url, const CallLimits& limits) {
        const auto transport = servers("");
        const auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
        MessageList messages;
        messages.push_back(user_message("hi"));
        (void)run(openai(url)
                      .bind("m", limits)
                      .generate(messages, {}, {}, StreamOptions().runtime(runtime)));
        return transport->requests().at(0).timeouts.first_byte;
    };
    for (const char* url : {"http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1"})
        EXPECT_EQ(first_byte(url, {}), std::chrono::minutes(30)) << url;
    EXPECT_EQ(first_byte("https://llm.example/v1", {}), std::chrono::seconds(120));
    CallLimits limits;
    limits.first_byte = std::chrono::seconds(7);
    EXPECT_EQ(first_byte("http://127.0.0.1:1/v1", limits), std::chrono::seconds(7));
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

TEST(ModelList, AnthropicList_IsRequestedPageByPage) {
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

TEST(ModelList, GeminiList_IsRequestedPageByPage) {
    const auto transport = answering(
        {MemoryResponse(200, R"({"models":[{"name":"models/gemini-a","displayName":"Gemini A",
                              "inputTokenLimit":1048576}],"nextPageToken":"t&1"})"),
         MemoryResponse(200, R"({"models":[{"name":"models/gemini-b"},{"name":"models/embed",
                              "supportedGenerationMethods":["embedContent"]}]})")});
    const Endpoint gemini =
        endpoint_of(*known_provider("gemini"), {{"GEMINI_API_KEY", "AIza-secret"}});
    const std::vector<OfferedModel> models = run(list_models(transport, gemini));
    ASSERT_EQ(models.size(), 2u);
    EXPECT_EQ(models[0].id, "gemini-a");
    EXPECT_EQ(models[0].name, "Gemini A");
    EXPECT_EQ(models[0].context_window, 1048576);
    EXPECT_EQ(models[1].id, "gemini-b");
    const std::vector<HttpRequest> requests = transport->requests();
    ASSERT_EQ(requests.size(), 2u);
    const std::string address =
        "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000";
    EXPECT_EQ(requests[0].url, address);
    EXPECT_EQ(requests[1].url, address + "&pageToken=t%261");
    EXPECT_EQ(requests[0].headers.get("x-goog-api-key"), "AIza-secret");
}

TEST(ModelList, RepeatedPage_EndsTheList) {
    MemoryResponse page(200, R"({"data":[{"id":"a"}],"has_more":true,"last_id":"a"})");
    const auto transport = std::make_shared<MemoryTransport>(
        [page](const HttpRequest&) -> MemoryResponse { return page; });
    EXPECT_EQ(run(list_models(transport, anthropic())).size(), 2u);
    EXPECT_EQ(transport->requests().size(), 2u);
}

TEST(ModelList, CompatibleServerEntries_MayLackOrAddFields) {
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

TEST(ModelList, BareArray_IsAList) {
    const auto transport = answering({MemoryResponse(200, R"([{"id":"m1"}])")});
    EXPECT_EQ(run(list_models(transport, openai("https://box.example/v1"))).size(), 1u);
}

TEST(ModelList, Refusal_NamesTheReason) {
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

TEST(ModelList, AddressWithoutScheme_IsNamedWithItsSource) {
    const Error error = refusal(openai("localhost:9"), MemoryResponse(200, "{}"));
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(),
                 "'localhost:9' is not a server address (--base-url); write the full URL, such as "
                 "http://localhost:11434/v1");
}

TEST(ModelList, DisabledLocalServers_AreNotAsked) {
    const auto transport = answering({});
    setenv("CUBEPI_LOCAL_SERVERS", "off", 1);
    const std::vector<LocalServer> servers = run(find_local_servers(transport));
    unsetenv("CUBEPI_LOCAL_SERVERS");
    EXPECT_TRUE(servers.empty());
    EXPECT_TRUE(transport->requests().empty());
}

}  // namespace

}  // namespace cubepi::app
