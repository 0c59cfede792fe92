// Commands that search for the keys of the program that runs them.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/process_test.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/workspace_test.hpp>

#include "attack.hpp"
#include "config/model_sources.hpp"

namespace cubepi::attack {

namespace {

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

TEST(EnvironmentAttack, SecretsDoNotReachCommands) {
    Row row("environment", "variables with a secret, by name");
    for (const char* name : secret_names()) {
        ::setenv(name, secret, 1);
        const std::string output =
            command_output(app::command_environment(app::ConfigFile()), "env");
        row.attempt(output.find(secret) == std::string::npos, name);
        ::unsetenv(name);
    }
}

TEST(EnvironmentAttack, SecretsInValuesDoNotReachCommands) {
    Row row("environment", "variables with a URL that has a password");
    for (const char* scheme : {"postgres", "mysql", "redis", "amqp", "mongodb+srv", "https"}) {
        ::setenv("STORE", (std::string(scheme) + "://user:" + secret + "@host/x?y=z").c_str(), 1);
        const std::string output =
            command_output(app::command_environment(app::ConfigFile()), "env");
        row.attempt(output.find(secret) == std::string::npos, scheme);
    }
    ::unsetenv("STORE");
}

TEST(EnvironmentAttack, KeysOfModelsNeverReachCommands) {
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

TEST(EnvironmentAttack, VariablesOfBuildsReachCommands) {
    for (const char* name : needed_names()) {
        ASSERT_EQ(std::getenv(name) == nullptr || *std::getenv(name) != '\0', true);
        const EnvironmentPolicy policy = app::command_environment(app::ConfigFile());
        EXPECT_TRUE(policy.allows(name, "/some/value")) << name;
    }
}

TEST(EnvironmentAttack, ACommandCannotReadTheProgramsSecrets) {
    Row row("environment", "reading the program or its supervisor through /proc");
    // The program runs a command by its offline model, with --yes.
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
            ::execl(CUBEPI_PROGRAM, "cubepi", "run", "--yes", "--script", "script.json", "go",
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
