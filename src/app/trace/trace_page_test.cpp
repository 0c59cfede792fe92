#include "trace_page.hpp"

#include <array>
#include <cstdio>
#include <memory>

#include <sys/stat.h>

#include <cubepi/core/error.hpp>

#include "trace_test_support.hpp"

namespace cubepi::app {
namespace {

/// Ends script elements, begins elements, and looks like a handler.
constexpr const char* hostile =
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<!-- ' \" ` ${1}";

class TracePageTest : public TraceCommandTest {
protected:
    std::filesystem::path write_page() {
        TestSpan chat = chat_span("03", "02", "m");
        chat.attributes["gen_ai.output.messages"] =
            R"([{"role":"assistant","parts":[{"type":"text","content":"A needle in the answer"}]}])";
        chat.attributes["evil"] = hostile;
        TestSpan tool = tool_span("04", "02", hostile);
        tool.status = "ERROR";
        TestSpan turn = agent_span("02", "01");
        turn.name = "cubepi.turn";
        write("t.jsonl", chat.line() + tool.line() + turn.line() + agent_span("01").line());
        arguments_.run = (temporary_.path() / "t.jsonl").string();
        arguments_.html = true;
        arguments_.output = (temporary_.path() / "page.html").string();
        EXPECT_EQ(show(TraceArguments::What::view), 0) << err();
        return arguments_.output;
    }

    /// The document after the page's script has run in a browser without a network.
    static std::string dom(const std::filesystem::path& page, const std::string& search = {}) {
        const std::string command =
            "chromium-headless-shell --no-sandbox --disable-gpu --disable-dev-shm-usage "
            "--host-resolver-rules='MAP * ~NOTFOUND' --user-data-dir='" +
            page.parent_path().string() + "/browser' --dump-dom 'file://" + page.string() +
            (search.empty() ? "" : "#search=" + search) + "' 2>/dev/null";
        const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
        std::string text;
        std::array<char, 4096> buffer = {};
        while (pipe && fgets(buffer.data(), buffer.size(), pipe.get())) text += buffer.data();
        return text;
    }
};

TEST_F(TracePageTest, IsOneFileThatOnlyItsOwnerCanRead) {
    const std::filesystem::path page = write_page();
    const std::string text = file_text(page);
    EXPECT_EQ(text.find("http:"), std::string::npos);
    EXPECT_EQ(text.find("https:"), std::string::npos);
    EXPECT_EQ(text.find("<script>document"), std::string::npos);
    EXPECT_NE(text.find("default-src 'none'"), std::string::npos);
    struct stat info = {};
    ASSERT_EQ(stat(page.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_THROW((void)show(TraceArguments::What::view), Error) << "it is not replaced";
}

TEST_F(TracePageTest, ShowsTheSpansInABrowser) {
    const std::string document = dom(write_page());
    EXPECT_EQ(occurrences(document, "class=\"row "), 5u) << document;  // with the heading
    EXPECT_NE(document.find("chat m"), std::string::npos);
    EXPECT_NE(document.find("<title>trace 0123456789"), std::string::npos) << document;
    EXPECT_EQ(document.find("owned</title>"), std::string::npos);
    EXPECT_EQ(document.find("<img"), std::string::npos);
}

TEST_F(TracePageTest, SearchShowsWhatMatchesAndTheSpansAboveIt) {
    const std::string document = dom(write_page(), "needle");
    EXPECT_NE(document.find("1 span found"), std::string::npos) << document;
    EXPECT_EQ(occurrences(document, "style=\"display: none"), 1u) << document;  // the tool
}

}  // namespace
}  // namespace cubepi::app
