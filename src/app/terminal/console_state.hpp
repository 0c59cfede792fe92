#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>

#include "console.hpp"
#include "full_screen.hpp"
#include "input_field.hpp"
#include "job_control.hpp"
#include "keys.hpp"
#include "live_area.hpp"
#include "prompter.hpp"

namespace cubepi::app {

/// A question of a console, in the place of its prompt, and the keys that answer it. Used on the executor of the console.
struct ConsoleQuestion {
    /// The effect of a key.
    enum class Outcome : std::uint8_t {
        open,
        ended,        ///< with an answer, or without one
        interrupted,  ///< Esc
    };

    std::uint64_t serial = 0;  ///< unique in the console; not 0
    TerminalText prompt = {};
    std::function<TerminalText(ScreenSize)> text = {};  ///< may be empty
    EditBuffer buffer = {};
    PasteFolds folds = {};                ///< of the buffer
    std::optional<Choices> choices = {};  ///< answered by single keys
    bool ends_at_escape = false;          ///< Esc ends it without an answer
    std::shared_ptr<FullScreen> list =
        {};                  ///< takes the whole screen and all keys instead; null: none
    std::size_t marked = 0;  ///< the number of a choice; 0: none
    std::optional<Chosen> chosen = {};
    std::optional<std::string> answer = {};
    AsyncEvent over = AsyncEvent();

    Outcome press(const Key& key);
    /// Ends the question with the choice that has this key. 0 stands for a key that is not an answer.
    void choose(char key);
    /// Returns true if keys that have arrived together are an answer: a key or a word of a choice, and perhaps Enter.
    bool are_answer(const std::vector<Key>& keys) const;
    /// The row of the question: its text and the choices.
    TerminalText row() const;

private:
    Outcome press_choice(const Key& key);
};

/// The keys that complete the word of an answer, as "es" and Enter after "y". They belong to the answer for a moment, and are not
/// the beginning of the next prompt.
class AnswerTail {
public:
    /// `question` was answered by a choice.
    void begin(const ConsoleQuestion& question, std::chrono::steady_clock::time_point now);
    /// Returns true if the key completes the word.
    bool takes(const Key& key, std::chrono::steady_clock::time_point now);

private:
    std::string rest_;
    std::chrono::steady_clock::time_point begun_ = {};
};

/// The terminal, its prompt and what waits: the implementation of Console. Its handlers keep it alive until close().
struct Console::State : std::enable_shared_from_this<Console::State> {
    State(Executor executor_, Clock& clock_, std::filesystem::path history,
          ConsoleTerminal terminal_, ConsoleUse use_);

    void begin();
    void close();
    /// The first signal ends the chat like the user; the second one ends it at once.
    void wait_for_end();

    // Output.

    /// Draws soon; combines several changes in one frame.
    void schedule();
    void draw();
    void draw_now();
    void draw_cursor_shape();
    TerminalText status_begin() const;
    LiveArea::Content content() const;
    FieldRows field_of(std::size_t max_rows, bool asking) const;
    /// Waits for a new size, or until the stopped process is continued.
    void wait_for_change();
    void take_size();

    // Input.

    bool input_waits() const;
    void wait_for_keys();
    void read_keys();
    bool take_waiting_keys();
    /// Ends a sequence or a paste that has begun if nothing follows.
    void watch_pending();
    void take(const std::vector<Key>& keys);
    void push(ConsoleInput made);
    void push(ConsoleInput::Kind kind) {
        ConsoleInput made;
        made.kind = kind;
        if (question_shows()) made.question = questions.front()->serial;
        push(std::move(made));
    }
    /// Handles a report of the terminal, which is not a key.
    void take_report(const Key& report);
    void press(const Key& key, bool more_follows);
    void clear_screen();
    /// Prints the text of the first question, if it has one.
    void show_question_again();
    void press_in_hold(const Key& key);
    void press_in_question(const Key& key);
    void escape();
    /// Puts pasted text into the prompt, for which no key of a question is.
    void set_aside(const Key& pasted);
    Task<> wait_for_answer(std::shared_ptr<ConsoleQuestion> question);
    /// Prints the first question with its answer, and removes it.
    void end_question();

    /// The reason why the first question is not shown yet.
    enum class Hold : std::uint8_t {
        none,
        for_a_pause,   ///< the user types; the keys belong to that text
        new_question,  ///< keys are discarded: they were pressed before the question could be read
    };
    bool question_shows() const { return !questions.empty() && hold == Hold::none && !screen; }
    /// True while the first question is a list, on the screen.
    bool list_shows() const {
        return !questions.empty() && screen && screen == questions.front()->list;
    }
    void draw_screen();
    void show_screen(std::shared_ptr<FullScreen> shown);
    void close_screen();
    bool has_end() const noexcept;

    /// Starts the hold of the first question.
    void hold_question();
    void end_hold();
    /// Reads keys that the terminal has already sent while the program was busy. Those that stop something count.
    void discard_keys();
    void interrupt();
    /// In cooked mode the terminal translates the Enter key to a line feed.
    void count_typed_ahead();
    void suspend();
    void lend();
    void take_back();
    /// Takes control of the terminal again. A job that was continued in the background stops again until it is the
    /// foreground job.
    void resume();

    Executor executor;
    Clock& clock;
    ConsoleTerminal terminal;
    ConsoleUse use;
    boost::asio::posix::stream_descriptor input;
    TerminalOutput output;
    boost::asio::signal_set changed;
    boost::asio::signal_set ended;
    std::unique_ptr<ClockTimer> escape_timer;
    std::unique_ptr<ClockTimer> frame_timer;
    std::unique_ptr<ClockTimer> question_timer;
    std::unique_ptr<ClockTimer> end_timer;
    std::unique_ptr<ClockTimer> resume_timer;
    std::optional<RawMode> raw;
    KeyDecoder decoder;
    Style style;
    Prompt prompt;
    LiveArea area;
    Attention attention;
    std::shared_ptr<FullScreen> screen;  // on the alternate screen
    std::vector<TerminalText> live;
    TerminalText status;
    std::deque<std::shared_ptr<ConsoleQuestion>> questions;
    std::function<TerminalText(ScreenSize)> next_question;
    std::deque<ConsoleInput> inputs;
    AsyncEvent arrived;
    std::chrono::steady_clock::time_point last_frame = {};
    std::chrono::steady_clock::time_point typed_last = {};
    std::optional<std::chrono::steady_clock::time_point> escaped_at = {};
    std::chrono::steady_clock::time_point discarded_last = {};
    AnswerTail answer_tail;
    std::uint64_t asked = 0;  // questions up to now
    int ended_by = 0;
    int typed_ahead = 0;
    Hold hold = Hold::none;
    char cursor_shape = 0;  // 0: that of the terminal
    bool suspended = false;
    bool was_in_background = false;
    bool busy = false;
    int interruptible = 0;  ///< calls of Console::interrupted()
    bool scheduled = false;
    bool closed = false;
};

}  // namespace cubepi::app
