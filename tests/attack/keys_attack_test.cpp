// Keys and addresses from different places: a key goes to the origin that it was configured for. Commands that search for the keys
// of the program that runs them.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/process/process_test.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/workspace_test.hpp>

#include "attack.hpp"
#include "config/model_sources.hpp"
#include "source_tree.hpp"

namespace cubepi::attack {

namespace {

using app::Endpoint;
using app::ModelSources;

constexpr const char* other = "https://other.example/v1";

struct Source {
    const char* name;
    std::function<void(ModelSources&)> set;
};

/// Each configures a key of the provider openai.
std::vector<Source> keys() {
    return {
        {"OPENAI_API_KEY", [](ModelSources& s) { s.environment["OPENAI_API_KEY"] = "k"; }},
        {"api_key of the file", [](ModelSources& s) { s.config.api_key = "k"; }},
        {"api_key_env of the file",
         [](ModelSources& s) {
             s.config.api_key_env = "COMPANY";
             s.environment["COMPANY"] = "k";
         }},
        {"Bub's settings",
         [](ModelSources& s) {
             s.bub.api_keys["openai"] = "k";
             s.bub.origins["api_keys.openai"] = "BUB_OPENAI_API_KEY";
         }},
    };
}

/// Each configures another address, in ascending order of precedence.
std::vector<Source> addresses() {
    return {
        {"Bub's settings",
         [](ModelSources& s) {
             s.bub.api_bases["openai"] = other;
             s.bub.origins["api_bases.openai"] = "BUB_OPENAI_API_BASE";
         }},
        {"base_url of the file", [](ModelSources& s) { s.config.base_url = other; }},
        {"OPENAI_BASE_URL", [](ModelSources& s) { s.environment["OPENAI_BASE_URL"] = other; }},
        {"--base-url", [](ModelSources& s) { s.flags.base_url = other; }},
    };
}

/// Whether the key and the address are configured in the same place.
bool belong_together(const std::string& key, const std::string& address) {
    return (key == "OPENAI_API_KEY" && address == "OPENAI_BASE_URL") ||
           (key.ends_with("of the file") && address.ends_with("of the file")) || key == address;
}

/// The key with each character plain or escaped in one of the ways that occur in answers.
std::string disguised(const std::string& key, std::mt19937_64& random) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    for (const char c : key) {
        const auto byte = static_cast<unsigned char>(c);
        const std::string hex = {digits[byte / 16U], digits[byte % 16U]};
        switch (random() % 5) {
            case 0: text += "\\u00" + hex; break;
            case 1: text += "%" + hex; break;
            case 2: text += "%25" + hex; break;
            case 3: text += c == '/' ? std::string("\\/") : std::string(1, c); break;
            default: text += c;
        }
    }
    return text;
}

const std::vector<const char*>& secret_names() {
    static const std::vector<const char*> names = {"OPENAI_API_KEY",
                                                   "ANTHROPIC_API_KEY",
                                                   "OPENROUTER_API_KEY",
                                                   "DATABASE_URL",
                                                   "AWS_ACCESS_KEY_ID",
                                                   "AWS_SECRET_ACCESS_KEY",
                                                   "AWS_SESSION_TOKEN",
                                                   "AWS_SECURITY_TOKEN",
                                                   "PGPASSWORD",
                                                   "PGPASSFILE",
                                                   "MYSQL_PWD",
                                                   "GITHUB_PAT",
                                                   "GITHUB_TOKEN",
                                                   "GH_TOKEN",
                                                   "GITLAB_PAT",
                                                   "CI_JOB_JWT",
                                                   "NPM_TOKEN",
                                                   "NPM_CONFIG__AUTH",
                                                   "NPM_CONFIG__AUTHTOKEN",
                                                   "PYPI_TOKEN",
                                                   "TWINE_PASSWORD",
                                                   "CARGO_REGISTRY_TOKEN",
                                                   "DOCKER_AUTH_CONFIG",
                                                   "DOCKER_PASSWORD",
                                                   "AZURE_CLIENT_SECRET",
                                                   "AZURE_STORAGE_CONNECTION_STRING",
                                                   "GOOGLE_APPLICATION_CREDENTIALS",
                                                   "GOOGLE_CREDENTIALS",
                                                   "SLACK_WEBHOOK_URL",
                                                   "SENTRY_DSN",
                                                   "REDIS_URL",
                                                   "MONGODB_URI",
                                                   "CELERY_BROKER_URL",
                                                   "REDISCLI_AUTH",
                                                   "SMTP_PASS",
                                                   "SSH_PRIVATE_KEY",
                                                   "GPG_PASSPHRASE",
                                                   "VAULT_TOKEN",
                                                   "STRIPE_API_KEY_LIVE",
                                                   "OPENAI_APIKEY",
                                                   "SQLALCHEMY_DATABASE_URI",
                                                   "JIRA_PAT",
                                                   "SESSION_COOKIE",
                                                   "DJANGO_SECRETS",
                                                   "db_password",
                                                   "AMQP_URL",
                                                   "MY_SERVICE_JWT",
                                                   "FIREBASE_PRIVATE_KEY_ID"};
    return names;
}

const std::vector<const char*>& needed_names() {
    static const std::vector<const char*> names = {"JAVA_HOME",
                                                   "VIRTUAL_ENV",
                                                   "SSH_AUTH_SOCK",
                                                   "GOPATH",
                                                   "CARGO_HOME",
                                                   "RUSTUP_HOME",
                                                   "NODE_OPTIONS",
                                                   "PYTHONPATH",
                                                   "PKG_CONFIG_PATH",
                                                   "LD_LIBRARY_PATH",
                                                   "CC",
                                                   "CXX",
                                                   "CFLAGS",
                                                   "MAKEFLAGS",
                                                   "KUBECONFIG",
                                                   "ANDROID_HOME",
                                                   "NVM_DIR",
                                                   "CONDA_PREFIX",
                                                   "XDG_RUNTIME_DIR",
                                                   "DBUS_SESSION_BUS_ADDRESS",
                                                   "DISPLAY",
                                                   "EDITOR",
                                                   "LC_CTYPE",
                                                   "HTTPS_PROXY",
                                                   "GIT_SSH_COMMAND"};
    return names;
}

constexpr const char* secret = "sesame-4711";

std::string command_output(const EnvironmentPolicy& environment, const char* command) {
    const ScopedTestDirectory directory;
    WorkspacePolicy policy;
    policy.environment = environment;
    auto workspace = std::make_shared<LocalWorkspace>(directory.path(), std::move(policy));
    return run_tool(shell_tool(ShellSessions::create(std::move(workspace))),
                    JsonObject{{"command", command}})
        .text();
}

std::string file_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

}  // namespace

TEST(KeyAttack, Key_IsSentOnlyToItsConfiguredOrigin) {
    Row row("keys", "a key and an address from different places");
    for (const Source& key : keys()) {
        for (const Source& address : addresses()) {
            ModelSources sources;
            sources.config.provider = "openai";
            key.set(sources);
            address.set(sources);
            const Endpoint endpoint = choose_endpoint(sources);
            const std::string what = std::string(key.name) + " with " + address.name;
            EXPECT_EQ(endpoint.base_url, other) << what;
            if (belong_together(key.name, address.name)) {
                EXPECT_EQ(endpoint.api_key, "k") << what;
            } else {
                row.attempt(endpoint.api_key.empty(), what);
                EXPECT_FALSE(endpoint.key_note().empty()) << what;
            }
        }
    }
}

TEST(KeyAttack, Origin_IsSchemeHostAndPort) {
    Row row("keys", "an address that looks like the provider's");
    for (const char* address :
         {"http://api.openai.com/v1", "https://api.openai.com:444/v1",
          "https://api.openai.com.evil.example/v1", "https://evil.example/api.openai.com/v1",
          "https://api.openai.com@evil.example/v1", "https://api.openai.comm/v1",
          "https://api.openai.com%2eevil.example/v1", "http://localhost:11434/v1",
          "ftp://api.openai.com/v1", "api.openai.com/v1",
          "https://api.openai.com\\@evil.example/v1"}) {
        ModelSources sources;
        sources.environment["OPENAI_API_KEY"] = "k";
        sources.flags.base_url = address;
        const Endpoint endpoint = choose_endpoint(sources);
        row.attempt(endpoint.api_key.empty(), address);
    }
    for (const char* address : {"https://api.openai.com", "https://API.OpenAI.com:443/v2"}) {
        ModelSources sources;
        sources.environment["OPENAI_API_KEY"] = "k";
        sources.flags.base_url = address;
        EXPECT_EQ(choose_endpoint(sources).api_key, "k") << address;
    }
}

TEST(KeyAttack, KeyOfOtherProvider_IsNotUsed) {
    Row row("keys", "a key of one provider at the address of another");
    for (const app::KnownProvider& has_key : app::known_providers()) {
        if (has_key.key_variable.empty()) continue;
        for (const app::KnownProvider& wanted : app::known_providers()) {
            if (app::same_service(has_key.name, wanted.name)) continue;
            ModelSources sources;
            sources.environment[std::string(has_key.key_variable)] = "k";
            sources.flags.provider = wanted.name;
            row.attempt(choose_endpoint(sources).api_key.empty(),
                        std::string(has_key.name) + " at " + std::string(wanted.name));
        }
    }
}

TEST(KeyAttack, KeyWithoutEncryption_CausesAWarning) {
    Row row("keys", "a key sent in clear without a note");
    for (const char* address :
         {"http://box:8000/v1", "http://192.168.1.2/v1", "http://10.0.0.1:1/v1",
          "http://127.evil.example/v1", "http://localhost.evil.example/v1"}) {
        ModelSources sources;
        sources.environment["COMPANY"] = "k";
        sources.flags.api_key_env = "COMPANY";
        sources.flags.base_url = address;
        const Endpoint endpoint = choose_endpoint(sources);
        EXPECT_EQ(endpoint.api_key, "k") << address;
        row.attempt(endpoint.key_note().find("in plain text") != std::string::npos, address);
    }
    for (const char* address :
         {"http://localhost:1/v1", "http://127.0.0.1:1/v1", "http://[::1]:1/v1"})
        EXPECT_FALSE(app::is_sent_in_clear(address)) << address;
}

TEST(KeyAttack, EscapedKeyInErrorText_IsRedacted) {
    Row row("keys", "a key that an endpoint repeats in escaped form");
    std::mt19937_64 random = generator("escaped keys");
    const std::string key = "sk-proj/AbC+dE=9_x";
    for (std::size_t i = 0; i < rounds(500); ++i) {
        const std::string text = disguised(key, random);
        row.attempt(without_secret("no: " + text + "!", key) == "no: ***!", text);
    }
}

TEST(EnvironmentAttack, Secrets_DoNotReachCommands) {
    Row row("environment", "variables with a secret, by name");
    for (const char* name : secret_names()) {
        ::setenv(name, secret, 1);
        const std::string output =
            command_output(app::command_environment(app::ConfigFile()), "env");
        row.attempt(output.find(secret) == std::string::npos, name);
        ::unsetenv(name);
    }
}

TEST(EnvironmentAttack, SecretsInValues_DoNotReachCommands) {
    Row row("environment", "variables with a URL that has a password");
    for (const char* scheme : {"postgres", "mysql", "redis", "amqp", "mongodb+srv", "https"}) {
        ::setenv("STORE", (std::string(scheme) + "://user:" + secret + "@host/x?y=z").c_str(), 1);
        const std::string output =
            command_output(app::command_environment(app::ConfigFile()), "env");
        row.attempt(output.find(secret) == std::string::npos, scheme);
    }
    ::unsetenv("STORE");
}

TEST(EnvironmentAttack, ModelKeys_NeverReachCommands) {
    Row row("environment", "a policy that includes the variables that hold the keys of models");
    app::ConfigFile config;
    config.api_key_env = "COMPANY";
    config.environment.include = {"*"};
    app::ProviderConfig provider;
    provider.name = "work";
    provider.api_key_env = "WORK_PLAIN";
    config.providers.push_back(provider);
    for (const char* name : {"COMPANY", "WORK_PLAIN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY",
                             "OPENROUTER_API_KEY", "BUB_API_KEY", "BUB_OPENAI_API_KEY"}) {
        for (const auto inherit : {InheritEnvironment::all, InheritEnvironment::core}) {
            config.environment.inherit = inherit;
            ::setenv(name, secret, 1);
            const std::string output = command_output(app::command_environment(config), "env");
            row.attempt(output.find(secret) == std::string::npos, name);
            ::unsetenv(name);
        }
    }
}

TEST(EnvironmentAttack, BuildVariables_ReachCommands) {
    for (const char* name : needed_names()) {
        ASSERT_EQ(std::getenv(name) == nullptr || *std::getenv(name) != '\0', true);
        const EnvironmentPolicy policy = app::command_environment(app::ConfigFile());
        EXPECT_TRUE(policy.allows(name, "/some/value")) << name;
    }
}

TEST(EnvironmentAttack, Command_CannotReadTheProgramsSecrets) {
    Row row("environment", "reading the program or its supervisor through /proc");
    // The program runs a command by its offline model, with --yes.
    const std::string path = cubepi::testing::built_program("cubepi");
    for (const char* reads :
         {"cat /proc/$PPID/environ", "cat /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/environ",
          "tr '\\\\0' '\\\\n' < /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/environ | sort",
          "cat /proc/[0-9]*/environ", "ps eww -e"}) {
        const ScopedTestDirectory directory;
        directory.put(
            "script.json",
            std::string("[{\"stop_reason\":\"tool_use\",\"content\":[{\"type\":\"tool_call\","
                        "\"id\":\"c1\",\"name\":\"shell\",\"arguments\":{\"command\":\"(") +
                reads + ") > taken 2> /dev/null; touch done\"}}]},\"ok\"]");
        const pid_t program = ::fork();
        if (program == 0) {
            ::setenv("OPENAI_API_KEY", secret, 1);
            ::setenv("HOME", directory.path().c_str(), 1);
            if (::chdir(directory.path().c_str()) != 0) ::_exit(1);
            if (std::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(1);
            ::execl(path.c_str(), "cubepi", "run", "--yes", "--script", "script.json", "go",
                    static_cast<char*>(nullptr));
            ::_exit(1);
        }
        int status = 0;
        ::waitpid(program, &status, 0);
        const bool ran = std::filesystem::exists(directory.path() / "done");
        EXPECT_TRUE(ran) << reads;
        row.attempt(ran && file_text(directory / "taken").find(secret) == std::string::npos, reads);
    }
}

}  // namespace cubepi::attack
