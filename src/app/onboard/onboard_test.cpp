#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <bub/framework.hpp>
#include <support/fake_bot_api.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "../channels/channel_kinds.hpp"
#include "../config/config_file.hpp"
#include "../program.hpp"
#include "questions.hpp"

namespace cubepi::app {

namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

/// A user with scripted answers, who leaves after the last one.
class Scripted final : public bub::OnboardingUi {
public:
    explicit Scripted(std::vector<std::string> answers)
        : answers_(answers.begin(), answers.end()) {}

    void say(std::string text) override { heard += text + "\n"; }
    Task<std::string> ask(std::string question, std::string default_value) override {
        std::string answer = next(question + " [" + default_value + "]");
        if (answer.empty()) answer = default_value;
        co_return answer;
    }
    Task<std::string> ask_secret(std::string question) override { co_return next(question); }
    /// By the beginning of an option.
    Task<std::size_t> choose(std::string question, std::vector<std::string> options,
                             std::size_t default_value) override {
        for (const std::string& option : options) heard += "- " + option + "\n";
        const std::string answer = next(question + " [" + options.at(default_value) + "]");
        if (answer.empty()) co_return default_value;
        for (std::size_t i = 0; i < options.size(); ++i) {
            if (options[i].starts_with(answer)) co_return i;
        }
        throw Error(ErrorCode::invalid_argument, "no option begins with " + answer);
    }
    Task<bool> confirm(std::string question, bool) override { co_return next(question) == "y"; }

    std::size_t left() const { return answers_.size(); }
    std::string heard;

private:
    std::string next(const std::string& question) {
        heard += question + "\n";
        if (answers_.empty()) throw Error(ErrorCode::cancelled, "had enough");
        std::string answer = answers_.front();
        answers_.pop_front();
        return answer;
    }
    std::deque<std::string> answers_;
};

TEST(OptionNamed, NumbersNamesAndBeginnings_AreOptions) {
    const std::vector<std::string> options = {
        "OpenAI (key: OPENAI_API_KEY)", "OpenAI, Responses API", "LM Studio (local server)",
        "llama.cpp (local server)",     "box (box:8000)",        "box-2 (box:8001)"};
    const std::pair<const char*, std::size_t> named[] = {
        {"1", 0},        {"6", 5},  {"openai", 0}, {"OpenAI", 0}, {"openai-responses", 1},
        {"lmstudio", 2}, {"lm", 2}, {"LLAMA", 3},  {"box", 4},    {"box-2", 5}};
    for (const auto& [answer, index] : named)
        EXPECT_EQ(option_named(answer, options), index) << answer;
    for (const char* answer : {"", "0", "7", "o", "l", "2x", "studio", "-"})
        EXPECT_EQ(option_named(answer, options), std::nullopt) << answer;
}

constexpr const char* listed = R"({"data":[{"id":"small-1"},{"id":"small-2"},{"id":"large"}]})";

/// A network in which servers of `hosts` list models to who has `key`, and nothing else answers.
std::shared_ptr<MemoryTransport> network(std::vector<std::string> hosts, std::string key = {}) {
    return std::make_shared<MemoryTransport>([=](const HttpRequest& request) -> MemoryResponse {
        for (const std::string& host : hosts) {
            if (request.url.find("//" + host) == std::string::npos) continue;
            const std::string given = std::string(request.headers.get("authorization")) +
                                      std::string(request.headers.get("x-api-key"));
            const bool right = given.find(key) != std::string::npos;
            return right ? MemoryResponse(200, listed) : MemoryResponse(401, "{}");
        }
        return MemoryResponse::failing(
            NetworkError(ErrorCode::connect, "host", true, "Connection refused"));
    });
}

struct Asked {
    JsonObject file = {};  ///< what it says afterwards
    std::string heard = {};
    std::size_t left = 0;
};

/// Asks as the program does: the patch goes through the hook into what the file says.
Asked ask(const std::string& yaml, ModelQuestionsInput input, std::vector<std::string> answers,
          bool with_user = true) {
    const JsonObject before = yaml_values(yaml);
    bub::Framework framework;
    bub::BuiltinOptions options;
    options.onboard = [input](bub::OnboardCall& call) -> Task<std::optional<JsonObject>> {
        ModelQuestionsInput copy = input;
        std::optional<JsonObject> made = co_await ask_for_model(std::move(copy), call.ui);
        co_return made;
    };
    load_plugins(framework, {}, std::move(options));
    Scripted user(std::move(answers));
    Asked asked;
    asked.file = run(framework.onboard(before, with_user ? &user : nullptr));
    asked.heard = user.heard;
    asked.left = user.left();
    return asked;
}

ModelQuestionsInput input_with(std::shared_ptr<MemoryTransport> transport,
                               const ConfigFile& config = {}, Environment environment = {}) {
    ModelQuestionsInput input;
    input.sources.config = config;
    input.sources.environment = std::move(environment);
    input.sources.interactive = true;
    input.transport = std::move(transport);
    return input;
}

TEST(Onboard, NewUser_ChoosesProviderKeyAndModel) {
    const auto transport = network({"api.anthropic.com"}, "sk-ant-typed");
    const Asked asked = ask("", input_with(transport), {"Anthropic", "sk-ant-typed", "large"});
    EXPECT_EQ(
        asked.file,
        (JsonObject{{"provider", "anthropic"}, {"model", "large"}, {"api_key", "sk-ant-typed"}}));
    EXPECT_EQ(asked.left, 0u);
    EXPECT_NE(asked.heard.find("small-1"), std::string::npos) << "what is offered is listed";
    EXPECT_NE(asked.heard.find("Which provider? [OpenAI]"), std::string::npos) << asked.heard;
}

TEST(Onboard, KeyOfEnvironment_IsUsedAndNeverWritten) {
    const auto transport = network({"api.anthropic.com"}, "sk-ant-env");
    const Asked asked = ask("", input_with(transport, {}, {{"ANTHROPIC_API_KEY", "sk-ant-env"}}),
                            {"Anthropic", "2"});
    EXPECT_EQ(asked.file, (JsonObject{{"provider", "anthropic"}, {"model", "small-2"}}));
    EXPECT_NE(asked.heard.find("taken from ANTHROPIC_API_KEY"), std::string::npos) << asked.heard;
    EXPECT_EQ(asked.heard.find("sk-ant-env"), std::string::npos);
}

TEST(Onboard, KeyOfBub_IsUsedAndNeverWritten) {
    ModelQuestionsInput input = input_with(network({"openrouter.ai"}, "or-secret"));
    input.sources.bub.api_keys["openrouter"] = "or-secret";
    input.sources.bub.origins["api_keys.openrouter"] = "BUB_OPENROUTER_API_KEY";
    const Asked asked = ask("", input, {"", "large"});
    EXPECT_EQ(asked.file, (JsonObject{{"provider", "openrouter"}, {"model", "large"}}));
    EXPECT_NE(asked.heard.find("taken from BUB_OPENROUTER_API_KEY"), std::string::npos);
}

TEST(Onboard, AnotherServer_GetsOwnEntryWithoutForeignKey) {
    const auto transport = network({"box:8000"});
    const Asked asked =
        ask("", input_with(transport, {}, {{"OPENAI_API_KEY", "sk-openai"}}),
            {"Another OpenAI-compatible", "box", "http://box:8000/v1", "", "small-1"});
    EXPECT_EQ(
        asked.file,
        (JsonObject{{"provider", "box"},
                    {"providers", JsonObject{{"box", JsonObject{{"base_url", "http://box:8000/v1"},
                                                                {"model", "small-1"}}}}}}));
    for (const HttpRequest& request : transport->requests())
        EXPECT_EQ(request.headers.get("authorization"), "") << request.url;
}

TEST(Onboard, ChangedEndpoint_DropsKeyAndModel) {
    ConfigFile config;
    config.provider = "openai";
    config.model = "gpt-x";
    config.api_key = "sk-old";
    const std::string yaml =
        "provider: openai\nmodel: gpt-x\napi_key: sk-old\nallow: [\"write: *\"]\n";
    const Asked asked =
        ask(yaml, input_with(network({"api.anthropic.com"}), config), {"Anthropic", "", "large"});
    EXPECT_EQ(asked.file, (JsonObject{{"provider", "anthropic"},
                                      {"model", "large"},
                                      {"allow", JsonArray{"write: *"}}}));
}

TEST(Onboard, AnotherAddress_NeitherReplacesNorReusesAnEntry) {
    ConfigFile config;
    config.provider = "work";
    config.providers.emplace_back();
    config.providers.back().name = "work";
    config.providers.back().base_url = "http://old/v1";
    config.providers.back().api_key = "secret";
    config.providers.back().model = "old-model";
    const std::string yaml =
        "provider: work\nproviders: {work: {base_url: 'http://old/v1', api_key: secret, model: "
        "old-model}, other: {base_url: 'http://other/v1', api_key: k}}\n";
    const auto transport = network({"new"});
    const Asked asked =
        ask(yaml, input_with(transport, config), {"work", "http://new/v1", "", "small-1"});
    const JsonObject& providers = asked.file.at("providers").get_object();
    EXPECT_EQ(providers.at("work"), yaml_values(yaml).at("providers").at("work"));
    EXPECT_EQ(asked.file.at("provider"), "new");
    EXPECT_EQ(providers.at("new"),
              Json(JsonObject{{"base_url", "http://new/v1"}, {"model", "small-1"}}));
    EXPECT_EQ(providers.at("other").at("api_key"), "k") << "others keep theirs";
    for (const HttpRequest& request : transport->requests())
        EXPECT_EQ(request.headers.get("authorization"), "") << request.url;
}

TEST(Onboard, Flags_KeepTheEntryOfAnotherServer) {
    const std::string yaml =
        "providers:\n  new:\n    base_url: http://new:1/v1\n    model: m\n"
        "  work:\n    type: anthropic\n    base_url: http://old\n    api_key: secret\n";
    ConfigFile config;
    config.providers.resize(2);
    config.providers[0].name = "new";
    config.providers[0].base_url = "http://new:1/v1";
    config.providers[1].name = "work";
    config.providers[1].type = ModelApi::anthropic_messages;
    config.providers[1].base_url = "http://old";
    config.providers[1].api_key = "secret";
    ModelQuestionsInput input = input_with(network({}), config);
    input.sources.flags.provider = "work";
    input.sources.flags.base_url = "http://new:2";
    input.sources.flags.model = "m2";
    const Asked asked = ask(yaml, input, {}, false);
    EXPECT_EQ(asked.file.at("provider"), "new-2");
    const JsonObject& providers = asked.file.at("providers").get_object();
    EXPECT_EQ(providers.at("new"), yaml_values(yaml).at("providers").at("new"));
    EXPECT_EQ(providers.at("work"), yaml_values(yaml).at("providers").at("work"));
    EXPECT_EQ(
        providers.at("new-2"),
        Json(JsonObject{{"base_url", "http://new:2"}, {"type", "anthropic"}, {"model", "m2"}}));
}

TEST(Onboard, SameEndpoint_KeepsKeyAndOffersItsModel) {
    ConfigFile config;
    config.provider = "openai";
    config.model = "small-2";
    config.api_key = "sk-old";
    const std::string yaml = "provider: openai\nmodel: small-2\napi_key: sk-old\n";
    const auto transport = network({"api.openai.com"}, "sk-old");
    const Asked unchanged = ask(yaml, input_with(transport, config), {"", "", ""});
    EXPECT_NE(unchanged.heard.find("Which provider? [OpenAI (key: config.yaml)]"),
              std::string::npos);
    EXPECT_EQ(unchanged.file, yaml_values(yaml));
    EXPECT_NE(unchanged.heard.find("keep the configured one"), std::string::npos);
    const Asked spoken = ask(yaml, input_with(transport, config), {"OpenAI, Responses", "", ""});
    EXPECT_EQ(spoken.file.at("provider"), "openai-responses");
    EXPECT_EQ(spoken.file.at("api_key"), "sk-old") << "the same service in another protocol";
    const Asked changed =
        ask(yaml, input_with(network({"api.openai.com"}), config), {"", "sk-new", "1"});
    EXPECT_EQ(changed.file.at("api_key"), "sk-new");
    EXPECT_EQ(changed.file.at("model"), "small-1");
}

TEST(Onboard, RefusedKey_MayBeTypedAgain) {
    const Asked asked = ask("", input_with(network({"api.openai.com"}, "sk-right")),
                            {"OpenAI", "sk-wrong", "sk-right", "large"});
    EXPECT_EQ(asked.file.at("api_key"), "sk-right");
    EXPECT_NE(asked.heard.find("authentication failed"), std::string::npos) << asked.heard;
    EXPECT_EQ(asked.heard.find("sk-wrong"), std::string::npos);
    EXPECT_EQ(asked.heard.find("config.yaml"), std::string::npos) << "it stands nowhere yet";
}

TEST(Onboard, RefusedConfiguredKey_IsNamedByItsPlace) {
    const auto transport = network({"api.openai.com"}, "sk-right");
    const Asked by_variable =
        ask("", input_with(transport, {}, {{"OPENAI_API_KEY", "sk-env"}}), {"OpenAI", "gpt-5.1"});
    EXPECT_NE(by_variable.heard.find("Check the key: echo $OPENAI_API_KEY"), std::string::npos)
        << by_variable.heard;
    ConfigFile config;
    config.provider = "openai";
    config.api_key = "sk-old";
    const Asked by_file = ask("provider: openai\napi_key: sk-old\n", input_with(transport, config),
                              {"OpenAI", "", "gpt-5.1"});
    EXPECT_NE(by_file.heard.find("Check api_key or api_key_env in "), std::string::npos)
        << by_file.heard;
}

TEST(Onboard, IpAddressServer_IsNamedByWholeAddress) {
    const auto transport = network({"[::1]", "10.0.0.7:8000"});
    const Asked six = ask("", input_with(transport), {"Another", "http://[::1]/v1", "", "large"});
    EXPECT_EQ(six.file.at("provider"), "[::1]");
    const Asked with_port =
        ask("", input_with(transport), {"Another", "http://[::1]:8000/v1", "", "large"});
    EXPECT_EQ(with_port.file.at("provider"), "[::1]");
    const Asked four =
        ask("", input_with(transport), {"Another", "http://10.0.0.7:8000/v1", "", "large"});
    EXPECT_EQ(four.file.at("provider"), "10.0.0.7");
}

TEST(Onboard, NoModelList_AllowsFreeTextWithDefault) {
    const Asked default_value = ask("", input_with(network({})), {"Anthropic", "k", ""});
    EXPECT_EQ(default_value.file.at("model"), "claude-sonnet-4-5");
    const Asked typed = ask("", input_with(network({})), {"OpenRouter", "k", "", "x/y"});
    EXPECT_EQ(typed.file.at("model"), "x/y");
    EXPECT_NE(typed.heard.find("A model is required"), std::string::npos);
}

TEST(Onboard, PartOfName_ShowsMatchingModels) {
    const Asked asked = ask("", input_with(network({"api.openai.com"})),
                            {"OpenAI", "k", "small", "2", /* not reached */ "x"});
    EXPECT_EQ(asked.file.at("model"), "small-2");
    const Asked doubted = ask("", input_with(network({"api.openai.com"})),
                              {"OpenAI", "k", "unlisted", "n", "unlisted", "y"});
    EXPECT_EQ(doubted.file.at("model"), "unlisted");
}

TEST(Onboard, LeavingAtAnyQuestion_ChangesNothing) {
    const std::vector<std::string> answers = {
        "Another OpenAI-compatible", "nonsense", "http://box/v1", "key", "unlisted", "y"};
    for (std::size_t count = 0; count <= answers.size(); ++count) {
        const std::vector<std::string> some(answers.begin(),
                                            answers.begin() + static_cast<std::ptrdiff_t>(count));
        const ModelQuestionsInput input = input_with(network({"box"}));
        if (count == answers.size()) {
            EXPECT_EQ(ask("", input, some).file.at("provider"), "box");
        } else {
            EXPECT_THROW(ask("", input, some), Error) << count;
        }
    }
}

TEST(Onboard, NoInteractiveUser_LetsFlagsAndDefaultsDecide) {
    ModelQuestionsInput input = input_with(network({}), {}, {{"ANTHROPIC_API_KEY", "sk-ant-env"}});
    input.sources.flags.provider = "anthropic";
    EXPECT_EQ(ask("", input, {}, false).file,
              (JsonObject{{"provider", "anthropic"}, {"model", "claude-sonnet-4-5"}}));
    input.sources.environment.clear();
    EXPECT_THROW(ask("", input, {}, false), Error) << "there is no key";
    input.key = "sk-piped";
    EXPECT_EQ(ask("", input, {}, false).file.at("api_key"), "sk-piped");
    input.key.clear();
    input.sources.flags = {};
    EXPECT_THROW(ask("", input, {}, false), Error) << "nothing says which provider";
    input.sources.flags.base_url = "http://box/v1";
    EXPECT_THROW(ask("", input, {}, false), Error) << "nothing says which model";
    input.sources.flags.model = "m";
    EXPECT_EQ(ask("", input, {}, false).file.at("provider"), "box");
    input.sources.flags.base_url = "box/v1";
    EXPECT_THROW(ask("", input, {}, false), Error) << "no address";
    input.sources.flags.base_url.clear();
    input.sources.flags.provider = "oracle";
    EXPECT_THROW(ask("", input, {}, false), Error) << "unknown";
}

TEST(Onboard, PluginParts_AreAddedAndMerged) {
    bub::Framework framework;
    bub::BuiltinOptions options;
    options.onboard = [](bub::OnboardCall&) {
        return JsonObject{{"model", "m"}, {"old", nullptr}, {"plugins", JsonObject{{"a", 1}}}};
    };
    const AddPlugins plugins = [](bub::Framework& owner) {
        bub::Plugin chat;
        chat.name = "chat";
        chat.onboard_config = [](bub::OnboardCall& call) -> Task<JsonObject> {
            JsonObject part;
            part["model"] = call.config.at("model");
            JsonObject own;
            std::string question = "Channel";
            own["channel"] = co_await call.ui->ask(std::move(question), std::string());
            JsonObject all;
            all["chat"] = std::move(own);
            part["plugins"] = std::move(all);
            co_return part;
        };
        owner.add(std::move(chat));
    };
    load_plugins(framework, plugins, std::move(options));
    Scripted user({"lobby"});
    const JsonObject before{{"old", "x"}, {"unchanged", JsonObject{{"y", 2}}}};
    EXPECT_EQ(run(framework.onboard(before, &user)),
              (JsonObject{
                  {"unchanged", JsonObject{{"y", 2}}},
                  {"model", "m"},
                  {"plugins", JsonObject{{"a", 1}, {"chat", JsonObject{{"channel", "lobby"}}}}}}));
}

/// A user with scripted secrets and a scripted confirmation, who sends the code of the pairing to the bot.
class Operator final : public bub::OnboardingUi {
public:
    explicit Operator(bub::telegram::FakeBotApi& bot) : bot_(bot) {}

    void say(std::string text) override {
        heard += text + "\n";
        const std::size_t code = text.find("?start=");
        if (code != std::string::npos) bot_.say(7, text.substr(code + 7, 8));
    }
    Task<std::string> ask(std::string, std::string default_value) override {
        co_return default_value;
    }
    Task<std::string> ask_secret(std::string question) override {
        heard += question + "\n";
        if (secrets.empty()) throw Error(ErrorCode::cancelled, "had enough");
        std::string secret = secrets.front();
        secrets.pop_front();
        co_return secret;
    }
    Task<std::size_t> choose(std::string, std::vector<std::string>, std::size_t chosen) override {
        co_return chosen;
    }
    Task<bool> confirm(std::string question, bool) override {
        heard += question + "\n";
        co_return agrees;
    }

    std::deque<std::string> secrets;
    bool agrees = true;
    std::string heard;

private:
    bub::telegram::FakeBotApi& bot_;
};

class TelegramOnboarding : public ::testing::Test {
protected:
    JsonObject ask(const std::string& yaml, const std::string& token = {}) {
        if (!token.empty()) ::setenv("TELEGRAM_BOT_TOKEN", token.c_str(), 1);
        const std::shared_ptr<const Runtime> runtime = std::make_shared<const Runtime>(
            Runtime().with_clock(clock).with_transport(api.transport()));
        return testing::run_advancing(*clock,
                                      telegram_kind.onboard(yaml_values(yaml), runtime, user));
    }
    void TearDown() override { ::unsetenv("TELEGRAM_BOT_TOKEN"); }

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    bub::telegram::FakeBotApi api{clock};
    Operator user{api};
};

TEST_F(TelegramOnboarding, TypedTokenAndFirstUser_AreWritten) {
    user.secrets = {"not a token", "42:wrong", api.token()};
    const JsonObject wanted = ask("model: m");
    EXPECT_EQ(wanted,
              (JsonObject{
                  {"model", "m"},
                  {"gateway", JsonObject{{"telegram", JsonObject{{"token", api.token()},
                                                                 {"operators", JsonArray{7}}}}}}}));
    EXPECT_NE(user.heard.find("https://t.me/cubepi_bot?start="), std::string::npos);
    EXPECT_NE(user.heard.find("Telegram does not know this token"), std::string::npos);
    EXPECT_EQ(user.heard.find("secret-of-the-bot"), std::string::npos);
    const std::string changes = settings_changes(yaml_values("model: m"), wanted);
    EXPECT_EQ(changes.find("secret-of"), std::string::npos) << changes;
}

TEST_F(TelegramOnboarding, TokenOfEnvironment_IsNotWritten) {
    user.agrees = false;
    const JsonObject wanted =
        ask("gateway: {telegram: {users: [5], progress: false}}", api.token());
    EXPECT_EQ(wanted, yaml_values("gateway: {telegram: {users: [5, 7], progress: false}}"));
    // A second time changes nothing.
    EXPECT_EQ(ask("gateway: {telegram: {users: [5, 7], progress: false}}", api.token()),
              yaml_values("gateway: {telegram: {users: [5, 7], progress: false}}"));
}

TEST_F(TelegramOnboarding, WrongTokenOfEnvironment_IsAnError) {
    EXPECT_THROW((void)ask("", "42:wrong"), Error);
}

TEST(ChannelComments, Comments_ExplainTheSettings) {
    const std::string before = "# mine\nmodel: m\n";
    const JsonObject wanted =
        yaml_values("model: m\ngateway: {telegram: {token: '42:abc', users: [5], operators: [7]}}");
    const std::string text = with_channel_comments(telegram_kind, edit_yaml(before, wanted));
    EXPECT_EQ(yaml_values(text), wanted) << text;
    EXPECT_NE(text.find("# mine"), std::string::npos) << text;
    EXPECT_NE(text.find("# Users who may also answer"), std::string::npos) << text;
    // Comments that exist stay, and are not repeated.
    EXPECT_EQ(with_channel_comments(telegram_kind, text), text);
}

}  // namespace

}  // namespace cubepi::app
