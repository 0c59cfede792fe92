// Precedence of flags, the session, the environment and the configuration in the choice of a model; and `,model`.

#include "session_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "turn_settings.hpp"

namespace cubepi::app {
namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

constexpr const char* two_models = R"({"data":[{"id":"m-one"},{"id":"m-two-20250929"}]})";

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

TEST(ModelPrecedence, TheSessionBeatsEnvironmentAndConfiguration) {
    ModelSources sources = two_providers();
    sources.environment["OPENAI_BASE_URL"] = "http://env.example/v1";
    sources.session = StoredModel::of(stored("ant/claude", "ant", "http://ant.example/v1"));
    const Endpoint endpoint = choose_endpoint(sources);
    EXPECT_EQ(endpoint.host(), "ant.example");
    EXPECT_EQ(endpoint.model, "claude");
    EXPECT_EQ(endpoint.api_key, "key-of-ant");
}

TEST(ModelPrecedence, EachFlagAloneBeatsTheSession) {
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

TEST(ModelPrecedence, AStoredProviderThatIsGoneIsAnErrorAndNotAnotherProvider) {
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

TEST(ModelPrecedence, AStoredProviderWithAnotherAddressIsAnError) {
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

TEST(ModelPrecedence, AModelOfTheSessionHasNoFallbacks) {
    ModelSources sources = two_providers();
    sources.config.fallback_models = {"ant/claude"};
    EXPECT_EQ(fallback_models(sources, choose_endpoint(sources)).size(), 1u);
    sources.session = StoredModel::of(stored("work/m-one", "work"));
    EXPECT_TRUE(fallback_models(sources, choose_endpoint(sources)).empty());
}

TEST(SessionModel, SelectsTheStoredModelForEachTurnAndSaysWhichItIs) {
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

TEST(SessionModel, WithAFlagTheStoredModelIsNotUsed) {
    ModelSources sources = two_providers();
    sources.flags.base_url = "http://private.example/v1";
    sources.flags.model = "private";
    SessionModel model = session(sources, unreachable());
    EXPECT_EQ(model.select(stored("ant/claude", "ant")), "");
    EXPECT_EQ(model.current().where, "private at private.example");
}

TEST(SessionModel, WhatIsChosenHereBeatsTheFlagsAndStaysAtTheirServer) {
    ModelSources sources = two_providers();
    sources.flags.base_url = "http://private.example/v1";
    sources.flags.model = "private";
    SessionModel model = session(sources, listing(two_models));
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

TEST(SessionModel, AStoredModelThatCannotBeUsedFailsTheTurnOnly) {
    SessionModel model = session(two_providers(), listing(two_models));
    const std::string id = model.select(stored("gone/claude", "gone"));
    EXPECT_THROW(model.find(id), NoModelError);
    const JsonObject data = run(model.choose("m-one", false));
    EXPECT_EQ(model.find(model.select(data)).spec().id, "m-one");
}

TEST(SessionModel, RefusesAModelThatItsEndpointDoesNotList) {
    SessionModel model = session(two_providers(), listing(two_models));
    const std::string text = refusal(model, "m-three");
    EXPECT_NE(text.find("unknown model 'm-three'"), std::string::npos) << text;
    EXPECT_NE(text.find("force=true"), std::string::npos) << text;
    EXPECT_EQ(model.current().endpoint.model, "m-one");
    EXPECT_EQ(refusal(model, "m-two"), "") << "an alias of the dated one";
    EXPECT_EQ(refusal(model, "m-three", true), "");
    EXPECT_EQ(model.current().endpoint.model, "m-three");
}

TEST(SessionModel, RefusesAnUnknownProviderByName) {
    SessionModel model = session(two_providers(), listing(two_models));
    const std::string text = refusal(model, "unknown/m-one");
    EXPECT_NE(text.find("'unknown' is not a provider"), std::string::npos) << text;
}

TEST(SessionModel, WithoutAListOnlyConfiguredModelsAreTaken) {
    SessionModel model = session(two_providers(), unreachable());
    const std::string text = refusal(model, "m-three");
    EXPECT_NE(text.find("Connection refused"), std::string::npos) << text;
    EXPECT_NE(text.find(",model m-three force=true"), std::string::npos) << text;
    EXPECT_EQ(refusal(model, "ant/claude"), "");
    EXPECT_EQ(refusal(model, "ant/other", true), "");
}

TEST(SessionModel, ListsTheModelsOfTheEndpointWithTheCurrentOneMarked) {
    SessionModel model = session(two_providers(), listing(two_models));
    const std::string text = run(model.list());
    EXPECT_NE(text.find("Models of work (work.example):\n* m-one\n  m-two-20250929\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("(ant)"), std::string::npos) << text;
}

TEST(SessionModel, ALongListIsBounded) {
    std::string list = R"({"data":[)";
    for (int i = 0; i < 200; ++i)
        list += (i ? "," : "") + (R"({"id":"m-)" + std::to_string(i) + R"("})");
    SessionModel model = session(two_providers(), listing(list + "]}"));
    const std::string text = run(model.list());
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40);
    EXPECT_NE(text.find("* m-one\n"), std::string::npos) << text;
    EXPECT_NE(text.find("and 170 more"), std::string::npos) << text;
}

TEST(SessionModel, WithoutAListTheConfiguredModelsAreShown) {
    SessionModel model = session(two_providers(), unreachable());
    const std::string text = run(model.list());
    EXPECT_NE(text.find("Connection refused"), std::string::npos) << text;
    EXPECT_NE(text.find("\n* work/m-one\n  ant/claude\n"), std::string::npos) << text;
}

TEST(SessionModel, TheOfflineModelIsTheOnlyOne) {
    ModelSources sources;
    sources.flags.offline = true;
    SessionModel model = session(sources, unreachable());
    EXPECT_NE(run(model.list()).find("offline model"), std::string::npos);
    EXPECT_NE(refusal(model, "m-one").find("--offline"), std::string::npos);
}

TEST(ShownSpec, AKnownModelHasItsContextWindow) {
    ModelSources sources;
    sources.environment["ANTHROPIC_API_KEY"] = "sk-ant-x";
    const ModelChoice choice = run(choose_model(sources, unreachable(), ChooseModel()));
    EXPECT_FALSE(choice.model.spec().context_window) << "a request is not changed by it";
    EXPECT_GT(shown_spec(choice)->context_window.value_or(0), 100'000);
    EXPECT_EQ(shown_spec(choice)->id, choice.model.spec().id);
}

}  // namespace
}  // namespace cubepi::app
