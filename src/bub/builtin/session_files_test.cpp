#include <bub/builtin/tools/session_files.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

// The names and the limits of the files of users.

namespace bub::detail {
namespace {

TEST(SafeFileName, D99_HostileNames_AreHarmless) {
    const std::vector<std::pair<std::string, std::string>> names = {
        {"report.pdf", "report.pdf"},
        {"Bericht März (2).pdf", "Bericht März (2).pdf"},
        {"../../x", "x"},
        {"..\\..\\x.exe", "x.exe"},
        {".git/hooks/post-commit", "post-commit"},
        {".bashrc", "bashrc"},
        {"-rf", "rf"},
        {"--help.txt", "help.txt"},
        {"...", "file"},
        {"", "file"},
        {"/", "file"},
        {"a\nb\x1b[31m.txt", "a_b__31m.txt"},
        {std::string("a\0b", 3), "a_b"},
        {"a\u202Etxt.exe", "a_txt.exe"},
        {"a\u2028b", "a_b"},
        {"\xff\xfe.txt", "__.txt"},
        {"$(touch x).txt", "_(touch x).txt"},
        {"AGENTS.md", "file-AGENTS.md"},
        {"HEAD", "file-HEAD"},
        {"con.txt", "file-con.txt"},
        {"LPT9", "file-LPT9"},
        {"name. . ", "name"},
        {std::string(300, 'x') + ".pdf", std::string(96, 'x') + ".pdf"},
    };
    for (const auto& [given, safe] : names) EXPECT_EQ(safe_file_name(given), safe) << given;
    for (const char* const letters : {"ä", "漢", "😀"}) {
        std::string longest;
        while (longest.size() < 300) longest += letters;
        EXPECT_LE(safe_file_name(longest).size(), 100u);
        EXPECT_EQ(longest.compare(0, safe_file_name(longest).size(), safe_file_name(longest)), 0);
    }
}

class Attachments : public ::testing::Test {
protected:
    std::string store(const std::string& name, const std::string& bytes) const {
        return store_attachment(directory.path(), name, bytes, limits);
    }
    cubepi::ErrorCode failure_of(const std::string& name, const std::string& bytes) const {
        try {
            (void)store(name, bytes);
        } catch (const cubepi::Error& error) {
            return error.code();
        }
        return cubepi::ErrorCode::unknown;
    }

    const cubepi::ScopedTestDirectory directory;
    SessionFiles limits;
};

TEST_F(Attachments, D99_SameName_GetsANumber) {
    EXPECT_EQ(store("a.txt", "one"), "attachments/a.txt");
    EXPECT_EQ(store("a.txt", "two"), "attachments/a-2.txt");
    EXPECT_EQ(store("a.txt", "one"), "attachments/a.txt") << "the same file is stored once";
    EXPECT_EQ(store("a.txt", "two"), "attachments/a-2.txt");
}

TEST_F(Attachments, D99_Links_AreNotFollowed) {
    std::filesystem::create_directory(directory.path() / "attachments");
    std::ofstream(directory.path() / "target") << "old";
    std::filesystem::create_symlink("../target", directory.path() / "attachments/a.txt");
    EXPECT_EQ(store("a.txt", "new"), "attachments/a-2.txt");
    std::ifstream file(directory.path() / "target");
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line, "old");
}

TEST_F(Attachments, D99_DirectoryThatIsALink_IsRefused) {
    const cubepi::ScopedTestDirectory outside;
    std::filesystem::create_directory_symlink(outside.path(), directory.path() / "attachments");
    EXPECT_EQ(failure_of("a.txt", "one"), cubepi::ErrorCode::permission_denied);
    EXPECT_TRUE(std::filesystem::is_empty(outside.path()));
}

TEST_F(Attachments, D99_NumberAndSize_AreLimited) {
    limits.max_files = 2;
    limits.max_total_bytes = 10;
    (void)store("a", "12345");
    EXPECT_EQ(failure_of("b", "123456"), cubepi::ErrorCode::limit);
    (void)store("b", "12345");
    EXPECT_EQ(failure_of("c", ""), cubepi::ErrorCode::limit);
}

}  // namespace
}  // namespace bub::detail
