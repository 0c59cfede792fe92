#include <bub/builtin/settings.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>

namespace bub {
namespace {

class BubSettings : public testing::Test {
protected:
    BubSettings() {
        std::string name =
            (std::filesystem::temp_directory_path() / "bub-settings-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no directory for temporary files");
        directory = name;
    }
    ~BubSettings() override { std::filesystem::remove_all(directory); }

    Settings read(std::string_view file, const std::map<std::string, std::string>& environment) {
        std::ofstream(directory / "config.yml") << file;
        std::vector<std::string> names;
        for (const auto& [name, value] : environment) names.push_back(name);
        const auto variable = [&environment](const std::string& name) {
            return environment.at(name);
        };
        return read_settings(directory / "config.yml", variable, names);
    }

    std::filesystem::path directory;
};

TEST_F(BubSettings, Pipe_IsAProblemAndNotWaitedFor) {
    const std::filesystem::path file = directory / "config.yml";
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    const auto variable = [](const std::string&) { return std::string(); };
    const Settings settings = read_settings(file, variable, {});
    ASSERT_EQ(settings.problems.size(), 1u);
    EXPECT_NE(settings.problems[0].find(file.string() + ": it is a pipe"), std::string::npos)
        << settings.problems[0];
}

TEST_F(BubSettings, Environment_PrecedesTheFile) {
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

TEST_F(BubSettings, Report_NamesTheSourceOfEachValue) {
    const Settings settings =
        read("model: openai:a\napi_key: {openai: k1}\napi_base: http://box/v1\nmax_tokens: 5\n",
             {{"BUB_MODEL", "openai:b"},
              {"BUB_API_KEY", R"({"anthropic": "k2"})"},
              {"BUB_GROQ_API_BASE", "http://groq/v1"},
              {"BUB_MODEL_TIMEOUT_SECONDS", "2.5"}});
    const std::string file = (directory / "config.yml").string();
    EXPECT_EQ(settings.origin("model"), "BUB_MODEL");
    EXPECT_EQ(settings.origin("api_keys.openai"), file);
    EXPECT_EQ(settings.origin("api_keys.anthropic"), "BUB_API_KEY");
    EXPECT_EQ(settings.key_for("anthropic"), "k2");
    EXPECT_EQ(settings.origin("api_base"), file);
    EXPECT_EQ(settings.origin("api_bases.groq"), "BUB_GROQ_API_BASE");
    EXPECT_EQ(settings.origin("max_tokens"), file);
    EXPECT_EQ(settings.origin("model_timeout"), "BUB_MODEL_TIMEOUT_SECONDS");
    EXPECT_EQ(settings.origin("max_steps"), "");
    EXPECT_TRUE(settings.problems.empty());
}

TEST_F(BubSettings, WrongValue_IsNamedAndTheRestRead) {
    const Settings settings = read(
        "max_tokens: [1]\nmodel_timeout_seconds: soon\nfallback_models: [openai:a]\nmodel: m:n\n",
        {{"BUB_MAX_STEPS", "many"}, {"BUB_FALLBACK_MODELS", "[broken"}, {"BUB_API_BASE", "b"}});
    ASSERT_EQ(settings.problems.size(), 3u);
    EXPECT_NE(settings.problems[0].find("config.yml: model_timeout_seconds: expected a number"),
              std::string::npos)
        << settings.problems[0];
    EXPECT_TRUE(settings.problems[1].starts_with("BUB_FALLBACK_MODELS: expected a list"))
        << settings.problems[1];
    EXPECT_TRUE(settings.problems[2].starts_with("BUB_MAX_STEPS: expected"))
        << settings.problems[2];
    EXPECT_EQ(settings.model, "m:n");
    EXPECT_EQ(settings.api_base, "b");
    EXPECT_EQ(settings.fallback_models, std::vector<std::string>{"openai:a"});
    EXPECT_EQ(settings.origin("max_steps"), "");
}

TEST_F(BubSettings, InvalidFile_IsReportedAndEnvironmentIsUsed) {
    for (const char* text : {"model: [openai", "- a\n- b\n", "\tmodel: x"}) {
        const Settings settings = read(text, {{"BUB_MODEL", "openai:b"}});
        ASSERT_EQ(settings.problems.size(), 1u) << text;
        EXPECT_NE(settings.problems[0].find("cannot read " + (directory / "config.yml").string()),
                  std::string::npos)
            << settings.problems[0];
        EXPECT_EQ(settings.model, "openai:b");
    }
    EXPECT_TRUE(read("# nothing yet\n", {}).problems.empty());
}

TEST_F(BubSettings, DebounceSettings_AreAppliedToChannels) {
    const Settings settings = read("debounce_seconds: 0.5\n", {{"BUB_MAX_WAIT_SECONDS", "3"}});
    const DebounceOptions options = settings.debounce_options();
    EXPECT_EQ(options.delay, std::chrono::milliseconds(500));
    EXPECT_EQ(options.max_wait, std::chrono::seconds(3));
    EXPECT_EQ(options.active_window, DebounceOptions().active_window);
}

TEST_F(BubSettings, MissingFile_SetsNothing) {
    const Settings settings = read_settings(directory / "none.yml", {}, {});
    EXPECT_TRUE(settings.model.empty());
    EXPECT_FALSE(settings.max_tokens);
}

}  // namespace
}  // namespace bub
