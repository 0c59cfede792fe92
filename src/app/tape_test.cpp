#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "failure.hpp"
#include "program.hpp"

namespace cubepi::app {
namespace {

class TapeCommand : public ::testing::Test {
protected:
    TapeCommand() { arguments_.directory = directory_.string(); }

    void fill() {
        const auto store = std::make_shared<bub::FileTapeStore>(directory_);
        const bub::Tape tape(store, "aa__one");
        run(tape.bootstrap());
        run(tape.append(bub::message_entry("user", "Größe \x1b[31m?")));
        run(tape.append(bub::message_entry("assistant", "42")));
        run(bub::Tape(store, "bb__two").append(bub::message_entry("user", "else")));
        arguments_.tape = "aa";
    }
    int show(TapeArguments::What what) {
        arguments_.what = what;
        out_.str({});
        err_.str({});
        return show_tapes(arguments_, out_, err_);
    }

    ScopedTestDirectory temporary_;
    const std::filesystem::path& directory_ = temporary_.path();
    TapeArguments arguments_;
    std::ostringstream out_;
    std::ostringstream err_;
};

using What = TapeArguments::What;

}  // namespace

TEST_F(TapeCommand, List_ShowsTheTapes) {
    EXPECT_EQ(show(What::list), exit_ok);
    EXPECT_EQ(out_.str(), "");
    fill();
    EXPECT_EQ(show(What::list), exit_ok);
    EXPECT_NE(out_.str().find("aa__one\t"), std::string::npos) << out_.str();
    EXPECT_NE(out_.str().find("4 entries\tsession/start\n"), std::string::npos) << out_.str();
    EXPECT_NE(out_.str().find("1 entry\t-\n"), std::string::npos) << out_.str();
}

TEST_F(TapeCommand, Show_PrintsLastEntriesWithoutTerminalControls) {
    fill();
    arguments_.limit = 2;
    EXPECT_EQ(show(What::show), exit_ok);
    EXPECT_EQ(out_.str().find('\x1b'), std::string::npos);
    EXPECT_NE(out_.str().find("\tmessage\tuser: Größe [31m?\n"), std::string::npos) << out_.str();
    EXPECT_TRUE(out_.str().starts_with("3\t")) << out_.str();
    arguments_.limit = 0;
    arguments_.kinds = {"anchor"};
    EXPECT_EQ(show(What::show), exit_ok);
    EXPECT_TRUE(out_.str().starts_with("1\t")) << out_.str();
}

TEST_F(TapeCommand, B17_Search_FindsEntries) {
    fill();
    arguments_.text = "größe";
    EXPECT_EQ(show(What::search), exit_ok);
    EXPECT_TRUE(out_.str().starts_with("3\t")) << out_.str();
    arguments_.text = "nothing like it";
    EXPECT_EQ(show(What::search), exit_ok);
    EXPECT_EQ(out_.str(), "");
    EXPECT_NE(err_.str(), "");
}

TEST_F(TapeCommand, Anchors_AreListed) {
    fill();
    EXPECT_EQ(show(What::anchors), exit_ok);
    EXPECT_NE(out_.str().find("anchor\tsession/start {\"owner\": \"human\"}\n"), std::string::npos)
        << out_.str();
}

TEST_F(TapeCommand, Export_PrintsLinesOrMessages) {
    fill();
    arguments_.output = (directory_ / "out").string();
    EXPECT_EQ(show(What::export_lines), exit_ok);
    const auto read = [](const std::filesystem::path& path) {
        std::ifstream in(path, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    };
    EXPECT_EQ(read(directory_ / "out"), read(directory_ / "aa__one.jsonl"));
    arguments_.output.clear();
    arguments_.messages = true;
    EXPECT_EQ(show(What::export_lines), exit_ok);
    EXPECT_NE(out_.str().find(R"({"role":"assistant","content":"42"})"), std::string::npos)
        << out_.str();
}

TEST_F(TapeCommand, D77_Json_HasNoCharactersThatControlATerminal) {
    const std::string text = "\u009B31m\u202E\u007F\uFFF9a\uFFFBb";
    const auto store = std::make_shared<bub::FileTapeStore>(directory_);
    run(bub::Tape(store, "aa__one").append(bub::message_entry("user", text)));
    arguments_.tape = "aa";
    arguments_.json = true;
    for (const What what : {What::show, What::export_lines}) {
        for (const bool messages : {false, true}) {
            arguments_.messages = messages;
            EXPECT_EQ(show(what), exit_ok);
            for (const char c : out_.str())
                EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << out_.str();
            const std::string line = out_.str().substr(0, out_.str().find('\n'));
            EXPECT_NE(boost::json::serialize(boost::json::parse(line)).find(text.substr(0, 5)),
                      std::string::npos)
                << line;
        }
    }
}

TEST_F(TapeCommand, UnreachableServer_StopsTheCopy) {
    fill();
    arguments_.all = true;
    arguments_.target = "postgres://me@127.0.0.1:1/x";
    EXPECT_EQ(show(What::copy), exit_storage);
    const std::string text = err_.str();
    EXPECT_NE(text.find("not copied: 2 of 2"), std::string::npos) << text;
    EXPECT_EQ(text.find("PostgreSQL database"), text.rfind("PostgreSQL database")) << text;
}

TEST_F(TapeCommand, Times_NameTheirZoneAndBoundsAreLocal) {
    fill();
    arguments_.limit = 1;
    EXPECT_EQ(show(What::show), exit_ok);
    const std::string line = out_.str();
    const std::string time = line.substr(line.find('\t') + 1, 25);
    EXPECT_TRUE(time[10] == ' ' && (time[20] == '+' || time[20] == '-')) << line;
    EXPECT_EQ(line[line.find('\t') + 26], '\t') << line;
    arguments_.from = arguments_.to = time.substr(0, 10);
    EXPECT_EQ(show(What::show), exit_ok);
    EXPECT_EQ(out_.str(), line) << "the local day has it";
    arguments_.from = "9998-01-01";
    arguments_.to = "";
    EXPECT_EQ(show(What::show), exit_ok);
    EXPECT_EQ(out_.str(), "");
    arguments_.from = "soon";
    EXPECT_THROW(show(What::show), Error);
}

TEST_F(TapeCommand, Export_ReplacesAFileOnlyWithForce) {
    fill();
    const std::filesystem::path target = directory_ / "out";
    std::ofstream(target) << "mine";
    arguments_.output = target.string();
    try {
        (void)show(What::export_lines);
        ADD_FAILURE() << "replaced a file";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("--force"), std::string::npos) << error.what();
    }
    EXPECT_EQ(std::filesystem::file_size(target), 4u);
    arguments_.force = true;
    EXPECT_EQ(show(What::export_lines), exit_ok);
    EXPECT_EQ(std::filesystem::file_size(target),
              std::filesystem::file_size(directory_ / "aa__one.jsonl"));
}

TEST_F(TapeCommand, MissingTape_IsNamed) {
    fill();
    arguments_.tape = "cc";
    EXPECT_EQ(show(What::show), exit_usage);
    EXPECT_NE(err_.str().find("cubepi tape list"), std::string::npos);
    arguments_.tape = "";
    arguments_.session = "unknown";
    EXPECT_EQ(show(What::show), exit_usage);
}

TEST_F(TapeCommand, D76_Export_IsReadableByThisUserOnly) {
    fill();
    arguments_.output = (directory_ / "out").string();
    const mode_t before = ::umask(0);
    EXPECT_EQ(show(What::export_lines), exit_ok);
    ::umask(before);
    struct stat info = {};
    ASSERT_EQ(::stat(arguments_.output.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(TapeCommand, D75_UnreadableTape_DoesNotHideTheOthers) {
    fill();
    std::filesystem::remove(directory_ / "bb__two.jsonl.lock");
    std::filesystem::create_symlink(directory_ / "elsewhere", directory_ / "bb__two.jsonl.lock");
    EXPECT_EQ(show(What::list), exit_storage);
    EXPECT_NE(out_.str().find("4 entries\tsession/start\n"), std::string::npos) << out_.str();
    EXPECT_NE(out_.str().find("? entries\t?\n"), std::string::npos) << out_.str();
    EXPECT_NE(err_.str().find("bb__two.jsonl.lock: it is a symbolic link"), std::string::npos)
        << err_.str();
}

}  // namespace cubepi::app
