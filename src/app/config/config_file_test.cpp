#include "config_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "config/store_locations.hpp"
#include "config/tool_names.hpp"

namespace cubepi::app {
namespace {

class ConfigFileTest : public ::testing::Test {
protected:
    std::filesystem::path path() const { return directory_ / "config.yaml"; }
    void write(const std::string& text, mode_t mode = 0600) const {
        std::ofstream(path()) << text;
        chmod(path().c_str(), mode);
    }
    std::string refusal() const {
        try {
            read_config(path());
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::parse);
            return error.what();
        }
        return {};
    }

    ScopedTestDirectory temporary_;
    const std::filesystem::path& directory_ = temporary_.path();
};

TEST_F(ConfigFileTest, Read_ReturnsAllKeys) {
    write(
        "provider: openai\nmodel: gpt-5.1\nbase_url: http://localhost:1/v1\napi_key: "
        "k\napi_key_env: MY_KEY\n"
        "allow: [\"shell: git status\", \"fetch: example.org\"]\n");
    const ConfigFile config = read_config(path());
    EXPECT_EQ(config.provider, "openai");
    EXPECT_EQ(config.model, "gpt-5.1");
    EXPECT_EQ(config.base_url, "http://localhost:1/v1");
    EXPECT_EQ(config.api_key, "k");
    EXPECT_EQ(config.api_key_env, "MY_KEY");
    EXPECT_EQ(config.allow, (std::vector<std::string>{"shell: git status", "fetch: example.org"}));
    EXPECT_FALSE(config.too_open);
}

TEST_F(ConfigFileTest, Keys_AreReadAndChecked) {
    write("keys:\n  f5: /status\n  ctrl-e: editor\n");
    EXPECT_EQ(read_config(path()).terminal.keys.key_of(KeyCode::cancel).str(), "Ctrl-E");
    write("keys:\n  f5: /status\n  ctrl-c: editor\n");
    EXPECT_NE(refusal().find(":3: 'ctrl-c' is not a key that can be changed"), std::string::npos)
        << refusal();
    write("keys:\n  f5: statu\n");
    EXPECT_NE(refusal().find(":2: 'statu' is not an action of keys"), std::string::npos);
    write("keys: [f5]\n");
    EXPECT_NE(refusal().find("keys must map keys to actions"), std::string::npos);
}

TEST_F(ConfigFileTest, RepeatedKey_IsNamedWithItsLine) {
    write("provider: openai\nmodel: a\n# a comment\nmodel: b\n");
    EXPECT_NE(refusal().find(":4: the key 'model' occurs twice"), std::string::npos) << refusal();
    write("providers:\n  box: {base_url: \"http://a/v1\"}\n  box: {base_url: \"http://b/v1\"}\n");
    EXPECT_NE(refusal().find(":3: the key 'box' occurs twice"), std::string::npos) << refusal();
    write("gateway:\n  http:\n    listen: \"127.0.0.1:1\"\n    listen: \"127.0.0.1:2\"\n");
    EXPECT_NE(refusal().find(":4: the key 'listen' occurs twice"), std::string::npos) << refusal();
}

TEST_F(ConfigFileTest, RemovedRule_LeavesTheOthers) {
    write("model: m\nallow:\n  - \"write: *\"\n  - \"fetch:  example.org\"\n");
    EXPECT_TRUE(remove_rule(path(), RuleEffect::allow, ApprovalRule::parse("fetch: example.org")));
    EXPECT_FALSE(remove_rule(path(), RuleEffect::allow, ApprovalRule::parse("fetch: example.org")));
    EXPECT_EQ(read_config(path()).allow, (std::vector<std::string>{"write: *"}));
    EXPECT_TRUE(remove_rule(path(), RuleEffect::allow, ApprovalRule::parse("write: *")));
    EXPECT_TRUE(read_config(path()).allow.empty());
    EXPECT_EQ(read_config(path()).model, "m");
}

TEST_F(ConfigFileTest, Read_ReturnsNamedProviders) {
    write(
        "provider: work\nproviders:\n  work:\n    type: anthropic\n    base_url: "
        "https://llm.example\n"
        "    api_key_env: WORK_KEY\n    model: lab\n  box: {base_url: \"http://box:1/v1\"}\n"
        "  openai: {api_key: sk-x}\n");
    const ConfigFile config = read_config(path());
    ASSERT_EQ(config.providers.size(), 3u);
    const ProviderConfig& work = config.providers.front();
    EXPECT_EQ(work.name, "work");
    EXPECT_EQ(work.type, ModelApi::anthropic_messages);
    EXPECT_EQ(work.base_url, "https://llm.example");
    EXPECT_EQ(work.api_key_env, "WORK_KEY");
    EXPECT_EQ(work.model, "lab");
    EXPECT_FALSE(config.providers[1].type);
    EXPECT_EQ(config.providers[2].api_key, "sk-x");
    chmod(path().c_str(), 0644);
    EXPECT_TRUE(read_config(path()).too_open) << "there is a key in it";
}

TEST_F(ConfigFileTest, RefusedProvider_IsNamedWithItsLine) {
    write("providers:\n  work: {type: oracle}\n");
    EXPECT_NE(refusal().find("config.yaml:2: unknown type 'oracle'"), std::string::npos)
        << refusal();
    write("providers:\n  work: {type: openai, url: x}\n");
    EXPECT_NE(refusal().find("config.yaml:2: unknown key 'url'"), std::string::npos) << refusal();
    write("providers:\n  work:\n");
    EXPECT_NE(refusal().find("provider work must be a mapping"), std::string::npos) << refusal();
    write("providers:\n  work: {model: m}\n");
    EXPECT_NE(refusal().find("neither type nor base_url"), std::string::npos) << refusal();
    write("providers: [work]\n");
    EXPECT_NE(refusal().find("providers must map names to endpoints"), std::string::npos)
        << refusal();
    write("provider: work\nbase_url: http://x\nproviders:\n  work: {type: openai}\n");
    EXPECT_NE(refusal().find("must be set in its entry"), std::string::npos) << refusal();
    write("providers:\n  a/b: {type: openai}\n");
    EXPECT_NE(refusal().find("without '/'"), std::string::npos) << refusal();
}

TEST_F(ConfigFileTest, MissingOrEmptyFile_SetsNothing) {
    EXPECT_EQ(read_config(path()).model, "");
    write("");
    EXPECT_EQ(read_config(path()).model, "");
    write("# only a remark\nmodel:\n");
    EXPECT_EQ(read_config(path()).model, "");
}

TEST_F(ConfigFileTest, Pipe_IsRefusedWithoutWaiting) {
    ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
    try {
        read_config(path());
        FAIL() << "it was read";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io);
        EXPECT_NE(std::string(error.what()).find(path().string() + " is a pipe"), std::string::npos)
            << error.what();
    }
}

TEST_F(ConfigFileTest, Refusal_NamesFileLineAndReason) {
    write("model: x\nmodle: y\n");
    EXPECT_NE(refusal().find("config.yaml:2: unknown key 'modle' (did you mean 'model'?)"),
              std::string::npos)
        << refusal();
    write("model: x\ngateway: {http: {lisen: '127.0.0.1:1'}}\n");
    EXPECT_NE(refusal().find("unknown key 'gateway.http.lisen'"), std::string::npos) << refusal();
    write("model: [a]\n");
    EXPECT_NE(refusal().find("config.yaml:1: model must be a string"), std::string::npos)
        << refusal();
    write("model: x\nallow: all\n");
    EXPECT_NE(refusal().find("config.yaml:2: allow must be a list"), std::string::npos)
        << refusal();
    write("just words\n");
    EXPECT_NE(refusal(), "");
    write("model: [x\nbase_url: y\n");
    EXPECT_NE(refusal(), "");
    write("- a\n- b\n");
    EXPECT_NE(refusal(), "");
}

TEST_F(ConfigFileTest, UnusualYaml_IsRejectedWithItsLine) {
    for (const char* odd : {"model: m\n? [a]\n: b\n", "model: m\nplugins: {[a]: b}\n",
                            "model: m\nplugins: &a [*a]\n", "model: m\nplugins: &a {x: *a}\n"}) {
        write(odd);
        try {
            config_values(path());
            read_config(path());
            ADD_FAILURE() << odd;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::parse);
            EXPECT_NE(std::string(error.what()).find("config.yaml:2: "), std::string::npos)
                << error.what();
        }
    }
    std::string laughs = "plugins:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 12; ++i) {
        const std::string one = "*a" + std::to_string(i - 1);
        laughs += "  a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + one;
        for (int n = 0; n < 9; ++n) laughs += ", " + one;
        laughs += "]\n";
    }
    write(laughs);
    EXPECT_THROW(config_values(path()), Error);
}

TEST_F(ConfigFileTest, D237_DigestForOthers_LeavesSecretsOut) {
    const auto digest = [this](const std::string& text) {
        write(text);
        return configuration_digest(config_values(path()));
    };
    const std::string plain =
        "model: m\napi_key_env: ONE\nmax_turns: 3\ngateway: {http: {listen: 127.0.0.1:1}}\n";
    const std::vector<std::pair<std::string, std::string>> changes = {
        {"model: m", "model: n"}, {"ONE", "TWO"}, {": 3", ": 4"}, {"127.0.0.1:1", "127.0.0.2:1"}};
    for (const auto& [one, other] : changes) {
        std::string changed = plain;
        changed.replace(changed.find(one), one.size(), other);
        EXPECT_NE(digest(plain), digest(changed)) << changed;
    }
    const auto listening = [](const std::string& port) {
        return "gateway: {http: {listen: \"[::1]:" + port + "\"}, listen: h:" + port +
               ", status: h:" + port + ", console: {listen: h:" + port + "}}\n";
    };
    EXPECT_EQ(digest(listening("1")), digest(listening("22"))) << "on one host they must differ";
    for (const char* const secret :
         {"api_key: ", "providers: {p: {type: openai, api_key: ", "gateway: {http: {token: ",
          "gateway: {telegram: {webhook: {secret: ", "mcp: {s: {command: x, env: {PIN: ",
          "mcp: {s: {url: \"http://x\", headers: {X: ",
          "mcp: {s: {url: \"http://x\", oauth: {client_secret: "}) {
        const std::string begin = secret;
        const auto depth = std::count(begin.begin(), begin.end(), '{');
        const std::string end(static_cast<std::size_t>(depth), '}');
        const auto with = [&](const std::string& value) { return begin + value + end + "\n"; };
        EXPECT_EQ(digest(with("1234")), digest(with("5678"))) << secret;
        EXPECT_EQ(digest(with("[a]")), digest(with("[b]"))) << secret;
    }
    for (const char* const url :
         {"postgres://ann:%@host/db", "host=x password=%", "http://x?key=%"}) {
        const auto with = [url](const std::string& value) {
            std::string text = url;
            text.replace(text.find('%'), 1, value);
            return "database: \"" + text + "\"\n";
        };
        EXPECT_EQ(digest(with("1234")), digest(with("5678"))) << url;
    }
}

TEST_F(ConfigFileTest, KeyReadableByOthers_IsNoticed) {
    write("api_key: k\n", 0644);
    EXPECT_TRUE(read_config(path()).too_open);
    write("model: m\n", 0644);
    EXPECT_FALSE(read_config(path()).too_open) << "there is no secret in it";
    write("gateway: {telegram: {token: t}}\n", 0644);
    EXPECT_TRUE(read_config(path()).too_open) << "the token of the bot";
}

TEST_F(ConfigFileTest, SavedRules_KeepOtherSettingsAndStayPrivate) {
    save_allow_rule(path(), "shell: git status");
    struct stat info = {};
    ASSERT_EQ(stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    write("model: m\napi_key: k\n", 0600);
    save_allow_rule(path(), "shell: git status");
    save_allow_rule(path(), "fetch: example.org");
    const ConfigFile config = read_config(path());
    EXPECT_EQ(config.model, "m");
    EXPECT_EQ(config.api_key, "k");
    EXPECT_EQ(config.allow, (std::vector<std::string>{"shell: git status", "fetch: example.org"}));
    ASSERT_EQ(stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(ConfigFileTest, LimitsAndFallbacks_AreReadAndChecked) {
    write(
        "fallback_models: [anthropic/a, b]\nmodel_timeout: 2.5\nfirst_byte_timeout: "
        "600\nidle_timeout: 0.5\nescape_timeout: 0.2\nmax_turns: 7\nmax_tokens: 900\n"
        "max_repeated_calls: 4\nmax_listed_mcp_tools: 9\nmcp_start_wait: 1.5\n"
        "compact_at: 0.5\ncompact_model: small\ncontext_window: 32768\n"
        "plugins: {ours: {any: [thing]}}\n");
    const ConfigFile config = read_config(path());
    EXPECT_EQ(config.fallback_models, (std::vector<std::string>{"anthropic/a", "b"}));
    EXPECT_EQ(config.model_timeout, std::chrono::milliseconds(2500));
    EXPECT_EQ(config.first_byte_timeout, std::chrono::minutes(10));
    EXPECT_EQ(config.idle_timeout, std::chrono::milliseconds(500));
    EXPECT_EQ(config.escape_timeout, std::chrono::milliseconds(200));
    EXPECT_EQ(config.max_turns, 7u);
    EXPECT_EQ(config.compact_at, 0.5);
    EXPECT_EQ(config.compact_model, "small");
    EXPECT_EQ(config.context_window, 32768);
    EXPECT_EQ(config.max_tokens, 900);
    EXPECT_EQ(config.max_repeated_calls, 4u);
    EXPECT_EQ(config.max_listed_mcp_tools, 9u);
    EXPECT_EQ(config.mcp_start_wait, std::chrono::milliseconds(1500));
    EXPECT_FALSE(config.memory);
    write("max_listed_mcp_tools: false");
    EXPECT_GT(read_config(path()).max_listed_mcp_tools, 100'000u);
    write("memory: true");
    EXPECT_TRUE(read_config(path()).memory);
    write("max_repeated_calls: false");
    EXPECT_EQ(read_config(path()).max_repeated_calls, 0u);
    for (const char* wrong : {"max_repeated_calls: 0", "max_listed_mcp_tools: 0", "memory: much",
                              "max_repeated_calls: maybe", "compact_at: 2", "compact_at: 0",
                              "max_turns: many", "max_turns: 0", "max_turns: -1", "max_tokens: 1.5",
                              "model_timeout: 0", "model_timeout: [1]", "first_byte_timeout: soon",
                              "idle_timeout: -1", "fallback_models: a", "fallback_models: [[a]]"}) {
        write(wrong);
        EXPECT_NE(refusal().find("config.yaml:1: "), std::string::npos) << wrong << refusal();
    }
}

TEST_F(ConfigFileTest, D142_Hooks_HaveTheFormOfOtherAgents) {
    write(
        "hooks: {\n"
        "  \"PreToolUse\": [{\"matcher\": \"shell|edit\", \"hooks\": [\n"
        "    {\"type\": \"command\", \"command\": \"check\", \"timeout\": 5},\n"
        "    {\"type\": \"command\", \"command\": \"log\"}]}],\n"
        "  \"Stop\": [{\"hooks\": [{\"command\": \"tests\"}]}]}\n");
    const std::vector<bub::CommandHook> hooks = read_config(path()).hooks;
    ASSERT_EQ(hooks.size(), 3u);
    EXPECT_EQ(hooks[0].point, bub::HookPoint::pre_tool_use);
    EXPECT_EQ(hooks[0].matcher, "shell|edit");
    EXPECT_EQ(hooks[0].timeout, std::chrono::seconds(5));
    EXPECT_EQ(hooks[1].command, "log");
    EXPECT_EQ(hooks[1].timeout, std::chrono::seconds(60));
    EXPECT_EQ(hooks[2].point, bub::HookPoint::stop);
    for (const char* wrong :
         {"hooks: [a]", "hooks: {Other: []}", "hooks: {Stop: x}", "hooks: {Stop: [x]}",
          "hooks: {Stop: [{hooks: [{}]}]}", "hooks: {Stop: [{hooks: [{command: ''}]}]}",
          "hooks: {Stop: [{hooks: [{command: a, timeout: 0}]}]}",
          "hooks: {Stop: [{hooks: [{command: a, type: prompt}]}]}",
          "hooks: {PreToolUse: [{matcher: '(', hooks: [{command: a}]}]}"}) {
        write(wrong);
        EXPECT_NE(refusal().find("config.yaml:1: "), std::string::npos) << wrong << refusal();
    }
}

TEST_F(ConfigFileTest, D142_MatcherThatMissesTools_HasANote) {
    const auto note_of = [&](const std::string& matcher, const char* point = "PreToolUse") {
        write(std::string("hooks: {") + point + ": [{matcher: '" + matcher +
              "', hooks: [{command: a}, {command: b}]}]}");
        const std::vector<bub::CommandHook> hooks = read_config(path()).hooks;
        EXPECT_LE(hook_warnings(hooks).size(), 1u) << "one for a matcher";
        EXPECT_EQ(hook_warnings(hooks).empty(), hooks.front().note.empty());
        return hooks.front().note;
    };
    const std::string here = "here the names of these tools are: ";
    EXPECT_EQ(note_of("Bash|Write"), here + "shell, write");
    EXPECT_EQ(note_of("Bash", "PostToolUse"), here + "shell");
    EXPECT_EQ(note_of("edit|MultiEdit|WebFetch"), here + "fetch");
    EXPECT_EQ(note_of("fs_(read|write)"), here + "read, write");
    EXPECT_EQ(note_of("mcp__.*|Read"), here + "read");
    EXPECT_EQ(note_of("Shell"), here + "shell");
    EXPECT_EQ(note_of("shel"), "no tool of this program has such a name");
    EXPECT_EQ(note_of("mcp_git"), "no tool of this program has such a name");
    for (const char* const matcher : {"", "*", ".*", "shell|write", "shell|Bash", "mcp__git__.*",
                                      ".*__.*", "(?!shell).*", "fetch|x"})
        EXPECT_EQ(note_of(matcher), "") << matcher;
    EXPECT_EQ(note_of("Bash", "Stop"), "");
}

TEST_F(ConfigFileTest, TraceSetting_MayBeDirectoryOrMapping) {
    write("trace: ~/traces\n");
    EXPECT_EQ(read_config(path()).trace.directory, "~/traces");
    EXPECT_FALSE(read_config(path()).trace.content);
    write("trace: {directory: /var/traces, content: true}\n");
    EXPECT_EQ(read_config(path()).trace.directory, "/var/traces");
    EXPECT_TRUE(read_config(path()).trace.content);
    for (const char* wrong :
         {"trace: traces", "trace: [a]", "trace: {content: maybe}", "trace: {path: /a}"}) {
        write(wrong);
        EXPECT_NE(refusal().find("config.yaml:1: "), std::string::npos) << wrong << refusal();
    }
}

TEST_F(ConfigFileTest, Save_KeepsCommentsOrderAndStyle) {
    write(
        "# mine\nmodel: a      # the cheap one\n\nproviders:\n  # at work\n  work:\n"
        "    base_url: http://x/v1\n    api_key: k\n  box: {base_url: \"http://box/v1\"}\n"
        "# rules\nallow:\n  - \"shell: git status\"\n# the end\n");
    const JsonObject before = config_values(path());
    JsonObject wanted = before;
    wanted["model"] = "b";
    wanted["providers"].at("work").get_object()["base_url"] = "http://y/v1";
    wanted["providers"].at("work").get_object().erase("api_key");
    wanted["allow"].get_array().emplace_back("fetch: example.org");
    wanted["max_turns"] = 5;
    save_config(path(), before, wanted);
    std::stringstream text;
    text << std::ifstream(path()).rdbuf();
    EXPECT_EQ(text.str(),
              "# mine\nmodel: b      # the cheap one\n\nproviders:\n  # at work\n  work:\n"
              "    base_url: http://y/v1\n  box: {base_url: \"http://box/v1\"}\n"
              "# rules\nallow:\n  - \"shell: git status\"\n  - \"fetch: example.org\"\n"
              "max_turns: 5\n# the end\n");
}

TEST_F(ConfigFileTest, CommentsOfReplacedAndRemovedValues_Stay) {
    const std::string text =
        "# top\nprovider: box  # mine\napi_key: k  # of the team\n"
        "providers: {box: {base_url: 'http://a/v1'}}  # all of them\n"
        "allow:\n  # safe\n  - \"write: *\"\n";
    JsonObject wanted = yaml_values(text);
    wanted["provider"] = "new";
    wanted.erase("api_key");
    wanted.erase("allow");
    wanted["providers"].get_object()["new"] = JsonObject{{"base_url", "http://b/v1"}};
    const std::string edited = edit_yaml(text, wanted);
    EXPECT_EQ(yaml_values(edited), wanted) << edited;
    for (const char* comment : {"# top", "# mine", "# of the team", "# all of them", "# safe"})
        EXPECT_NE(edited.find(comment), std::string::npos) << comment << "\n" << edited;
    const std::string flow = "# top\n{model: a,\n# inside\nallow: [x]}\n";
    JsonObject other = yaml_values(flow);
    other["model"] = "b";
    const std::string fresh = edit_yaml(flow, other);
    EXPECT_EQ(yaml_values(fresh), other);
    EXPECT_NE(fresh.find("# top\n# inside\n"), std::string::npos) << fresh;
}

TEST_F(ConfigFileTest, UneditableText_IsRewrittenWithEqualContent) {
    for (const char* text :
         {"{model: a, allow: [x]}", "model: a\n\"allow\": [x]\n", "? model\n: a\n",
          "anchor: &a {base_url: 'http://x'}\nother: *a\nmodel: |\n  # no comment\n"}) {
        const JsonObject before = yaml_values(text);
        JsonObject wanted = before;
        wanted["model"] = "it's: a \"new\" # one";
        wanted["number"] = "123";
        wanted["nested"] = JsonObject{{"deep", JsonObject{{"list", JsonArray{1, "two"}}}}};
        EXPECT_EQ(yaml_values(edit_yaml(text, wanted)), wanted) << text;
    }
}

TEST_F(ConfigFileTest, SavedValues_AreReadBackUnchanged) {
    for (const char* written : {"model: a\n b\nmax_turns: 5\n", "? model\n: a\nmax_turns: 5\n",
                                "plugins: {~: a}\nmodel: a", "model: a\r"}) {
        for (const char* model : {"c", "c\r", "\rc", "c\r\nd", "c\x1d", " c ", ": c", "c: d", "- c",
                                  "null", "~", "1.5", "c #d", "\xc2\x85", "c\xe2\x80\xa8"}) {
            write(written);
            const JsonObject before = config_values(path());
            JsonObject wanted = before;
            wanted["model"] = model;
            wanted["base_url"] = model;
            save_config(path(), before, wanted);
            EXPECT_EQ(config_values(path()), wanted) << written << model;
        }
    }
}

TEST_F(ConfigFileTest, KeyThatLooksLikeYaml_StaysAKey) {
    for (const char* key :
         {"---", "...", "- c", "? c", "-",    "?",    "c: d", "c #d", "#", "%YAML 1.2", " ",
          "",    "<<",  "=",   "~",   "null", "1.50", "true", "c\nd", "'", "\xc2\x85"}) {
        // A text that must be rewritten, and one that gets another line.
        for (const char* text : {"{model: a}", "model: a\n", "plugins:\n  x: {}\n"}) {
            JsonObject wanted = yaml_values(text);
            wanted[key] = "b";
            wanted["plugins"] = JsonObject{{"x", JsonObject{{key, JsonObject{{key, 1}}}}}};
            EXPECT_EQ(yaml_values(edit_yaml(text, wanted)), wanted) << text << key;
        }
    }
}

TEST_F(ConfigFileTest, OverlongYamlKey_IsRefusedWithReason) {
    const std::string key(2'000, 'k');
    const std::string text = "? " + key + "\n: a\nmodel: b\n";
    JsonObject wanted = yaml_values(text);
    ASSERT_TRUE(wanted.contains(key));
    wanted["model"] = "c";
    EXPECT_THROW(
        {
            try {
                edit_yaml(text, wanted);
            } catch (const Error& error) {
                EXPECT_STREQ(error.what(),
                             "a key is longer than 1,000 characters, which YAML does not allow");
                throw;
            }
        },
        Error);
}

TEST_F(ConfigFileTest, SavingInvalidOrMeanwhileChangedFile_IsRefused) {
    write("model: a\n");
    const JsonObject before = config_values(path());
    JsonObject wanted = before;
    wanted["modle"] = "b";
    EXPECT_THROW(save_config(path(), before, wanted), Error);
    wanted = before;
    wanted["model"] = "b";
    write("model: c\n");
    EXPECT_THROW(save_config(path(), before, wanted), Error);
    EXPECT_EQ(read_config(path()).model, "c");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_),
                            std::filesystem::directory_iterator()),
              1)
        << "something was left behind";
}

TEST_F(ConfigFileTest, SavingThroughLink_KeepsTheLink) {
    std::ofstream(directory_ / "dotfile") << "model: a\n";
    std::filesystem::create_symlink(directory_ / "dotfile", path());
    save_allow_rule(path(), "write: *");
    EXPECT_TRUE(std::filesystem::is_symlink(path()));
    EXPECT_EQ(read_config(directory_ / "dotfile").allow, std::vector<std::string>{"write: *"});
}

}  // namespace
}  // namespace cubepi::app
