#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "../channels/channel_kinds.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "config_file.hpp"
#include "gateway_settings.hpp"
#include "source_tree.hpp"

// The pages that describe the settings of the gateway: they have every key, and what they show can be read.

namespace cubepi::app {

namespace {

GatewaySettings settings_of(std::string_view json) {
    JsonObject config;
    config["gateway"] = boost::json::parse(json);
    return gateway_settings(config);
}

std::string refusal_of(std::string_view json) {
    try {
        (void)settings_of(json);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::parse);
        return error.what();
    }
    return {};
}

TEST(GatewaySettings, MissingGatewayKey_YieldsDefaults) {
    const GatewaySettings settings = gateway_settings(JsonObject());
    EXPECT_EQ(settings.channels, std::vector<std::string>{"all"});
    EXPECT_EQ(settings.drain_timeout, std::chrono::seconds(30));
    EXPECT_EQ(settings.retry_limit, std::chrono::hours(1));
    EXPECT_TRUE(settings.configured.empty());
    EXPECT_FALSE(settings.status);
    EXPECT_FALSE(settings.shared_workspace);
    EXPECT_EQ(settings.tape_namespace, "gateway");
}

TEST(GatewaySettings, Read_ReturnsAllKeys) {
    const GatewaySettings settings = settings_of(R"({
        "channels": ["http"], "root": "/srv/agents", "shared_workspace": true, "tape_namespace": "bots", "notify_database": "postgres://db/agents", "drain_timeout": 5, "retry_limit": 0,
        "max_waiting": 8, "threads": 3, "stream": false, "question_timeout": 600,
        "rules": [{"channel": "telegram", "chat": -100, "user": 42, "allow": ["shell: git status"], "refuse": ["fetch"]}],
        "approvers": [{"channel": "telegram", "user": 7}],
        "http": {"listen": "[::1]:9000", "token_env": "T", "operators": ["olga"]},
        "status": "127.0.0.1:9001"})");
    EXPECT_EQ(settings.root, "/srv/agents");
    EXPECT_TRUE(settings.shared_workspace);
    EXPECT_EQ(settings.tape_namespace, "bots");
    EXPECT_EQ(settings.notify_database, "postgres://db/agents");
    EXPECT_EQ(settings.retry_limit, std::chrono::seconds(0));
    EXPECT_EQ(settings.max_waiting, 8u);
    EXPECT_EQ(settings.threads, 3u);
    EXPECT_EQ(settings.question_timeout, std::chrono::minutes(10));
    ASSERT_EQ(settings.rules.size(), 1u);
    EXPECT_TRUE(settings.rules[0].matches("telegram", "-100", "42"));
    EXPECT_FALSE(settings.rules[0].matches("telegram", "-100", "43"));
    ASSERT_EQ(settings.approvers.size(), 1u);
    EXPECT_EQ(settings.approvers[0].user, "7") << "ids may be numbers";
    ASSERT_EQ(settings.configured.size(), 1u);
    EXPECT_EQ(settings.configured[0].address("listen").host, "::1");
    EXPECT_EQ(settings.configured[0].address("listen").text(), "[::1]:9000");
    ASSERT_TRUE(settings.status);
    EXPECT_EQ(settings.status->port, 9001);
}

TEST(GatewaySettings, Error_NamesTheKeyAndWhatIsExpected) {
    const auto names = [](std::string_view json, std::string_view text) {
        EXPECT_NE(refusal_of(json).find(text), std::string::npos) << refusal_of(json);
    };
    names(R"({"chanels": []})",
          "unknown key 'gateway.chanels' (did you mean 'channels'?); the keys");
    names(R"({"drain_timeout": 0})", "gateway.drain_timeout must be a whole number");
    names(R"({"threads": 5000})", "gateway.threads must be at most 256");
    names(R"({"stream": "yes"})", "gateway.stream must be true or false");
    names(R"({"status": "9001"})", "gateway.status must be an address and a port");
    names(R"({"status": "localhost:70000"})", "gateway.status must be an address and a port");
    names(R"({"rules": [{"tools": []}]})", "unknown key 'gateway.rules[0].tools'");
    names(R"({"approvers": [{"user": 7}]})", "gateway.approvers[0].user must be");
    names(R"({"http": {"certificate": "/c.pem"}})", "gateway.http.key must be set together");
    names(R"({"tape_namespace": ""})", "gateway.tape_namespace must be a text");
    names(R"({"notify_database": "mysql://db/agents"})", "gateway.notify_database must be the URL");
    names(R"({"root": "relative"})", "gateway.root must be a directory");
    names(R"([])", "gateway must be a mapping");
}

TEST(GatewaySettings, D109_PartsWithoutAddress_UseTheCommonOne) {
    const GatewaySettings settings = settings_of(R"({
        "listen": "[::1]:8640", "base_path": "/agents", "allowed_hosts": ["agents.example.org", "[::1]:8640"],
        "trusted_proxies": ["127.0.0.1", "fd00::/8"], "http": {},
        "telegram": {"webhook": {"url": "https://example.org", "listen": "127.0.0.1:8643"}}})");
    ASSERT_EQ(settings.configured.size(), 2u);
    const ListenAddress http = settings.configured[0].address("listen");
    EXPECT_EQ(http.text(), "[::1]:8640");
    EXPECT_TRUE(http.is_common);
    EXPECT_EQ(settings.status->text(), "[::1]:8640");
    const ListenAddress webhook = settings.configured[1].address("webhook.listen");
    EXPECT_EQ(webhook.text(), "127.0.0.1:8643");
    EXPECT_FALSE(webhook.is_common);
    EXPECT_EQ(settings_of(R"({"http": {}})").configured[0].address("listen").text(),
              "127.0.0.1:8642");
}

TEST(GatewaySettings, D109_SettingsForProxies_AreChecked) {
    for (const char* path : {"agents", "/", "/agents/", "/a/../b", "/a%20b", "/a?b"})
        EXPECT_NE(refusal_of(std::string(R"({"base_path": ")") + path + "\"}")
                      .find("gateway.base_path must be a path"),
                  std::string::npos)
            << path;
    for (const char* host : {"", "https://example.org", "*.example.org", "a b"})
        EXPECT_NE(refusal_of(std::string(R"({"allowed_hosts": [")") + host + "\"]}")
                      .find("gateway.allowed_hosts must be a list of host names"),
                  std::string::npos)
            << host;
    for (const char* range : {"proxy", "10.0.0.0/40", "10.0.0.1:80"})
        EXPECT_NE(refusal_of(std::string(R"({"trusted_proxies": [")") + range + "\"]}")
                      .find("gateway.trusted_proxies must be a list of addresses and ranges"),
                  std::string::npos)
            << range;
}

TEST(SenderRule, EmptyMembers_MatchEverything) {
    EXPECT_TRUE(SenderRule().matches("telegram", "1", "2"));
    SenderRule rule;
    rule.chat = "1";
    EXPECT_TRUE(rule.matches("telegram", "1", ""));
    EXPECT_FALSE(rule.matches("telegram", "12", ""));
}

GatewaySettings read(const std::string& yaml) { return gateway_settings(yaml_values(yaml)); }

std::string problem_of(const std::string& yaml) {
    try {
        (void)read(yaml);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(TelegramSettings, OmittedTelegramSettings_HaveDefaults) {
    const GatewaySettings settings = read("gateway: {telegram: {}}");
    ASSERT_EQ(settings.configured.size(), 1u);
    const ChannelSettings& telegram = settings.configured[0];
    EXPECT_EQ(&telegram.kind(), &telegram_kind);
    EXPECT_EQ(telegram.text("token_env"), "TELEGRAM_BOT_TOKEN");
    EXPECT_TRUE(telegram.list("users").empty());
    EXPECT_TRUE(telegram.flag("progress"));
    EXPECT_FALSE(telegram.has("webhook"));
    EXPECT_FALSE(telegram.has("webhook.listen"));
    EXPECT_TRUE(read("gateway: {}").configured.empty());
}

TEST(TelegramSettings, Read_ReturnsAllTelegramSettings) {
    const GatewaySettings settings = read(R"(
gateway:
  telegram:
    token_env: MY_BOT
    users: [42, "43"]
    chats: [-1001234]
    operators: [42]
    progress: false
    webhook: {url: "https://bot.example.org/x", listen: "127.0.0.1:9000", path: /x, secret_env: S}
)");
    const ChannelSettings& telegram = settings.configured.at(0);
    EXPECT_EQ(telegram.text("token_env"), "MY_BOT");
    EXPECT_EQ(telegram.list("users"), (std::vector<std::string>{"42", "43"}));
    EXPECT_EQ(telegram.list("chats"), std::vector<std::string>{"-1001234"});
    EXPECT_EQ(telegram.list("operators"), std::vector<std::string>{"42"});
    EXPECT_FALSE(telegram.flag("progress"));
    EXPECT_EQ(telegram.address("webhook.listen").text(), "127.0.0.1:9000");
    EXPECT_EQ(telegram.text("webhook.path"), "/x");
    EXPECT_EQ(telegram.text("webhook.secret_env"), "S");
}

TEST(TelegramSettings, TelegramMistakes_AreNamed) {
    EXPECT_NE(problem_of("gateway: {telegram: {user: [1]}}").find("gateway.telegram.user"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {users: ['@ann']}}").find("ids of users"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {users: [-5]}}").find("ids of users"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {chats: [5]}}").find("ids of groups"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {webhook: {url: 'http://x'}}}").find("https://"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegram: {webhook: {}}}").find("webhook.url"),
              std::string::npos);
}

TEST(ChannelKeys, UnknownKey_IsReportedWithTheKnownOnes) {
    const std::string unknown = problem_of("gateway: {telegram: {operator: [1]}}");
    EXPECT_NE(
        unknown.find(
            "unknown key 'gateway.telegram.operator' (did you mean 'operators'?); the keys of "
            "gateway.telegram "
            "are token_env, token, users, chats, operators, "),
        std::string::npos)
        << unknown;
    EXPECT_NE(problem_of("gateway: {telegram: {webhook: {host: x}}}")
                  .find("the keys of gateway.telegram.webhook are url, listen, path, secret_env"),
              std::string::npos);
    EXPECT_NE(problem_of("gateway: {telegramm: {}}").find(", http, telegram"), std::string::npos)
        << "the kinds of channels are keys as well";
}

TEST(ChannelKeys, EachType_RefusesAnotherOne) {
    for (const ChannelKind* kind : channel_kinds()) {
        for (const ChannelKey& key : kind->keys) {
            const bool is_mapping = key.type == KeyType::mapping;
            std::string yaml = std::string(key.name()) + ": " + (is_mapping ? "[1]" : "{a: b}");
            const std::size_t dot = key.path.find('.');
            if (dot != std::string_view::npos)
                yaml = std::string(key.path.substr(0, dot)) + ": {" + yaml + "}";
            const std::string name = std::string(kind->name) + "." + std::string(key.path);
            const std::string problem =
                problem_of("gateway: {" + std::string(kind->name) + ": {" + yaml + "}}");
            EXPECT_NE(problem.find("gateway." + name + " must be "), std::string::npos)
                << name << ": " << problem;
        }
    }
}

std::string page(const std::string& name) {
    std::ifstream file(cubepi::testing::source_path("docs/") + name);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_FALSE(text.str().empty()) << name;
    return text.str();
}

/// The part of a key's path before its last dot, and the part after it.
std::pair<std::string, std::string> parts_of(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return {name.substr(0, dot), name.substr(dot + 1)};
}

bool has_word(const std::string& text, const std::string& word) {
    const auto is_part = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) {
        const std::size_t end = at + word.size();
        if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end])))
            return true;
    }
    return false;
}

/// Returns the line of the table for a mapping.
std::string row_of(const std::string& text, const std::string& path) {
    const std::size_t begin = text.find("\n| `" + path + "` |");
    if (begin == std::string::npos) return {};
    return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

/// Returns the YAML blocks of a page that begin with the key.
std::vector<std::string> blocks_of(const std::string& text, const std::string& key) {
    std::vector<std::string> blocks;
    const std::string begin = "```yaml\n";
    for (std::size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
        at += begin.size();
        std::string block = text.substr(at, text.find("```", at) - at);
        if (block.starts_with(key + ":")) blocks.push_back(std::move(block));
    }
    return blocks;
}

TEST(GatewaySettings, D199_Console_IsServedIfConfigured) {
    EXPECT_FALSE(settings_of("{}").console);
    EXPECT_FALSE(settings_of(R"({"console": false})").console);
    EXPECT_EQ(settings_of(R"({"console": true})").console->text(), "127.0.0.1:8644");
    EXPECT_EQ(settings_of(R"({"console": {}})").console->text(), "127.0.0.1:8644");
    EXPECT_EQ(settings_of(R"({"console": true, "listen": "127.0.0.1:80"})").console->port, 80);
    EXPECT_EQ(settings_of(R"({"console": {"listen": "[::1]:81"}})").console->text(), "[::1]:81");
    EXPECT_NE(refusal_of(R"({"console": "yes"})").find("gateway.console must be"),
              std::string::npos);
    EXPECT_NE(refusal_of(R"({"console": {"token": "x"}})").find("gateway.console.token"),
              std::string::npos);
}

TEST(GatewaySettings, D249_Schedules_AreRead) {
    const GatewaySettings settings = settings_of(
        R"({"time_zone": "Europe/Berlin", "schedule": [{"name": "plan", "channel": "telegram",)"
        R"( "chat": 42, "user": 42, "cron": "0 9 * * 1-5", "text": "Plan"}, {"name": "b",)"
        R"( "channel": "http", "chat": "ops", "session": "http:other", "user": "olga", "every": "6h",)"
        R"( "missed": "skip", "text": "Check"}, {"name": "c", "channel": "http", "chat": "ops",)"
        R"( "user": "olga", "zone": "UTC", "at": "2020-01-01 09:00", "text": "Over"}]})");
    ASSERT_EQ(settings.schedules.size(), 3u);
    const bub::Schedule& plan = settings.schedules[0];
    EXPECT_EQ(plan.id, "config.plan");
    EXPECT_EQ(plan.session, "telegram:42");
    EXPECT_EQ(bub::describe(plan.times), "cron 0 9 * * 1-5 (Europe/Berlin)");
    EXPECT_EQ(plan.origin.at("context").at("sender_id"), "42");
    EXPECT_TRUE(plan.configured);
    EXPECT_EQ(settings.schedules[1].session, "http:other");
    EXPECT_EQ(settings.schedules[1].missed, bub::MissedFirings::skip);
    EXPECT_EQ(settings.schedules[2].times.start, 1'577'869'200);
}

TEST(GatewaySettings, D249_InvalidSchedules_AreRefused) {
    const auto refusal = [](const std::string& members) {
        return refusal_of(R"({"schedule": [{"channel": "telegram", "chat": 42, "text": "x", )" +
                          members + "}]}");
    };
    for (const char* members :
         {R"("user": 42, "every": "1m")", R"("name": "a", "every": "1m")",
          R"("name": "a", "user": 42)", R"("name": "a", "user": 42, "every": "1s")",
          R"("name": "a", "user": 42, "at": "+20m")", R"("name": "a", "user": 42, "at": "09:00")",
          R"("name": "a", "user": 42, "cron": "0 9 30 2 *")",
          R"("name": "../a", "user": 42, "every": "1m")",
          R"("name": "a", "user": 42, "every": "1m", "zone": "../../etc")",
          R"("name": "a", "user": 42, "every": "1m", "missed": "all")",
          R"("name": "a", "user": 42, "every": "1m", "often": true)"})
        EXPECT_NE(refusal(members).find("gateway.schedule[0]"), std::string::npos) << members;
}

TEST(GatewaySettings, D255_Limits_AreReadAndChecked) {
    const GatewaySettings settings = gateway_settings(yaml_values(
        "gateway: {time_zone: Europe/Berlin, limits: {per_user: {messages: 100, tokens: 1000000, "
        "money: 0.5}, total: {money: 50}, exempt_operators: true}}"));
    EXPECT_EQ(settings.limits.per_user, (bub::UsageLimit{100, 1'000'000, 500'000}));
    EXPECT_FALSE(settings.limits.per_chat.any());
    EXPECT_EQ(settings.limits.total, (bub::UsageLimit{{}, {}, 50'000'000}));
    EXPECT_TRUE(settings.limits.exempts_operators);
    EXPECT_EQ(settings.limits.zone, "Europe/Berlin");
    EXPECT_FALSE(gateway_settings(yaml_values("gateway: {limits: {}}")).limits.any());
    for (const char* const unused : {"", ", limits: {per_user: {messages: 1}}"})
        EXPECT_THROW((void)gateway_settings(yaml_values(
                         std::string("gateway: {time_zone: Mars/Olympus") + unused + "}")),
                     Error)
            << unused;
    for (const char* const wrong :
         {"{per_user: {messages: 0}}", "{per_user: {tokens: -1}}", "{per_user: {messages: 1.5}}",
          "{per_chat: {money: 0}}", "{total: {money: .nan}}", "{total: {money: 1e30}}",
          "{total: {money: 5 USD}}", "{per_day: {messages: 1}}", "{per_user: {turns: 1}}",
          "{per_user: 5}", "{exempt_operators: yes please}"})
        EXPECT_THROW(
            (void)gateway_settings(yaml_values(std::string("gateway: {limits: ") + wrong + "}")),
            Error)
            << wrong;
}

TEST(GatewaySettings, D249_IgnoredTimeZones_AreNotLookedUp) {
    const JsonObject config = yaml_values(
        "gateway: {schedule: [{name: a, channel: http, chat: a, user: a, cron: 0 9 * * *, zone: "
        "Mars/Olympus, text: x}]}");
    EXPECT_THROW((void)gateway_settings(config), Error);
    EXPECT_EQ(gateway_settings(config, TimeZones::ignored).schedules.size(), 1u);
}

TEST(SettingsPages, ReferencePage_HasEveryKeyOfTheGateway) {
    const std::string text = page("cli.md");
    for (const std::string& name : gateway_setting_names()) {
        const auto [path, key] = parts_of(name);
        const bool is_listed = !row_of(text, name).empty() || has_word(row_of(text, path), key);
        EXPECT_TRUE(is_listed) << name;
    }
}

TEST(SettingsPages, ManPage_HasEveryKeyOfTheGateway) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(man_page_command(), exit_ok);
    const std::string all = ::testing::internal::GetCapturedStdout();
    const std::size_t begin = all.find(".B gateway\n");
    ASSERT_NE(begin, std::string::npos);
    const std::string text = all.substr(begin, all.find("\n.TP\n", begin) - begin);
    for (const std::string& name : gateway_setting_names())
        EXPECT_TRUE(has_word(text, parts_of(name).second)) << name;
}

TEST(SettingsPages, ExamplesOfGuides_CanBeRead) {
    const ScopedTestDirectory directory;
    std::size_t count = 0;
    for (const char* name :
         {"guides/bub/gateway.md", "guides/bub/telegram.md", "guides/bub/http-channel.md",
          "guides/bub/console.md", "guides/bub/schedule.md", "security.md"}) {
        for (const std::string& block : blocks_of(page(name), "gateway")) {
            const std::filesystem::path file = directory.path() / "config.yaml";
            std::ofstream(file) << block;
            EXPECT_NO_THROW((void)gateway_settings(config_values(file))) << name << "\n" << block;
            ++count;
        }
    }
    EXPECT_GE(count, 4u);
}

}  // namespace

}  // namespace cubepi::app
