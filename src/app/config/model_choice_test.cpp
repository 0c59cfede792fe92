#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bub/builtin/builtin.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/gemini.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "../failure.hpp"
#include "model_choice.hpp"
#include "model_sources.hpp"

// Precedence of flags, the session, the environment and the configuration in the choice of a model; and `,model`.

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

TEST(ModelChoice, InvalidFlags_AreRefused) {
    const auto refused = [](auto change) {
        ModelFlags flags;
        change(flags);
        try {
            check_model_flags(flags);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    for (const char* const url : {"localhost:11434", "http://", "https:///v1", "ftp://a/v1", " "}) {
        const std::string text = refused([url](ModelFlags& flags) { flags.base_url = url; });
        EXPECT_EQ(text.find("'" + std::string(url) + "' is not a server address (--base-url)"), 0U)
            << url;
    }
    const std::string key = refused([](ModelFlags& flags) { flags.api_key_env = "sk-1234"; });
    EXPECT_EQ(key.find("--api-key-env takes"), 0U);
    EXPECT_EQ(key.find("1234"), std::string::npos) << "it may be the key";
    const std::string none = refused([](ModelFlags& flags) { flags.script = "/nowhere/x.json"; });
    EXPECT_EQ(none.find("cannot read the script /nowhere/x.json"), 0U);
    EXPECT_EQ(refused([](ModelFlags& flags) {
                  flags.base_url = "http://box:1/v1";
                  flags.api_key_env = "MY_KEY2";
              }),
              "");
}

TEST(ModelChoice, ScriptFromPipe_IsReadOnce) {
    const std::string answers = R"(["Hello."])";
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const detail::UniqueFd read(ends[0]);
    {
        const detail::UniqueFd write(ends[1]);
        ASSERT_TRUE(detail::write_all(write.get(), answers));
    }
    ModelSources sources;
    sources.flags.script = "/proc/self/fd/" + std::to_string(read.get());
    check_model_flags(sources.flags);
    EXPECT_EQ(choose(sources, network("", "")).model.spec().id, "script");
}

TEST(ModelChoice, KeyAlone_SelectsOpenAi) {
    ModelSources sources;
    sources.environment["OPENAI_API_KEY"] = "sk-x";
    const auto no_servers = network("", "");
    const ModelChoice choice = choose(sources, no_servers);
    EXPECT_EQ(choice.where, "gpt-5.1 at api.openai.com");
    EXPECT_FALSE(choice.found_locally);
    EXPECT_TRUE(no_servers->requests().empty()) << "nothing is sent before the first prompt";
}

TEST(ModelChoice, FlagsEnvironmentAndConfiguration_ApplyInThisOrder) {
    ModelSources sources;
    sources.config.model = "from-config";
    sources.config.base_url = "https://config.example/v1";
    sources.config.api_key = "k";
    EXPECT_EQ(choose(sources, network("", "")).where, "from-config at config.example");
    sources.environment["OPENAI_BASE_URL"] = "https://env.example/v1";
    EXPECT_EQ(choose(sources, network("", "")).where, "from-config at env.example");
    sources.flags.base_url = "https://flag.example/v1";
    sources.flags.model = "from-flag";
    EXPECT_EQ(choose(sources, network("", "")).where, "from-flag at flag.example");
    sources.flags.offline = true;
    const ModelChoice offline = choose(sources, network("", ""));
    EXPECT_TRUE(offline.offline);
}

TEST(ModelChoice, AddressWithoutModel_UsesItsOnlyListedModel) {
    ModelSources sources;
    sources.flags.base_url = "http://box:9/v1";
    EXPECT_EQ(choose(sources, network("http://box:9/v1/models", one_model)).where,
              "llama3.2 at box:9");
}

TEST(ModelChoice, ModelListRequest_SendsTheKey) {
    ModelSources sources;
    sources.environment["OPENAI_BASE_URL"] = "http://box:9/v1";
    sources.environment["OPENAI_API_KEY"] = "sk-x";
    const auto transport = network("http://box:9/v1/models", one_model);
    choose(sources, transport);
    ASSERT_EQ(transport->requests().size(), 1u);
    EXPECT_EQ(transport->requests().front().headers.get("authorization"), "Bearer sk-x");
}

TEST(ModelChoice, LocalServer_IsFoundAndAnnounced) {
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

TEST(ModelChoice, ServerWithoutListedModels_IsIgnored) {
    for (const char* body : {"<html>hello</html>", "{}", R"({"data":{}})", "[]", ""}) {
        EXPECT_EQ(refusal(ModelSources(), network("http://127.0.0.1:8080", body)),
                  ErrorCode::not_found)
            << body;
    }
}

TEST(ModelChoice, SeveralModels_AreListedToChooseFrom) {
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

TEST(ModelChoice, Refusal_NamesTheCause) {
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

TEST(ModelChoice, RefusedModelList_IsAuthenticationError) {
    ModelSources sources;
    sources.flags.base_url = "http://box:9/v1";
    const auto refusing = std::make_shared<MemoryTransport>(
        [](const HttpRequest&) -> MemoryResponse { return MemoryResponse(401, "{}"); });
    EXPECT_EQ(refusal(sources, refusing), ErrorCode::auth);
}

TEST(ModelChoice, UnavailableModelList_NamesServerAndKeySource) {
    const auto refuses = std::make_shared<MemoryTransport>(
        [](const HttpRequest&) { return MemoryResponse(401, "{}"); });
    ModelSources sources;
    sources.environment["OPENAI_API_KEY"] = "sk-x";
    sources.environment["OPENAI_BASE_URL"] = "http://box:8000/v1";
    const auto error_text = [&] {
        try {
            choose(sources, refuses);
        } catch (...) {
            return explain(std::current_exception()).text;
        }
        return std::string("nothing");
    };
    EXPECT_EQ(error_text(),
              "authentication failed at box:8000 (HTTP 401).\n"
              "  Server message: the response is empty\n"
              "  Check the key: echo $OPENAI_API_KEY (it begins with 'sk-'), then: cubepi doctor");
    sources.environment.clear();
    sources.config.provider = "openai";
    sources.config.base_url = "http://box:8000/v1";
    sources.config.api_key = "sk-y";
    const std::string by_file = error_text();
    EXPECT_NE(by_file.find("\n  Check api_key or api_key_env in "), std::string::npos) << by_file;
    sources.config.model = "lab";
    EXPECT_EQ(choose(sources, refuses).key_variable, "") << "it is not that of a variable";
}

TEST(ModelChoice, Environment_ProvidesTheSources) {
    setenv("OPENAI_API_KEY", "sk-env", 1);
    setenv("OPENAI_BASE_URL", "http://env/v1", 1);
    setenv("CUBEPI_TEST_KEY", "named", 1);
    setenv("CUBEPI_TEST_OTHER", "of the provider", 1);
    ConfigFile config;
    config.api_key_env = "CUBEPI_TEST_KEY";
    config.providers.emplace_back();
    config.providers.back().name = "work";
    config.providers.back().api_key_env = "CUBEPI_TEST_OTHER";
    const ModelSources sources = model_sources(ModelFlags(), config, true);
    for (const char* name :
         {"OPENAI_API_KEY", "OPENAI_BASE_URL", "CUBEPI_TEST_KEY", "CUBEPI_TEST_OTHER"})
        unsetenv(name);
    const Environment expected{{"OPENAI_API_KEY", "sk-env"},
                               {"OPENAI_BASE_URL", "http://env/v1"},
                               {"CUBEPI_TEST_KEY", "named"},
                               {"CUBEPI_TEST_OTHER", "of the provider"}};
    EXPECT_EQ(sources.environment, expected);
    EXPECT_TRUE(sources.interactive);
}

ProviderConfig work_provider() {
    ProviderConfig work;
    work.name = "work";
    work.type = ModelApi::anthropic_messages;
    work.base_url = "https://llm.work.example";
    work.api_key_env = "WORK_KEY";
    work.model = "lab-model";
    return work;
}

TEST(Providers, AnthropicKeyAlone_SelectsAnthropic) {
    ModelSources sources;
    sources.environment["ANTHROPIC_API_KEY"] = "sk-ant-x";
    const Endpoint endpoint = choose_endpoint(sources);
    EXPECT_EQ(endpoint.type, ModelApi::anthropic_messages);
    EXPECT_EQ(endpoint.base_url, "https://api.anthropic.com");
    EXPECT_EQ(endpoint.api_key, "sk-ant-x");
    EXPECT_FALSE(endpoint.model.empty());
    EXPECT_EQ(choose(sources, network("", "")).where, endpoint.model + " at api.anthropic.com");
    sources.environment["OPENAI_API_KEY"] = "sk-x";
    EXPECT_EQ(choose_endpoint(sources).type, ModelApi::openai_chat) << "the first of two keys";
    sources.flags.provider = "anthropic";
    EXPECT_EQ(choose_endpoint(sources).api_key, "sk-ant-x");
}

TEST(Providers, NamedProvider_HasOwnAddressKeyAndModel) {
    ModelSources sources;
    sources.config.providers.push_back(work_provider());
    sources.environment["WORK_KEY"] = "wk";
    sources.environment["ANTHROPIC_API_KEY"] = "sk-ant-x";
    sources.flags.provider = "work";
    const Endpoint endpoint = choose_endpoint(sources);
    EXPECT_EQ(endpoint.type, ModelApi::anthropic_messages);
    EXPECT_EQ(endpoint.base_url, "https://llm.work.example");
    EXPECT_EQ(endpoint.api_key, "wk") << "never the key of another service";
    EXPECT_EQ(endpoint.model, "lab-model");
    sources.config.providers.front().api_key_env.clear();
    EXPECT_EQ(choose_endpoint(sources).api_key, "") << "a key goes where it was meant to go";
    sources.flags.provider.clear();
    sources.config.provider = "work";
    EXPECT_EQ(choose_endpoint(sources).provider, "work") << "the file's own choice";
    sources.config.provider.clear();
    sources.environment.clear();
    EXPECT_EQ(choose_endpoint(sources).provider, "work") << "there is nothing else";
}

TEST(Providers, KnownProviderElsewhere_GetsNoKeyOrModel) {
    ModelSources sources;
    ProviderConfig openai;
    openai.name = "openai";
    openai.base_url = "https://gateway.example/v1";
    sources.config.providers.push_back(openai);
    sources.environment["OPENAI_API_KEY"] = "sk-x";
    sources.environment["OPENAI_BASE_URL"] = "https://env.example/v1";
    const Endpoint endpoint = find_endpoint(sources, "openai");
    EXPECT_EQ(endpoint.base_url, "https://gateway.example/v1");
    EXPECT_EQ(endpoint.api_key, "") << "the key of the environment is for other addresses";
    EXPECT_EQ(endpoint.withheld_key, "OPENAI_API_KEY");
    EXPECT_EQ(endpoint.model, "") << "another server has other models";
}

TEST(Providers, ModelWithProviderPrefix_SelectsThatProvider) {
    ModelSources sources;
    sources.config.providers.push_back(work_provider());
    sources.environment = Environment{{"OPENAI_API_KEY", "sk-x"},
                                      {"ANTHROPIC_API_KEY", "sk-ant"},
                                      {"OPENROUTER_API_KEY", "or"},
                                      {"WORK_KEY", "wk"}};
    const auto where = [&](const std::string& model) {
        sources.flags.model = model;
        return choose(sources, network("", "")).where;
    };
    EXPECT_EQ(where("anthropic/claude-x"), "claude-x at api.anthropic.com");
    EXPECT_EQ(where("work/m"), "m at llm.work.example");
    EXPECT_EQ(where("openrouter/anthropic/claude-x"), "anthropic/claude-x at openrouter.ai");
    EXPECT_EQ(where("meta/llama"), "meta/llama at api.openai.com") << "no provider's name";
    EXPECT_EQ(where("ollama/llama3.2"), "llama3.2 at Ollama (127.0.0.1:11434)");
    sources.flags.provider = "openrouter";
    EXPECT_EQ(where("anthropic/claude-x"), "anthropic/claude-x at openrouter.ai");
    sources.flags.provider.clear();
    sources.flags.base_url = "http://box:9/v1";
    EXPECT_EQ(where("openai/gpt-oss-20b"), "openai/gpt-oss-20b at box:9");
    sources.flags = {};
    sources.config.model = "anthropic/claude-y";
    EXPECT_EQ(choose(sources, network("", "")).where, "claude-y at api.anthropic.com");
}

TEST(Providers, TopLevelSettings_ApplyToTheirProviderOnly) {
    ModelSources sources;
    sources.config.model = "gpt-x";
    sources.config.base_url = "https://config.example/v1";
    sources.config.api_key = "file-key";
    sources.flags.provider = "anthropic";
    const Endpoint other = choose_endpoint(sources);
    EXPECT_EQ(other.base_url, "https://api.anthropic.com");
    EXPECT_EQ(other.api_key, "");
    EXPECT_NE(other.model, "gpt-x");
    sources.flags.provider = "openai-responses";
    const Endpoint same = choose_endpoint(sources);
    EXPECT_EQ(same.base_url, "https://config.example/v1") << "the same service in another protocol";
    EXPECT_EQ(same.api_key, "file-key");
    EXPECT_EQ(same.type, ModelApi::openai_responses);
}

TEST(Providers, ProviderType_DecidesTheProtocol) {
    ModelSources sources;
    for (const char* key : {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"})
        sources.environment[key] = "k";
    const auto type_of = [&](const std::string& provider) -> const std::type_info& {
        sources.flags.provider = provider;
        const ModelChoice choice = choose(sources, network("", ""));
        const Provider& spoken = *choice.model.provider();
        EXPECT_EQ(spoken.provider_id(), provider);
        return typeid(spoken);
    };
    EXPECT_EQ(type_of("anthropic"), typeid(AnthropicProvider));
    EXPECT_EQ(type_of("gemini"), typeid(GeminiProvider));
    EXPECT_EQ(type_of("openai-responses"), typeid(OpenAIResponsesProvider));
    EXPECT_EQ(type_of("openai"), typeid(OpenAIProvider));
    sources.flags.base_url = "http://box:9/v1";
    sources.flags.model = "m";
    EXPECT_EQ(choose(sources, network("", "")).model.provider()->provider_id(), "box:9")
        << "it has no list prices";
}

TEST(Providers, MissingKey_IsReportedBeforeSending) {
    ModelSources sources;
    sources.flags.provider = "anthropic";
    const auto transport = network("", "");
    std::string error_text;
    try {
        choose(sources, transport);
    } catch (const Error& error) {
        error_text = error.what();
    }
    EXPECT_NE(error_text.find("export ANTHROPIC_API_KEY=..."), std::string::npos) << error_text;
    EXPECT_TRUE(error_text.starts_with("no model")) << error_text;
    EXPECT_TRUE(transport->requests().empty());
}

TEST(Providers, ConfiguredProviders_AreFoundOnce) {
    ModelSources sources;
    sources.config.providers.push_back(work_provider());
    sources.environment = Environment{{"OPENAI_API_KEY", "sk-x"}, {"ANTHROPIC_API_KEY", "sk-ant"}};
    std::vector<std::string> names;
    for (const Endpoint& endpoint : configured_endpoints(sources))
        names.push_back(endpoint.provider);
    EXPECT_EQ(names, (std::vector<std::string>{"openai", "work", "anthropic"}));
    EXPECT_TRUE(configured_endpoints(ModelSources()).empty());
}

TEST(Providers, UnknownProvider_IsRefusedWithExistingNames) {
    ModelSources sources;
    sources.config.providers.push_back(work_provider());
    std::string error_text;
    try {
        find_endpoint(sources, "oracle");
    } catch (const Error& error) {
        error_text = error.what();
    }
    for (const char* name : {"'oracle'", "openai-responses", "anthropic", "ollama", "work"})
        EXPECT_NE(error_text.find(name), std::string::npos) << error_text;
}

constexpr const char* two_listed_models = R"({"data":[{"id":"m-one"},{"id":"m-two-20250929"}]})";

ProviderConfig provider(const std::string& name, const std::string& url, const std::string& model) {
    ProviderConfig config;
    config.name = name;
    config.base_url = url;
    config.api_key = "key-of-" + name;
    config.model = model;
    return config;
}

/// Two configured providers; "work" is the default one.
ModelSources two_providers() {
    ModelSources sources;
    sources.config.provider = "work";
    sources.config.providers = {provider("work", "http://work.example/v1", "m-one"),
                                provider("ant", "http://ant.example/v1", "claude")};
    return sources;
}

JsonObject stored(const std::string& id, const std::string& of = {},
                  const std::string& address = {}) {
    StoredModel model;
    model.id = id;
    model.provider = of;
    model.address = address;
    return model.to_json();
}

std::shared_ptr<MemoryTransport> listing(const std::string& list) {
    return std::make_shared<MemoryTransport>(
        [list](const HttpRequest&) -> MemoryResponse { return MemoryResponse(200, list); });
}

std::shared_ptr<MemoryTransport> unreachable() {
    return std::make_shared<MemoryTransport>([](const HttpRequest&) -> MemoryResponse {
        return MemoryResponse::failing(
            NetworkError(ErrorCode::connect, "host", true, "Connection refused"));
    });
}

SessionModel session(const ModelSources& sources,
                     const std::shared_ptr<MemoryTransport>& transport) {
    ModelChoice initial = run(choose_model(sources, transport, ChooseModel()));
    return SessionModel(sources, transport, std::move(initial));
}

std::string refusal(SessionModel& model, const std::string& id, bool force = false) {
    try {
        (void)run(model.choose(id, force));
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
    }
    return {};
}

TEST(ModelPrecedence, SessionModel_PrecedesEnvironmentAndConfiguration) {
    ModelSources sources = two_providers();
    sources.environment["OPENAI_BASE_URL"] = "http://env.example/v1";
    sources.session = StoredModel::of(stored("ant/claude", "ant", "http://ant.example/v1"));
    const Endpoint endpoint = choose_endpoint(sources);
    EXPECT_EQ(endpoint.host(), "ant.example");
    EXPECT_EQ(endpoint.model, "claude");
    EXPECT_EQ(endpoint.api_key, "key-of-ant");
}

TEST(ModelPrecedence, EachFlagAlone_PrecedesTheSession) {
    ModelSources sources = two_providers();
    sources.session = StoredModel::of(stored("ant/claude", "ant"));
    sources.flags.model = "m-two";
    EXPECT_EQ(choose_endpoint(sources).host(), "work.example");
    EXPECT_EQ(choose_endpoint(sources).model, "m-two");
    sources.flags = {};
    sources.flags.provider = "work";
    EXPECT_EQ(choose_endpoint(sources).host(), "work.example");
    EXPECT_EQ(choose_endpoint(sources).model, "m-one");
    sources.flags = {};
    sources.flags.base_url = "http://private.example/v1";
    EXPECT_EQ(choose_endpoint(sources).host(), "private.example");
    EXPECT_NE(choose_endpoint(sources).model, "claude");
    sources.flags = {};
    sources.flags.offline = true;
    EXPECT_FALSE(uses_session(sources));
}

TEST(ModelPrecedence, MissingStoredProvider_IsAnErrorWithoutReplacement) {
    for (const JsonObject& choice : {stored("gone/claude", "gone"), stored("gone/claude"),
                                     stored("gone:claude"), stored("claude", "gone")}) {
        ModelSources sources = two_providers();
        sources.session = StoredModel::of(choice);
        try {
            (void)choose_endpoint(sources);
            ADD_FAILURE() << "another provider was used";
        } catch (const NoModelError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("provider 'gone' is not configured"), std::string::npos) << text;
            EXPECT_NE(text.find("--model"), std::string::npos) << text;
        }
    }
}

TEST(ModelPrecedence, StoredProviderWithAnotherAddress_IsAnError) {
    ModelSources sources = two_providers();
    sources.session = StoredModel::of(stored("m-one", "work", "http://private.example/v1"));
    try {
        (void)choose_endpoint(sources);
        ADD_FAILURE() << "another server was used";
    } catch (const NoModelError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("http://private.example/v1"), std::string::npos) << text;
        EXPECT_NE(text.find("http://work.example/v1"), std::string::npos) << text;
    }
}

TEST(ModelPrecedence, ModelOfTheSession_HasNoFallbacks) {
    ModelSources sources = two_providers();
    sources.config.fallback_models = {"ant/claude"};
    EXPECT_EQ(fallback_models(sources, choose_endpoint(sources)).size(), 1u);
    sources.session = StoredModel::of(stored("work/m-one", "work"));
    EXPECT_TRUE(fallback_models(sources, choose_endpoint(sources)).empty());
}

TEST(SessionModel, StoredModel_IsSelectedAndNamedEachTurn) {
    SessionModel model = session(two_providers(), unreachable());
    std::vector<std::string> shown;
    model.on_change([&shown](const ModelChoice& choice) { shown.push_back(choice.where); });
    EXPECT_EQ(model.select({}), "");
    EXPECT_EQ(model.current().where, "m-one at work.example");
    const std::string id = model.select(stored("ant/claude", "ant"));
    EXPECT_EQ(model.find(id).spec().id, "claude");
    EXPECT_EQ(model.current().where, "claude at ant.example");
    EXPECT_EQ(model.select({}), "");
    EXPECT_EQ(shown, (std::vector<std::string>{"claude at ant.example", "m-one at work.example"}));
}

TEST(SessionModel, ModelFlag_DisablesTheStoredModel) {
    ModelSources sources = two_providers();
    sources.flags.base_url = "http://private.example/v1";
    sources.flags.model = "private";
    SessionModel model = session(sources, unreachable());
    EXPECT_EQ(model.select(stored("ant/claude", "ant")), "");
    EXPECT_EQ(model.current().where, "private at private.example");
}

TEST(SessionModel, ChosenModel_OverridesFlagsAndKeepsTheirServer) {
    ModelSources sources = two_providers();
    sources.flags.base_url = "http://private.example/v1";
    sources.flags.model = "private";
    SessionModel model = session(sources, listing(two_listed_models));
    const JsonObject data = run(model.choose("m-one", false));
    EXPECT_EQ(model.current().where, "m-one at private.example") << "shown at once";
    const std::string id = model.select(data);
    EXPECT_EQ(model.find(id).spec().id, "m-one");
    EXPECT_EQ(model.current().where, "m-one at private.example");
    EXPECT_EQ(model.select(stored("ant/claude", "ant")), "") << "of another process";
    // Without the flag the same session does not send its text to the default server.
    ModelSources later = two_providers();
    later.session = StoredModel::of(data);
    EXPECT_THROW(choose_endpoint(later), NoModelError);
}

TEST(SessionModel, FlagsToResume_LeadToCurrentModel) {
    SessionModel plain = session(two_providers(), listing(two_listed_models));
    EXPECT_EQ(plain.flags_to_resume(), "");
    (void)run(plain.choose("m-two", false));
    EXPECT_EQ(plain.flags_to_resume(), "") << "the session has it";
    ModelSources sources = two_providers();
    sources.flags.provider = "work";
    sources.flags.base_url = "http://private.example/v1";
    sources.flags.model = "a model";
    SessionModel model = session(sources, listing(two_listed_models));
    EXPECT_EQ(model.flags_to_resume(),
              " --provider work --base-url http://private.example/v1 --model 'a model'");
    (void)run(model.choose("m-one", false));
    EXPECT_EQ(model.flags_to_resume(),
              " --provider work --base-url http://private.example/v1 --model m-one");
}

TEST(SessionModel, UnusableStoredModel_FailsOnlyTheTurn) {
    SessionModel model = session(two_providers(), listing(two_listed_models));
    const std::string id = model.select(stored("gone/claude", "gone"));
    EXPECT_THROW(model.find(id), NoModelError);
    const JsonObject data = run(model.choose("m-one", false));
    EXPECT_EQ(model.find(model.select(data)).spec().id, "m-one");
}

TEST(SessionModel, ModelNotListedByEndpoint_IsRefused) {
    SessionModel model = session(two_providers(), listing(two_listed_models));
    const std::string text = refusal(model, "m-three");
    EXPECT_NE(text.find("unknown model 'm-three'"), std::string::npos) << text;
    EXPECT_NE(text.find("force=true"), std::string::npos) << text;
    EXPECT_EQ(model.current().endpoint.model, "m-one");
    EXPECT_EQ(refusal(model, "m-two"), "") << "an alias of the dated one";
    EXPECT_EQ(refusal(model, "m-three", true), "");
    EXPECT_EQ(model.current().endpoint.model, "m-three");
}

TEST(SessionModel, UnknownProvider_IsRefusedByName) {
    SessionModel model = session(two_providers(), listing(two_listed_models));
    const std::string text = refusal(model, "unknown/m-one");
    EXPECT_NE(text.find("'unknown' is not a provider"), std::string::npos) << text;
}

TEST(SessionModel, ChoiceWithoutModelList_AcceptsOnlyConfiguredModels) {
    SessionModel model = session(two_providers(), unreachable());
    const std::string text = refusal(model, "m-three");
    EXPECT_NE(text.find("Connection refused"), std::string::npos) << text;
    EXPECT_NE(text.find(",model m-three force=true"), std::string::npos) << text;
    EXPECT_EQ(refusal(model, "ant/claude"), "");
    EXPECT_EQ(refusal(model, "ant/other", true), "");
}

TEST(SessionModel, ModelList_MarksTheCurrentModel) {
    SessionModel model = session(two_providers(), listing(two_listed_models));
    const std::string text = run(model.list());
    EXPECT_NE(text.find("Models of work (work.example):\n* m-one\n  m-two-20250929\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("(ant)"), std::string::npos) << text;
}

TEST(SessionModel, UnknownServer_IsNamedByAddress) {
    ModelSources sources;
    sources.flags.base_url = "http://127.0.0.1:9/v1";
    sources.flags.model = "local";
    SessionModel model = session(sources, listing(R"({"data":[{"id":"mouse"}]})"));
    const SessionModel::Offer offered = run(model.offer());
    EXPECT_EQ(offered.heading, "Models of 127.0.0.1:9");
    EXPECT_EQ(offered.ids, std::vector<std::string>{"mouse"});
    EXPECT_EQ(offered.current, "local");
}

TEST(SessionModel, LongModelList_IsBounded) {
    std::string list = R"({"data":[)";
    for (int i = 0; i < 200; ++i)
        list += (i ? "," : "") + (R"({"id":"m-)" + std::to_string(i) + R"("})");
    SessionModel model = session(two_providers(), listing(list + "]}"));
    const std::string text = run(model.list());
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40);
    EXPECT_NE(text.find("* m-one\n"), std::string::npos) << text;
    EXPECT_NE(text.find("and 170 more"), std::string::npos) << text;
}

TEST(SessionModel, MissingModelList_ShowsConfiguredModels) {
    SessionModel model = session(two_providers(), unreachable());
    const std::string text = run(model.list());
    EXPECT_NE(text.find("Connection refused"), std::string::npos) << text;
    EXPECT_NE(text.find("\n* work/m-one\n  ant/claude\n"), std::string::npos) << text;
}

TEST(SessionModel, OfflineModel_IsTheOnlyOne) {
    ModelSources sources;
    sources.flags.offline = true;
    SessionModel model = session(sources, unreachable());
    EXPECT_NE(run(model.list()).find("offline model"), std::string::npos);
    EXPECT_NE(refusal(model, "m-one").find("--offline"), std::string::npos);
}

TEST(ShownSpec, KnownModel_HasItsContextWindow) {
    ModelSources sources;
    sources.environment["ANTHROPIC_API_KEY"] = "sk-ant-x";
    const ModelChoice choice = run(choose_model(sources, unreachable(), ChooseModel()));
    EXPECT_FALSE(choice.model.spec().context_window) << "a request is not changed by it";
    EXPECT_GT(shown_spec(choice)->context_window.value_or(0), 100'000);
    EXPECT_EQ(shown_spec(choice)->id, choice.model.spec().id);
}

TEST(ShownSpec, UnknownWindow_IsTheConfiguredOne) {
    ModelSources sources = two_providers();
    sources.config.context_window = 32768;
    SessionModel model = session(sources, listing(two_listed_models));
    EXPECT_EQ(shown_spec(model.current())->context_window, 32768);
}

/// The window of a model that the session has switched to is that of its own endpoint.
TEST(Compaction, D111_SwitchedModel_HasItsOwnWindow) {
    ModelSources sources = two_providers();
    sources.environment["ANTHROPIC_API_KEY"] = "sk-ant-x";
    const ModelChoice choice = run(choose_model(sources, unreachable(), ChooseModel()));
    bub::BuiltinOptions options;
    set_compaction(options, sources, choice, unreachable());
    EXPECT_FALSE(options.context_window(choice.model));
    const Endpoint other =
        endpoint_for_model(sources, choice.endpoint, "anthropic/claude-sonnet-4-5");
    EXPECT_GT(options.context_window(choice_of(sources, other).model).value_or(0), 100'000);
}

/// A list of models is asked for once, and not if the configuration has the window.
TEST(Compaction, D111_WindowOfServersList_IsFoundOnce) {
    ModelSources sources = two_providers();
    std::size_t asked = 0;
    const auto lists = std::make_shared<MemoryTransport>([&asked](const HttpRequest&) {
        ++asked;
        return MemoryResponse(200, R"({"data":[{"id":"other","context_length":7},
                {"id":"large-20251101","max_model_len":16384},{"id":"large","context_length":0}]})");
    });
    const ModelChoice choice = run(choose_model(sources, unreachable(), ChooseModel()));
    ModelChoice large = choice;
    large.endpoint.model = "large";
    large.model = large.endpoint.bind("large", CallLimits());
    bub::BuiltinOptions options;
    set_compaction(options, sources, large, lists);
    EXPECT_FALSE(options.context_window(large.model));
    EXPECT_FALSE(shown_spec(large)->context_window);
    EXPECT_EQ(run(options.find_context_window(large.model)), 16384);
    EXPECT_EQ(run(options.find_context_window(large.model)), 16384);
    EXPECT_EQ(asked, 1u);
    EXPECT_EQ(options.context_window(large.model), 16384);
    EXPECT_EQ(shown_spec(large)->context_window, 16384) << "for the screen";
    sources.config.context_window = 9'000;
    large.context_window = 9'000;
    EXPECT_EQ(shown_spec(large)->context_window, 9'000);
}

TEST(Compaction, D111_ListThatFails_IsNotAskedForAgain) {
    const ModelSources sources = two_providers();
    std::size_t asked = 0;
    const auto fails = std::make_shared<MemoryTransport>([&asked](const HttpRequest&) {
        ++asked;
        return MemoryResponse(404, "no such page");
    });
    const ModelChoice choice = run(choose_model(sources, unreachable(), ChooseModel()));
    bub::BuiltinOptions options;
    set_compaction(options, sources, choice, fails);
    EXPECT_FALSE(run(options.find_context_window(choice.model)));
    EXPECT_FALSE(run(options.find_context_window(choice.model)));
    EXPECT_EQ(asked, 1u);
}

TEST(Compaction, D113_UnknownSummaryModel_IsNamed) {
    ModelSources sources = two_providers();
    sources.config.compact_model = "anthropic/claude-sonnet-4-5";
    const ModelChoice choice = run(choose_model(sources, unreachable(), ChooseModel()));
    bub::BuiltinOptions options;
    try {
        set_compaction(options, sources, choice, unreachable());
        ADD_FAILURE() << "there is no key";
    } catch (const NoModelError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("compact_model: ")) << error.what();
    }
}

}  // namespace

}  // namespace cubepi::app
