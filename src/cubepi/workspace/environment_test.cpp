#include <cubepi/workspace/environment.hpp>

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(Environment, D58_KnowsSecretsByTheirNames) {
    for (const char* name :
         {"OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET", "DB_PASSWORD", "db_password", "TOKEN"}) {
        EXPECT_TRUE(is_secret_variable(name)) << name;
    }
    for (const char* name : {"PATH", "HOME", "MONKEY", "KEYBOARD", "TOKENS", "SECRET_SANTA", ""}) {
        EXPECT_FALSE(is_secret_variable(name)) << name;
    }
}

TEST(Environment, D58_LeavesSecretsAndNamedVariablesOut) {
    ::setenv("CUBEPI_TEST_API_KEY", "1", 1);
    ::setenv("CUBEPI_TEST_HIDDEN", "2", 1);
    ::setenv("CUBEPI_TEST_PLAIN", "3", 1);
    const auto kept = secret_free_environment({"CUBEPI_TEST_HIDDEN"});
    const auto has = [&](const char* entry) {
        return std::find(kept.begin(), kept.end(), entry) != kept.end();
    };
    EXPECT_TRUE(has("CUBEPI_TEST_PLAIN=3"));
    EXPECT_FALSE(has("CUBEPI_TEST_API_KEY=1"));
    EXPECT_FALSE(has("CUBEPI_TEST_HIDDEN=2"));
}

}  // namespace
}  // namespace cubepi
