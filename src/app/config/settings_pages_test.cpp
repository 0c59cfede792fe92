// The pages that describe the settings of the gateway: they have every key, and what they show can be read.

#include <gtest/gtest.h>

#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/scoped_test_directory.hpp>

#include "../commands.hpp"
#include "../exit_code.hpp"
#include "config_file.hpp"
#include "gateway_settings.hpp"

namespace cubepi::app {
namespace {

std::string page(const std::string& name) {
    std::ifstream file(std::string(CUBEPI_DOCS "/") + name);
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

TEST(SettingsPages, TheReferenceHasEveryKeyOfTheGateway) {
    const std::string text = page("cli.md");
    for (const std::string& name : gateway_setting_names()) {
        const auto [path, key] = parts_of(name);
        const bool is_listed = !row_of(text, name).empty() || has_word(row_of(text, path), key);
        EXPECT_TRUE(is_listed) << name;
    }
}

TEST(SettingsPages, TheManPageHasEveryKeyOfTheGateway) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(man_page_command(), exit_ok);
    const std::string all = ::testing::internal::GetCapturedStdout();
    const std::size_t begin = all.find(".B gateway\n");
    ASSERT_NE(begin, std::string::npos);
    const std::string text = all.substr(begin, all.find("\n.TP\n", begin) - begin);
    for (const std::string& name : gateway_setting_names())
        EXPECT_TRUE(has_word(text, parts_of(name).second)) << name;
}

TEST(SettingsPages, WhatTheGuidesShowCanBeRead) {
    const ScopedTestDirectory directory;
    std::size_t count = 0;
    for (const char* name : {"guides/bub/gateway.md", "guides/bub/telegram.md",
                             "guides/bub/http-channel.md", "security.md"}) {
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
