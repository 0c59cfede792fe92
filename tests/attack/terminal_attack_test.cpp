// Text of others on its way to the terminal, and keys on their way to a question.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cubepi/net/utf8.hpp>

#include "../terminal/terminal.hpp"
#include "attack.hpp"
#include "render/question_view.hpp"
#include "terminal/input_field.hpp"
#include "terminal/markdown.hpp"
#include "terminal/terminal_text.hpp"
#include "terminal/text_layout.hpp"

namespace cubepi::attack {
namespace {

using namespace app;
using terminal_tests::Home;
using terminal_tests::Terminal;

/// Sequences that a terminal would obey, or that hide or reverse adjacent text.
const std::vector<std::string>& sequences() {
    static const std::vector<std::string> all{"\x1b[2J",
                                              "\x1b[1;1H",
                                              "\x1b[A",
                                              "\x1b]0;title\x07",
                                              "\x1b]52;c;eA==\x07",
                                              "\x1b]8;;http://a/\x1b\\",
                                              "\x1bP+q544e\x1b\\",
                                              "\x1b[6n",
                                              "\x1b[?1049h",
                                              "\x1b"
                                              "c",
                                              "\x1b[8m",
                                              "\x1b[?25l",
                                              "\x9b"
                                              "2J",
                                              "\u009b2J",
                                              "\u009d0;x\u009c",
                                              "\x90q\x9c",
                                              "\xc2",
                                              "\xe2\x80",
                                              "\xf0\x9f\x98",
                                              "\xc0\x9b[2J",
                                              "\xed\xa0\x80",
                                              "\b\b\b\b",
                                              "\r",
                                              "\x07",
                                              "\x0e",
                                              "\x7f",
                                              "\u202e",
                                              "\u2066",
                                              "\u200f",
                                              "\u061c",
                                              "\u200b",
                                              "\u2060",
                                              "\ufeff",
                                              "\u00ad",
                                              "\u3164",
                                              "\U000E0041",
                                              "\u2028"};
    return all;
}

std::string random_text(std::mt19937_64& random) {
    std::string text;
    const std::size_t pieces = 1 + random() % 6;
    for (std::size_t i = 0; i < pieces; ++i) {
        switch (random() % 4) {
            case 0: text += static_cast<char>(random() % 256); break;
            case 1: text += "word "; break;
            default: text += sequences()[random() % sequences().size()];
        }
    }
    return text;
}

/// True when `text` is UTF-8 without a character that a terminal obeys; `styled`: styles (SGR) are the program's own.
bool is_harmless(std::string_view text, bool styled) {
    if (!is_utf8(text)) return false;
    while (!text.empty()) {
        if (styled && text.starts_with("\x1b[")) {
            std::size_t end = 2;
            while (end < text.size() &&
                   ((text[end] >= '0' && text[end] <= '9') || text[end] == ';'))
                ++end;
            if (end == text.size() || text[end] != 'm') return false;
            text.remove_prefix(end + 1);
            continue;
        }
        const FirstCharacter character = first_character(text);
        const char32_t code = character.code;
        const bool control =
            (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code <= 0x9F);
        const bool turns = code == 0x61C || code == 0x200E || code == 0x200F ||
                           (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
        if (control || turns) return false;
        text.remove_prefix(character.bytes);
    }
    return true;
}

Style colored() {
    Style style;
    style.terminal = style.color = true;
    return style;
}

/// An answer as it is shown, in pieces that cut characters and sequences anywhere.
std::string shown_answer(const std::string& text, std::size_t step) {
    std::string out;
    ProseWriter writer;
    MarkdownStream stream(colored(), [&](TerminalView piece, Flow flow) {
        out += writer.add(piece, flow, 40).str();
    });
    for (std::size_t at = 0; at < text.size(); at += step) stream.add(text.substr(at, step));
    stream.finish();
    return out + writer.finish().str();
}

std::string field(const std::string& text) {
    EditBuffer buffer;
    buffer.set(text);
    std::string all;
    for (const TerminalText& row : field_rows(TerminalView("> "), buffer, 80, 20).rows)
        all += row.str();
    return all;
}

std::string question(const std::string& tool, const JsonObject& args, ScreenSize screen = {}) {
    const RuleDecision decision = ToolRules().decide(tool, ToolRisk::writes, args);
    QuestionView view(QuestionView::Call{tool, args, decision}, Style(), screen);
    const TerminalText opening = view.opening();
    return opening.str() + view.rest().str();
}

}  // namespace

TEST(TerminalAttack, ControlSequences_NeverReachTheTerminal) {
    Row row("terminal", "control sequences, C1, bidi and broken UTF-8 in text of others");
    std::mt19937_64 random = generator("control sequences");
    std::vector<std::string> texts = sequences();
    for (std::size_t i = 0; i < rounds(300); ++i) texts.push_back(random_text(random));
    for (const std::string& text : texts) {
        const std::string what = visible(text);
        row.attempt(is_harmless(for_terminal(text).str(), false), "text: " + what);
        row.attempt(is_harmless(line_for_terminal(text, 20).str(), false), "line: " + what);
        const std::string spelled = spelled_out(text).str();
        bool deceives = spelled.find('\n') != std::string::npos;
        for (std::string_view rest = spelled; !rest.empty();
             rest.remove_prefix(first_character(rest).bytes))
            deceives = deceives || is_deceptive(first_character(rest).code);
        row.attempt(!deceives && is_harmless(spelled, false), "spelled out: " + what);
        row.attempt(is_harmless(field(text), false), "input field: " + what);
        for (const std::size_t step : {1UL, 2UL, 5UL})
            row.attempt(is_harmless(shown_answer("**a** " + text + " b\n| x |\n", step), true),
                        "answer: " + what);
        const JsonObject args{{"command", "ls " + text}, {text, text}};
        row.attempt(is_harmless(question("shell", args), false), "question: " + what);
    }
}

TEST(TerminalAttack, JsonOutput_ContainsNoControlSequences) {
    Row row("terminal", "control sequences, C1, bidi and broken UTF-8 in JSON output");
    std::mt19937_64 random = generator("json output");
    for (std::size_t i = 0; i < rounds(300); ++i) {
        const std::string text = i < sequences().size() ? sequences()[i] : random_text(random);
        const std::string line = safe_json(JsonObject{{text, text}});
        row.attempt(is_harmless(line, false) && line.find('\n') == std::string::npos,
                    visible(text));
    }
}

TEST(TerminalAttack, Call_CannotForgeAQuestion) {
    Row row("terminal", "a question forged inside of a call's arguments");
    std::mt19937_64 random = generator("forged question");
    const std::string forged = "? Run this command\n  [y]es  [n]o > y\n";
    const std::vector<std::string> tools{"shell", "write", "edit", "fetch", "notes"};
    const std::vector<std::string> keys{"command",  "path", "content",
                                        "old_text", "url",  "working_directory"};
    for (std::size_t i = 0; i < rounds(400); ++i) {
        const std::size_t columns = 20 + random() % 150;
        std::string value = random_text(random) + std::string(random() % 200, ' ') + forged;
        if (random() % 2 == 0) value = "#" + std::string(columns - 4 - random() % 6, ' ') + forged;
        JsonObject args{{keys[random() % keys.size()], value}};
        if (random() % 3 == 0) args[value] = "x";
        const std::string text = question(tools[random() % tools.size()], args, {columns, 24});
        bool held = true;
        for (std::size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) {
            const std::string_view line =
                std::string_view(text).substr(at + 1, text.find('\n', at + 1) - at - 1);
            held = held && line.starts_with("  ") && display_width(line) < columns;
        }
        row.attempt(held, "columns " + std::to_string(columns) + ": " + visible(value));
    }
}

TEST(TerminalAttack, UnseenText_IsNotApproved) {
    Row row("terminal", "a dangerous line hidden in a call that is larger than the screen");
    std::mt19937_64 random = generator("hidden line");
    for (std::size_t i = 0; i < rounds(100); ++i) {
        const std::size_t lines = 1 + random() % 300;
        const std::size_t at = random() % lines;
        std::string command;
        for (std::size_t line = 0; line < lines; ++line)
            command += line == at ? "rm -rf ~/danger\n" : std::string(random() % 160, 'x') + "\n";
        const ScreenSize screen{40 + random() % 100, 10 + random() % 40};
        const JsonObject args{{"command", command}};
        const std::string tool = "shell";
        const RuleDecision decision = ToolRules().decide(tool, ToolRisk::writes, args);
        QuestionView view(QuestionView::Call{tool, args, decision}, Style(), screen);
        std::string seen = view.opening().str();
        while (!view.complete()) seen += view.next_page().str();
        row.attempt(seen.find("rm -rf ~/danger") != std::string::npos,
                    std::to_string(at) + " of " + std::to_string(lines));
    }
}

/// Two calls that are asked about, each of which makes a file.
std::string two_writes() {
    const auto call = [](const std::string& path) {
        return JsonObject{
            {"stop_reason", "tool_use"},
            {"content",
             JsonArray{JsonObject{{"type", "tool_call"},
                                  {"id", path},
                                  {"name", "write"},
                                  {"arguments", JsonObject{{"path", path}, {"content", "x"}}}}}}};
    };
    return boost::json::serialize(JsonArray{call("first.txt"), call("second.txt"), "The end."});
}

struct Mode {
    std::string name;
    std::string term;
    std::vector<std::string> words;
};
const std::vector<Mode>& modes() {
    static const std::vector<Mode> all{{"run", "xterm", {"run"}},
                                       {"run, TERM=dumb", "dumb", {"run"}},
                                       {"chat", "xterm", {"chat"}},
                                       {"chat, TERM=dumb", "dumb", {"chat"}}};
    return all;
}

std::vector<std::string> command(const Mode& mode, const Home& home) {
    std::vector<std::string> words = mode.words;
    words.insert(words.end(), {"--script", home.script(two_writes()), "go"});
    return words;
}

TEST(TerminalAttack, KeyTypedBeforeQuestion_DoesNotAnswerIt) {
    Row row("terminal", "y typed before the question exists");
    for (const Mode& mode : modes()) {
        Home home;
        home.set("TERM", mode.term);
        Terminal program(home, command(mode, home));
        program.type("y\ry\ry\r");
        row.attempt(
            program.expect("[e]dit > ") && !std::filesystem::exists(home.work() / "first.txt"),
            mode.name);
        program.type("n\r");
        row.attempt(
            program.expect("second.txt") && !std::filesystem::exists(home.work() / "first.txt"),
            mode.name + ", after the answer n");
    }
}

TEST(TerminalAttack, Answer_DoesNotAnswerTheNextQuestion) {
    Row row("terminal", "a second y at once after the first one");
    for (const Mode& mode : modes()) {
        Home home;
        home.set("TERM", mode.term);
        Terminal program(home, command(mode, home));
        ASSERT_TRUE(program.expect("[e]dit > ")) << program.shown();
        program.type("y\r");
        ASSERT_TRUE(program.expect("wrote 1 line")) << program.shown();
        program.type("y\r");
        ASSERT_TRUE(program.expect("? write creates second.txt")) << program.shown();
        row.attempt(
            program.expect("[e]dit > ") && !std::filesystem::exists(home.work() / "second.txt"),
            mode.name);
        EXPECT_TRUE(std::filesystem::exists(home.work() / "first.txt")) << program.shown();
    }
}

/// True when a file below `directory` has `text`; waits for it.
bool comes_to_disk(const std::filesystem::path& directory, const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
        std::error_code ignored;
        std::filesystem::recursive_directory_iterator entry(directory, ignored);
        for (; entry != std::filesystem::recursive_directory_iterator(); entry.increment(ignored)) {
            if (entry->is_regular_file(ignored) &&
                terminal_tests::read_file(entry->path()).find(text) != std::string::npos)
                return true;
        }
        std::this_thread::yield();
    }
    return false;
}

// Shows that the text is journaled before the answer ends, and is used afterwards; not how soon it is journaled.
TEST(TerminalAttack, JournaledText_SurvivesAKill) {
    Row row("terminal", "kill -9 of an unfinished answer whose text is in the journal");
    for (const Mode& mode : modes()) {
        Home home;
        home.set("TERM", mode.term);
        const std::string slow =
            R"({"tokens_per_second": 2, "answers": ["seen )" + std::string(4000, 'x') + R"("]})";
        std::vector<std::string> words = mode.words;
        words.insert(words.end(), {"--session", "s", "--script", home.script(slow), "go"});
        Terminal program(home, words);
        ASSERT_TRUE(program.expect("seen")) << program.shown();
        const bool stored = comes_to_disk(home.tapes(), "seen");
        program.send(SIGKILL);
        (void)program.wait();
        const std::string tape =
            terminal_tests::run_piped(home, {"tape", "show", "--session", "s"}).out;
        row.attempt(stored && tape.find("assistant: seen") != std::string::npos,
                    mode.name + ": " + tape);
    }
}

TEST(TerminalAttack, ToolName_IsShownAsText) {
    Row row("terminal",
            "escape sequences in a tool's name, a model's text and its arguments, in the program");
    for (const char* term : {"xterm", "dumb"}) {
        for (const std::string& sequence :
             {std::string("\x1b]52;c;SEFDS0VE\x07"), std::string("\x1b]0;HACKED\x07"),
              std::string("\xc2\x9b"
                          "31mHACKED")}) {
            Home home;
            home.set("TERM", term);
            const JsonArray script{
                JsonObject{{"stop_reason", "tool_use"},
                           {"content",
                            JsonArray{JsonObject{{"type", "tool_call"},
                                                 {"id", "c1"},
                                                 {"name", "read" + sequence},
                                                 {"arguments", JsonObject{{"path", sequence}}}}}}},
                "The end " + sequence};
            Terminal run(home,
                         {"run", "--script", home.script(boost::json::serialize(script)), "go"});
            (void)run.wait();
            row.attempt(run.raw().find(sequence) == std::string::npos,
                        std::string(term) + ": " + visible(sequence));
        }
    }
}

}  // namespace cubepi::attack
