#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include <cubepi/process/environment.hpp>

namespace cubepi {

namespace {

TEST(Environment, D58_Secrets_AreRecognizedByName) {
    for (const char* name : {"OPENAI_API_KEY",
                             "GITHUB_TOKEN",
                             "AWS_SECRET",
                             "DB_PASSWORD",
                             "db_password",
                             "TOKEN",
                             "DATABASE_URL",
                             "AWS_ACCESS_KEY_ID",
                             "PGPASSWORD",
                             "GITHUB_PAT",
                             "MYSQL_PWD",
                             "SENTRY_DSN",
                             "SMTP_PASS",
                             "GOOGLE_APPLICATION_CREDENTIALS",
                             "SLACK_WEBHOOK_URL",
                             "OPENAI_API_KEY_OLD",
                             "MONGODB_URI",
                             "SSHPASS",
                             "HF_TOKEN_2",
                             "HF_TOKEN2",
                             "APITOKEN",
                             "MYKEY",
                             "mykey",
                             "KEY1",
                             "DBPASS",
                             "githubToken",
                             "DB_PASS_OLD",
                             "GITHUB_TOKEN_DEPLOY",
                             "MYSQLPWD"}) {
        EXPECT_TRUE(is_secret_variable(name)) << name;
    }
    for (const char* name : {"PATH",
                             "HOME",
                             "MONKEY",
                             "KEYBOARD",
                             "TOKENS",
                             "SECRET_SANTA",
                             "",
                             "SSH_AUTH_SOCK",
                             "JAVA_HOME",
                             "VIRTUAL_ENV",
                             "PWD",
                             "OLDPWD",
                             "GTK2_COMPAT",
                             "P2P",
                             "2",
                             "MAX_TOKENS",
                             "GIT_ASKPASS",
                             "SSH_ASKPASS",
                             "KUBECONFIG",
                             "GOPATH",
                             "XAUTHORITY",
                             "CARGO_HOME",
                             "NODE_OPTIONS",
                             "PKG_CONFIG_PATH",
                             "DBUS_SESSION_BUS_ADDRESS"}) {
        EXPECT_FALSE(is_secret_variable(name)) << name;
    }
}

TEST(Environment, D58_SecretsAndNamedVariables_AreOmitted) {
    ::setenv("CUBEPI_TEST_API_KEY", "1", 1);
    ::setenv("CUBEPI_TEST_HIDDEN", "2", 1);
    ::setenv("CUBEPI_TEST_PLAIN", "3", 1);
    EnvironmentPolicy policy;
    policy.hidden = {"CUBEPI_TEST_HIDDEN"};
    const auto environment = child_environment(policy);
    const auto has = [&](const char* entry) {
        return std::find(environment.begin(), environment.end(), entry) != environment.end();
    };
    EXPECT_TRUE(has("CUBEPI_TEST_PLAIN=3"));
    EXPECT_FALSE(has("CUBEPI_TEST_API_KEY=1"));
    EXPECT_FALSE(has("CUBEPI_TEST_HIDDEN=2"));
    const auto withheld = withheld_variables(policy);
    EXPECT_NE(std::find(withheld.begin(), withheld.end(), "CUBEPI_TEST_API_KEY"), withheld.end());
}

TEST(Environment, D58_Policy_IsAppliedInOrder) {
    EnvironmentPolicy policy;
    policy.exclude = {"npm_*", "CI"};
    policy.include = {"*_URL", "FORCED_?_KEY"};
    policy.hidden = {"WORK_URL"};
    EXPECT_TRUE(policy.allows("JAVA_HOME", "/jdk"));
    EXPECT_FALSE(policy.allows("NPM_CONFIG", "x"));
    EXPECT_FALSE(policy.allows("CI", "true"));
    EXPECT_TRUE(policy.allows("DATABASE_URL", "postgres://u:p@h/db"));
    EXPECT_TRUE(policy.allows("FORCED_A_KEY", "x"));
    EXPECT_FALSE(policy.allows("FORCED_AB_KEY", "x"));
    EXPECT_FALSE(policy.allows("WORK_URL", "x"));
    policy.inherit = InheritEnvironment::core;
    EXPECT_TRUE(policy.allows("PATH", "/bin"));
    EXPECT_TRUE(policy.allows("LC_ALL", "C"));
    EXPECT_FALSE(policy.allows("JAVA_HOME", "/jdk"));
    EXPECT_TRUE(policy.allows("DATABASE_URL", "x"));
    policy.inherit = InheritEnvironment::none;
    EXPECT_FALSE(policy.allows("PATH", "/bin"));
    EXPECT_TRUE(policy.allows("HOME_URL", "x"));
}

TEST(Environment, D58_ValuesWithAPassword_AreWithheld) {
    const EnvironmentPolicy policy;
    EXPECT_FALSE(policy.allows("STORE", "postgres://user:secret@host/db"));
    EXPECT_TRUE(policy.allows("STORE", "postgres://user@host/db"));
    EXPECT_TRUE(policy.allows("PAGE", "http://host:80/a@b:c"));
    EXPECT_TRUE(policy.allows("https_proxy", "http://user:secret@proxy:3128"));
}

}  // namespace

}  // namespace cubepi
