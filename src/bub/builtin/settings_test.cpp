#include <bub/builtin/settings.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include <cubepi/core/error.hpp>

namespace bub {
namespace {

class BubSettings : public testing::Test {
protected:
    BubSettings() {
        std::string name =
            (std::filesystem::temp_directory_path() / "bub-settings-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no folder for temporary files");
        folder = name;
    }
    ~BubSettings() override { std::filesystem::remove_all(folder); }

    Settings read(std::string_view file, const std::map<std::string, std::string>& environment) {
        std::ofstream(folder / "config.yml") << file;
        std::vector<std::string> names;
        for (const auto& [name, value] : environment) names.push_back(name);
        const auto variable = [&environment](const std::string& name) {
            return environment.at(name);
        };
        return read_settings(folder / "config.yml", variable, names);
    }

    std::filesystem::path folder;
};

TEST_F(BubSettings, TheEnvironmentWinsOverTheFile) {
    const Settings settings =
        read("model: openai:a\nmax_steps: 7\napi_key: {openai: k1}\ntelegram: {token: t}\n",
             {{"BUB_MODEL", "openrouter:openrouter/free"},
              {"bub_openrouter_api_key", "k2"},
              {"BUB_STREAM_OUTPUT", "True"},
              {"BUB_DEBOUNCE_SECONDS", "1.5"},
              {"HOME", "/"}});
    EXPECT_EQ(settings.provider_and_model().first, "openrouter");
    EXPECT_EQ(settings.provider_and_model().second, "openrouter/free");
    EXPECT_EQ(settings.key_for("openrouter"), "k2");
    EXPECT_EQ(settings.key_for("openai"), "k1");
    EXPECT_EQ(settings.max_steps, 7);
    EXPECT_EQ(settings.stream_output, true);
    EXPECT_EQ(settings.debounce, std::chrono::milliseconds(1500));
}

TEST_F(BubSettings, SaysWhichValueIsWrong) {
    try {
        (void)read("", {{"BUB_MAX_STEPS", "many"}});
        FAIL() << "nothing was thrown";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::parse);
        EXPECT_NE(std::string(error.what()).find("BUB_MAX_STEPS"), std::string::npos);
    }
}

TEST_F(BubSettings, WithoutAFileNothingIsSet) {
    const Settings settings = read_settings(folder / "none.yml", {}, {});
    EXPECT_TRUE(settings.model.empty());
    EXPECT_FALSE(settings.max_tokens);
}

}  // namespace
}  // namespace bub
