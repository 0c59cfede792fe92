// The console at a pseudo-terminal of this process, with a clock that stands still.

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "terminal.hpp"
#include "terminal/chat_view.hpp"
#include "terminal/console.hpp"
#include "terminal/live_area.hpp"
#include "terminal/markdown.hpp"
#include "terminal/text_layout.hpp"

namespace cubepi::terminal_tests {
namespace {

using app::Console;
using app::ConsoleInput;

/// Both ends of a pseudo-terminal.
struct Pair {
    Pair(unsigned short columns, unsigned short rows) {
        winsize size = {};
        size.ws_col = columns;
        size.ws_row = rows;
        if (openpty(&master, &slave, nullptr, nullptr, &size) != 0)
            throw std::runtime_error("no pseudo-terminal");
        fcntl(master, F_SETFL, O_NONBLOCK);
    }
    ~Pair() {
        close(master);
        close(slave);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    int master = -1;
    int slave = -1;
};

class ConsoleAtATerminal : public ::testing::Test {
protected:
    static constexpr std::size_t columns = 40;
    static constexpr std::size_t rows = 12;

    void open() {
        app::ConsoleTerminal ends;
        ends.input = ends.output = pair_.slave;
        console_.emplace(io_.get_executor(), clock_, std::filesystem::path(), ends);
    }

    void type(const std::string& keys) {
        ASSERT_EQ(write(pair_.master, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    }

    /// Runs until it holds; false when that takes minutes.
    bool until(const std::function<bool()>& holds, bool reading = true) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        for (;;) {
            if (reading) read_all();
            if (!screen_.updating() && holds()) return true;
            if (std::chrono::steady_clock::now() > end) return false;
            io_.restart();
            io_.run_one_for(std::chrono::milliseconds(5));
        }
    }
    bool until_shown(const std::string& text) {
        return until([&] { return screen_.text().find(text) != std::string::npos; });
    }
    /// The hold of a new question ends; it is drawn in a later frame.
    bool until_asked(const std::string& prompt) {
        clock_.advance(app::question_hold);
        return until([&] {
            frame();
            return screen_.text().find(prompt) != std::string::npos;
        });
    }

    void read_all() {
        char bytes[4096];
        for (;;) {
            const ssize_t count = read(pair_.master, bytes, sizeof bytes);
            if (count <= 0) return;
            raw_.append(bytes, static_cast<std::size_t>(count));
            screen_.write(std::string_view(bytes, static_cast<std::size_t>(count)));
        }
    }

    /// The next picture may be drawn.
    void frame() { clock_.advance(std::chrono::milliseconds(20)); }

    void listen() {
        boost::asio::co_spawn(io_, console_->next(),
                              [this](const std::exception_ptr&, ConsoleInput input) {
                                  inputs_.push_back(std::move(input));
                              });
    }
    void ask(const std::string& prompt) {
        boost::asio::co_spawn(io_, console_->read(app::for_terminal(prompt)),
                              [this](const std::exception_ptr&, std::optional<std::string> answer) {
                                  answer_ = std::move(answer);
                              });
    }

    void choose(app::Choices choices) {
        boost::asio::co_spawn(io_, console_->choose(std::move(choices)),
                              [this](const std::exception_ptr&, std::optional<app::Chosen> chosen) {
                                  chosen_ = std::move(chosen);
                              });
    }
    void pick() {
        app::PickList list;
        list.heading = "Which one";
        for (const char* text : {"first", "second"}) {
            app::PickList::Row row;
            row.text = text;
            list.rows.push_back(std::move(row));
        }
        boost::asio::co_spawn(io_, console_->pick(std::move(list)),
                              [this](const std::exception_ptr&, std::optional<std::size_t> picked) {
                                  picked_ = picked;
                              });
    }
    static app::Choices yes_or_no() {
        app::Choices choices;
        choices.all = app::yes_and_no();
        return choices;
    }

    Pair pair_{columns, rows};
    boost::asio::io_context io_;
    testing::ManualClock clock_;
    std::optional<Console> console_;
    VirtualScreen screen_{columns, rows};
    std::string raw_;
    std::vector<ConsoleInput> inputs_;
    std::optional<std::string> answer_;
    std::optional<std::optional<std::size_t>> picked_;
    std::optional<app::Chosen> chosen_;
};

/// Work that waits for ever, as for a database that does not answer.
Task<std::string> never(std::shared_ptr<AsyncEvent> event) {
    co_await event->wait();
    co_return std::string("answered");
}

TEST_F(ConsoleAtATerminal, HangingWork_IsInterruptedByAKey) {
    open();
    const auto event = std::make_shared<AsyncEvent>();
    // The fixture owns the console.
    const std::shared_ptr<app::Console> console(&*console_, [](app::Console*) {});
    std::optional<std::optional<std::string>> result;
    const auto done = [&result](const std::exception_ptr&, std::optional<std::string> found) {
        result = std::move(found);
    };
    for (const char* key : {"\x03", "\x1b"}) {
        boost::asio::co_spawn(io_, app::unless_interrupted(console, never(event)), done);
        type(key);
        ASSERT_TRUE(until([&] {
            frame();
            return result.has_value();
        }));
        EXPECT_FALSE(result->has_value());
        result.reset();
    }
    boost::asio::co_spawn(io_, app::unless_interrupted(console, never(event)), done);
    event->set();
    ASSERT_TRUE(until([&] { return result.has_value(); }));
    EXPECT_EQ(*result, "answered");
}

TEST_F(ConsoleAtATerminal, BlockedOutput_KeysAreStillHeard) {
    open();
    ASSERT_TRUE(until_shown(">"));
    console_->set_busy(true);
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
    console_->print(app::for_terminal(text));
    frame();
    // From here on the output is not read.
    listen();
    type("\x03");
    ASSERT_TRUE(until([&] { return !inputs_.empty(); }, false));
    EXPECT_EQ(inputs_[0].kind, ConsoleInput::Kind::interrupt);
    EXPECT_FALSE(console_->shown());
    ASSERT_TRUE(until([&] {
        frame();
        return console_->shown();
    }));
    ASSERT_TRUE(until_shown("line 19999"));
    const std::string all = "\n" + screen_.text();
    for (int i = 0; i < 20'000; i += 1999)
        EXPECT_NE(all.find("\nline " + std::to_string(i) + "\n"), std::string::npos) << i;
}

TEST_F(ConsoleAtATerminal, KeysDuringLongText_AreShownBetweenParts) {
    open();
    ASSERT_TRUE(until_shown(">"));
    console_->print(app::for_terminal(std::string(40'000, 'x') + "\nthe end\n"));
    type("typed");
    ASSERT_TRUE(until_shown("> typed"));
    EXPECT_EQ(screen_.text().find("the end"), std::string::npos) << "one part was enough";
    EXPECT_TRUE(until([&] {
        frame();
        return console_->shown();
    }));
}

TEST_F(ConsoleAtATerminal, Typing_DelaysAQuestion) {
    open();
    type("yes, but dra");
    ASSERT_TRUE(until_shown("> yes, but dra"));
    ask("may it? ");
    type("ft");
    ASSERT_TRUE(until_shown("> yes, but draft")) << screen_.text();
    EXPECT_TRUE(console_->asking());
    EXPECT_EQ(screen_.text().find("may it?"), std::string::npos);
    frame();
    EXPECT_TRUE(until_shown("waits for a pause"));
    clock_.advance(std::chrono::milliseconds(700));
    frame();
    ASSERT_TRUE(until_shown("may it?")) << screen_.text();
    type("n\r");
    ASSERT_TRUE(until([&] { return answer_.has_value(); }));
    EXPECT_EQ(*answer_, "n");
    ASSERT_TRUE(until_shown("> yes, but draft")) << "what was typed is still there";
}

TEST_F(ConsoleAtATerminal, OneKey_AnswersChoices) {
    open();
    ASSERT_TRUE(until_shown(">"));
    choose(yes_or_no());
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    type("N");
    ASSERT_TRUE(until([&] { return chosen_.has_value(); }));
    EXPECT_EQ(chosen_->key, 'n');
    frame();
    EXPECT_TRUE(until_shown("[y]es  [n]o > n"));
}

TEST_F(ConsoleAtATerminal, Arrows_MarkTheAnswerOfEnter) {
    open();
    ASSERT_TRUE(until_shown(">"));
    choose(yes_or_no());
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    type("\x1b[C");
    frame();
    ASSERT_TRUE(until_shown("›[y]es")) << screen_.text();
    type("\x1b[D");
    frame();
    ASSERT_TRUE(until_shown("›[n]o")) << screen_.text();
    type("\r");
    ASSERT_TRUE(until([&] { return chosen_.has_value(); }));
    EXPECT_EQ(chosen_->key, 'n');
}

TEST_F(ConsoleAtATerminal, EnterWithoutAMark_IsAnInvalidAnswer) {
    open();
    ASSERT_TRUE(until_shown(">"));
    choose(yes_or_no());
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    type("\r");
    ASSERT_TRUE(until([&] { return chosen_.has_value(); }));
    EXPECT_EQ(chosen_->key, 0);
    EXPECT_EQ(yes_or_no().hint().str(), "Answer y or n.");
}

TEST_F(ConsoleAtATerminal, EscWithAnAnswer_IsThatAnswer) {
    open();
    ASSERT_TRUE(until_shown(">"));
    app::Choices choices = yes_or_no();
    choices.on_escape = 'n';
    choose(std::move(choices));
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    type("\x1b");
    ASSERT_TRUE(until([&] {
        clock_.advance(std::chrono::milliseconds(200));
        return chosen_.has_value();
    }));
    EXPECT_EQ(chosen_->key, 'n');
}

TEST_F(ConsoleAtATerminal, PasteAtQuestion_GoesToThePrompt) {
    open();
    ASSERT_TRUE(until_shown(">"));
    choose(yes_or_no());
    ASSERT_TRUE(until([&] { return console_->asking(); }));
    type("\x1b[200~in the hold, \x1b[201~");
    ASSERT_TRUE(until([&] { return console_->prompt_text() == "in the hold, "; }));
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    type("\x1b[200~y\x1b[201~");
    ASSERT_TRUE(until([&] { return console_->prompt_text() == "in the hold, y"; }));
    frame();
    EXPECT_TRUE(until_shown("(for the prompt: in the hold, y)")) << screen_.text();
    EXPECT_FALSE(chosen_.has_value());
    // Without the marks of a paste.
    type("\nmore\rtext");
    ASSERT_TRUE(until([&] { return chosen_.has_value(); }));
    EXPECT_EQ(chosen_->key, 0);
    EXPECT_EQ(console_->prompt_text(), "in the hold, y\nmore\ntext");
}

TEST_F(ConsoleAtATerminal, LongPasteAsAnswer_IsFolded) {
    open();
    ASSERT_TRUE(until_shown(">"));
    ask("answer > ");
    ASSERT_TRUE(until_asked("answer >"));
    std::string lines;
    for (int i = 0; i < 12; ++i) lines += "line " + std::to_string(i) + "\n";
    type("\x1b[200~" + lines + "\x1b[201~");
    EXPECT_TRUE(until_shown("answer > [pasted 12 lines]")) << screen_.text();
    type("\r");
    ASSERT_TRUE(until([&] { return answer_.has_value(); }));
    EXPECT_EQ(*answer_, lines);
}

TEST_F(ConsoleAtATerminal, Interrupt_NamesTheQuestionOnTheScreen) {
    open();
    ASSERT_TRUE(until_shown(">"));
    EXPECT_EQ(console_->shown_question(), 0u);
    choose(yes_or_no());
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    const std::uint64_t first = console_->shown_question();
    type("\x03");
    listen();
    ASSERT_TRUE(until([&] { return inputs_.size() == 1; }));
    EXPECT_EQ(inputs_.front().question, first);
    choose(yes_or_no());
    type("n");
    ASSERT_TRUE(until([&] { return chosen_.has_value(); }));
    EXPECT_EQ(console_->shown_question(), 0u) << "the next one is held";
    ASSERT_TRUE(until([&] {
        clock_.advance(app::question_hold);
        return console_->shown_question() != 0;
    }));
    EXPECT_NE(console_->shown_question(), first);
}

TEST_F(ConsoleAtATerminal, KeysDuringHold_ExtendIt) {
    open();
    ASSERT_TRUE(until_shown(">"));
    choose(yes_or_no());
    ASSERT_TRUE(until([&] { return console_->asking(); }));
    for (int i = 0; i < 4; ++i) {
        type("y");
        clock_.advance(app::question_hold - std::chrono::milliseconds(20));
        ASSERT_TRUE(until([&] {
            frame();
            return console_->asking();
        }));
    }
    EXPECT_FALSE(chosen_.has_value());
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    type("y");
    EXPECT_TRUE(until([&] { return chosen_.has_value(); }));
}

TEST_F(ConsoleAtATerminal, D184_ListWhileTyping_WaitsForAPause) {
    open();
    ASSERT_TRUE(until_shown(">"));
    type("ab");
    ASSERT_TRUE(until([&] { return console_->prompt_text() == "ab"; }));
    pick();
    ASSERT_TRUE(until([&] { return console_->asking(); }));
    type("c\x15");
    ASSERT_TRUE(until([&] { return console_->prompt_text().empty(); }));
    type("d");
    ASSERT_TRUE(until([&] { return console_->prompt_text() == "d"; }));
    EXPECT_FALSE(picked_.has_value());
    ASSERT_TRUE(until_asked("Which one")) << screen_.text();
    EXPECT_EQ(screen_.text().find("a question waits"), std::string::npos) << "the list itself";
    type("\x1b[B\r");
    ASSERT_TRUE(until([&] { return picked_.has_value(); }));
    EXPECT_EQ(*picked_, std::optional<std::size_t>(1));
    EXPECT_FALSE(console_->asking());
    EXPECT_EQ(console_->prompt_text(), "d");
}

TEST_F(ConsoleAtATerminal, D184_EscInHoldOfAList_EndsIt) {
    open();
    ASSERT_TRUE(until_shown(">"));
    frame();
    listen();
    pick();
    ASSERT_TRUE(until([&] { return console_->asking(); }));
    type("\r");
    until([&, rounds = 0]() mutable { return ++rounds == 20; });
    EXPECT_FALSE(picked_.has_value()) << "the Enter was for something else";
    type("\x1b");
    ASSERT_TRUE(until([&] {
        frame();
        return picked_.has_value();
    }));
    EXPECT_FALSE(picked_->has_value());
    EXPECT_TRUE(inputs_.empty()) << "nothing else is stopped";
}

TEST_F(ConsoleAtATerminal, EscInHoldOfQuestion_DoesNotLeave) {
    open();
    ASSERT_TRUE(until_shown(">"));
    frame();
    listen();
    choose(yes_or_no());
    ASSERT_TRUE(until([&] { return console_->asking(); }));
    // Not read before the hold ends.
    type("\x1b");
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    EXPECT_TRUE(inputs_.empty());
    EXPECT_FALSE(chosen_.has_value());
    type("\x03");
    ASSERT_TRUE(until([&] { return inputs_.size() == 1; }));
    EXPECT_EQ(inputs_.front().kind, app::ConsoleInput::Kind::interrupt);
}

TEST_F(ConsoleAtATerminal, PauseInTyping_ShowsTheQuestion) {
    open();
    ASSERT_TRUE(until_shown(">"));
    frame();
    ask("may it? ");
    ASSERT_TRUE(until([&] { return console_->asking(); }));
    frame();
    EXPECT_EQ(screen_.text().find("may it?"), std::string::npos);
    ASSERT_TRUE(until_asked("may it?"));
    type("y\r");
    ASSERT_TRUE(until([&] { return answer_.has_value(); }));
    EXPECT_EQ(*answer_, "y");
}

TEST_F(ConsoleAtATerminal, KeysMeantForSomethingElse_AnswerNoQuestion) {
    open();
    ASSERT_TRUE(until_shown(">"));
    frame();
    ask("may it? ");
    ASSERT_TRUE(until([&] { return console_->asking(); }));
    // Typed while the question is held: for the one before, or for a forged one.
    type("y\r");
    until([&, rounds = 0]() mutable { return ++rounds == 20; });
    clock_.advance(app::question_hold - std::chrono::milliseconds(1));
    until([&, rounds = 0]() mutable { return ++rounds == 20; });
    EXPECT_FALSE(answer_.has_value());
    // Sent by the terminal, and not read before the hold ends.
    type("y\r");
    ASSERT_TRUE(until_asked("may it?")) << screen_.text();
    EXPECT_FALSE(answer_.has_value());
    EXPECT_EQ(screen_.text().find("> y"), std::string::npos) << "and no prompt gets them";
    ask("and this? ");
    type("n\r");
    ASSERT_TRUE(until([&] { return answer_.has_value(); }));
    EXPECT_EQ(*answer_, "n");
    answer_.reset();
    type("y\r");
    until([&, rounds = 0]() mutable { return ++rounds == 20; });
    EXPECT_FALSE(answer_.has_value()) << "the next question is held as well";
    ASSERT_TRUE(until_asked("and this?")) << screen_.text();
    type("n\r");
    ASSERT_TRUE(until([&] { return answer_.has_value(); }));
}

TEST_F(ConsoleAtATerminal, TextTypedBeforeStart_IsEntered) {
    type("hello\r");
    open();
    listen();
    ASSERT_TRUE(until([&] { return !inputs_.empty(); })) << screen_.text();
    EXPECT_EQ(inputs_[0].text, "hello");
    type("one\ntwo\r");
    listen();
    ASSERT_TRUE(until([&] { return inputs_.size() == 2; })) << screen_.text();
    EXPECT_EQ(inputs_[1].text, "one\ntwo") << "Ctrl-J begins a line";
}

TEST_F(ConsoleAtATerminal, ManyChanges_AreDrawnAsOneFrame) {
    open();
    ASSERT_TRUE(until_shown(">"));
    const std::size_t before = raw_.size();
    for (int i = 0; i < 1000; ++i) {
        console_->print("w");
        io_.restart();
        io_.poll();
    }
    frame();
    ASSERT_TRUE(until([&] { return console_->shown(); }));
    ASSERT_TRUE(until_shown(std::string(30, 'w')));
    EXPECT_LT(raw_.size() - before, 3000u);
}

TEST_F(ConsoleAtATerminal, TurnTime_ExcludesTheWaitForTheUser) {
    open();
    app::ChatView view(*console_, clock_, io_.get_executor());
    std::chrono::seconds waited(4);  // in earlier turns
    view.leave_out([&waited] { return waited; });
    view.begin_turn();
    clock_.advance(std::chrono::seconds(10));
    waited += std::chrono::seconds(7);
    view.end_turn();
    frame();
    ASSERT_TRUE(until_shown("3.0 s")) << screen_.text();
}

TEST_F(ConsoleAtATerminal, WaitingRow_ShowsTheCurrentWait) {
    open();
    app::ChatView view(*console_, clock_, io_.get_executor());
    const auto until_row = [this](const std::string& text) {
        return until([&] {
            frame();
            return screen_.text().find(text) != std::string::npos;
        });
    };
    view.begin_turn();
    clock_.advance(std::chrono::seconds(14));
    ASSERT_TRUE(until_row("waiting for the model  14.")) << screen_.text();
    AgentEvent event;
    event.body = TurnStartEvent();
    view.on_event(event);
    ASSERT_TRUE(until_row("waiting for the model  0.")) << screen_.text();
    NoticeEvent retry;
    retry.notice.code = "retry";
    retry.notice.text = "overloaded";
    retry.notice.details["delay_ms"] = 5000;
    event.body = std::move(retry);
    view.on_event(event);
    ASSERT_TRUE(until_row("waiting to retry")) << screen_.text();
    clock_.advance(std::chrono::seconds(5));
    ASSERT_TRUE(until_row("waiting for the model  ")) << screen_.text();
    view.end_turn();
}

TEST_F(ConsoleAtATerminal, ClearScreen_KeepsThePrompt) {
    open();
    console_->print("some text\nan open line");
    type("abc");
    ASSERT_TRUE(until_shown("> abc"));
    type("\x0c");
    ASSERT_TRUE(until([&] {
        return raw_.find("\x1b[2J") != std::string::npos && screen_.screen()[0] == "an open line";
    })) << screen_.text();
    EXPECT_EQ(screen_.cursor_row(), "> abc");
}

TEST_F(ConsoleAtATerminal, ClearedScreen_ShowsTheQuestionAgain) {
    open();
    ASSERT_TRUE(until_shown(">"));
    console_->print("the call\n");
    console_->set_question([](app::ScreenSize) { return app::TerminalText("the call\n"); });
    choose(yes_or_no());
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    type("\x0c");
    ASSERT_TRUE(until([&] {
        frame();
        const std::size_t cleared = raw_.find("\x1b[2J");
        return cleared != std::string::npos &&
               raw_.find("the call", cleared) < raw_.find("[y]es", cleared);
    })) << screen_.text();
    EXPECT_NE(screen_.text().find("the call"), std::string::npos) << screen_.text();
}

TEST_F(ConsoleAtATerminal, QuestionWithoutText_StaysOnTheScreen) {
    open();
    ASSERT_TRUE(until_shown(">"));
    console_->print("run it\n");
    choose(yes_or_no());
    ASSERT_TRUE(until_asked("[y]es  [n]o >"));
    type("\x0c");
    type("n");
    ASSERT_TRUE(until([&] { return chosen_.has_value(); }));
    EXPECT_EQ(raw_.find("\x1b[2J"), std::string::npos);
}

/// Words w0, w1, ... are on the screen, each once.
void expect_words(const std::string& text, int count, const std::string& where) {
    std::string all = " " + text + " ";
    std::replace(all.begin(), all.end(), '\n', ' ');
    for (int i = 0; i < count; ++i) {
        const std::string word = " w" + std::to_string(i) + " ";
        const std::size_t at = all.find(word);
        ASSERT_NE(at, std::string::npos) << word << where << "\n" << text;
        ASSERT_EQ(all.find(word, at + 1), std::string::npos) << word << where << "\n" << text;
    }
}

TEST(LiveAreaOnAScreen, Resize_LosesAndRepeatsNothing) {
    for (const bool reflows : {true, false}) {
        for (std::size_t first = 20; first <= 90; first += 7) {
            VirtualScreen screen(first, 15);
            const auto write = [&screen](app::TerminalView text) {
                std::string out;
                for (const char byte : text.str())
                    out += byte == '\n' ? "\r\n" : std::string(1, byte);
                screen.write(out);
            };
            app::LiveArea area(write, first, 15);
            app::LiveArea::Content content;
            content.lines = {app::TerminalView("* waiting"), app::TerminalView("> prompt"),
                             app::TerminalView("status of the chat")};
            content.cursor_line = 1;
            content.cursor_column = 8;
            area.show(content);
            int word = 0;
            for (const std::size_t columns : {first, first / 2 + 6, first + 30, first - 5}) {
                screen.resize(columns, 15, reflows);
                area.resize(columns, 15, reflows);
                for (int i = 0; i < 37; ++i) {
                    area.print(app::for_terminal("w" + std::to_string(word++) +
                                                 (i % 17 == 16 ? "\n" : " ")));
                    area.draw();
                }
            }
            expect_words(screen.unwrapped_text(), word, " from " + std::to_string(first));
            EXPECT_EQ(screen.cursor_row(), "> prompt");
        }
    }
}

TEST(LiveAreaOnAScreen, MarkdownInAnyPieces_LooksTheSame) {
    const std::string text =
        "# Plan\n\nSome **bold words** and `code` that take more than a row of the screen.\n\n"
        "- an item that is wrapped below its own text, with 漢字漢字漢字漢字\n> a quote, also "
        "longer "
        "than one row\n\n```sh\nmake all && a line of code that is longer than the screen is wide\n"
        "```\n| a | b |\n|---|---|\n| 1 | words |\n\nend";
    app::Style style;
    style.terminal = style.color = true;
    style.columns = 34;
    std::string expected;
    for (const std::size_t step : {text.size(), std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
        VirtualScreen screen(34, 10);
        app::LiveArea area(
            [&screen](app::TerminalView out) {
                std::string all;
                for (const char byte : out.str())
                    all += byte == '\n' ? "\r\n" : std::string(1, byte);
                screen.write(all);
            },
            34, 10);
        app::LiveArea::Content content;
        content.lines = {app::TerminalView("> "), app::TerminalView("status")};
        content.cursor_column = 2;
        area.show(content);
        app::MarkdownStream markdown(
            style, [&](app::TerminalView piece, app::Flow flow) { area.print(piece, flow); });
        for (std::size_t at = 0; at < text.size();) {
            std::size_t end = at;
            for (std::size_t i = 0; i < step && end < text.size(); ++i)
                end = app::next_character(text, end);
            markdown.add(text.substr(at, end - at));
            area.draw();
            at = end;
        }
        markdown.finish();
        do area.draw();
        while (area.more());
        if (expected.empty()) expected = screen.text();
        EXPECT_EQ(screen.text(), expected) << "pieces of " << step;
    }
    EXPECT_NE(expected.find("• an item that is wrapped below\n  its own text"), std::string::npos)
        << expected;
    EXPECT_NE(expected.find("│ a quote, also longer than one\n│ row"), std::string::npos)
        << expected;
}

}  // namespace
}  // namespace cubepi::terminal_tests
