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
    static std::string dom(const std::filesystem::path& page, const std::string& search = {},
                           const std::string& settings = {}) {
        const std::string command =
            "chromium-headless-shell --no-sandbox --disable-gpu --disable-dev-shm-usage "
            "--host-resolver-rules='MAP * ~NOTFOUND' " +
            settings + " --user-data-dir='" + page.parent_path().string() +
            "/browser' --dump-dom 'file://" + page.string() +
            (search.empty() ? "" : "#search=" + search) + "' 2>/dev/null";
        const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
        std::string text;
        std::array<char, 4096> buffer = {};
        while (pipe && fgets(buffer.data(), buffer.size(), pipe.get())) text += buffer.data();
        return text;
    }

    /// The text that a script of the test writes into the page, as its user's clicks would change it.
    std::string result_of(const std::filesystem::path& page, const std::string& script,
                          const std::string& settings = {}) {
        std::string text = file_text(page);
        // The page's policy allows no script but its own.
        const std::size_t policy = text.find("Content-Security-Policy");
        EXPECT_NE(policy, std::string::npos);
        text.replace(policy, std::string_view("Content-Security-Policy").size(), "x-none");
        const std::size_t end = text.find("</body>");
        EXPECT_NE(end, std::string::npos);
        text.insert(end,
                    "<script>document.title = '[' + (() => {" + script + "})() + ']';</script>");
        const std::string document = dom(write("scripted.html", text), {}, settings);
        const std::size_t begin = document.find("<title>[");
        const std::size_t close = document.find("]</title>");
        if (begin == std::string::npos || close == std::string::npos) return document;
        return document.substr(begin + 8, close - begin - 8);
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

TEST_F(TracePageTest, AClickShowsAndHidesTheMessagesOfASpan) {
    const std::string script = R"(
        const row = document.querySelector('.row.chat');
        const texts = () => [...document.querySelectorAll('.details')].map((one) => one.textContent);
        const before = texts().length;
        row.click();
        const shown = texts();
        row.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
        return [before, shown.length, shown[0].includes('A needle in the answer'), texts().length,
                row.getAttribute('aria-expanded')].join(' ');)";
    EXPECT_EQ(result_of(write_page(), script), "0 1 true 0 false");
}

TEST_F(TracePageTest, AFoldedSpanHidesThoseBelowIt) {
    const std::string script = R"(
        const visible = () => [...document.querySelectorAll('#rows .row')]
            .filter((row) => row.offsetHeight > 0).length;
        const all = visible();
        document.getElementById('close').click();
        const folded = visible();
        document.getElementById('open').click();
        return [all, folded, visible()].join(' ');)";
    EXPECT_EQ(result_of(write_page(), script), "4 1 4");
}

TEST_F(TracePageTest, BarsShowWhenAndHowLongASpanRan) {
    TestSpan first = chat_span("02", "01", "early");
    first.end = 500;
    TestSpan second = chat_span("03", "01", "late");
    second.start = 500;
    second.end = 750;
    write("t.jsonl", first.line() + second.line() + agent_span("01").line());
    arguments_.run = (temporary_.path() / "t.jsonl").string();
    arguments_.html = true;
    arguments_.output = (temporary_.path() / "page.html").string();
    ASSERT_EQ(show(TraceArguments::What::view), 0) << err();
    const std::string script = R"(
        return [...document.querySelectorAll('#rows .row')].map((row) => {
            const track = row.querySelector('.track').getBoundingClientRect();
            const bar = row.querySelector('i').getBoundingClientRect();
            const share = (x) => Math.round(100 * x / track.width);
            return share(bar.left - track.left) + '+' + share(bar.width);
        }).join(' ');)";
    EXPECT_EQ(result_of(arguments_.output, script, "--window-size=1600,900"), "0+100 0+50 50+25");
}

TEST_F(TracePageTest, FollowsTheColorSchemeOfTheBrowser) {
    const std::string script = R"(
        const style = getComputedStyle(document.body);
        return style.backgroundColor + ' ' + style.color;)";
    const std::filesystem::path page = write_page();
    EXPECT_EQ(result_of(page, script, "--blink-settings=preferredColorScheme=1"),
              "rgb(255, 255, 255) rgb(29, 33, 41)");
    EXPECT_EQ(result_of(page, script, "--blink-settings=preferredColorScheme=0"),
              "rgb(22, 24, 29) rgb(230, 232, 236)");
}

TEST_F(TracePageTest, SearchShowsWhatMatchesAndTheSpansAboveIt) {
    const std::string document = dom(write_page(), "needle");
    EXPECT_NE(document.find("1 span found"), std::string::npos) << document;
    EXPECT_EQ(occurrences(document, "style=\"display: none"), 1u) << document;  // the tool
}

}  // namespace
}  // namespace cubepi::app
