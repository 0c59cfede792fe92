#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/event_signal.hpp>

#include "console.hpp"
#include "edit_buffer.hpp"
#include "input_field.hpp"
#include "keys.hpp"
#include "prompt.hpp"
#include "raw_mode.hpp"
#include "terminal_output.hpp"

namespace cubepi::app {

/// A question in the place of the prompt.
struct ConsoleQuestion {
    TerminalText prompt = {};
    EditBuffer buffer = {};
    std::optional<std::string> answer = {};
    AsyncEvent over = AsyncEvent();
};

/// The terminal, its prompt and what waits: the implementation of Console. Its handlers keep it alive until close().
struct Console::State : std::enable_shared_from_this<Console::State> {
    State(Executor executor_, Clock& clock_, std::filesystem::path history,
          ConsoleTerminal terminal_);

    void begin();
    void close();
    /// The first signal ends the chat like the user; the second one ends it at once.
    void wait_for_end();

    // Output.

    /// Draws soon; combines several changes in one frame.
    void schedule();
    void draw();
    void draw_now();
    LiveArea::Content content() const;
    FieldRows field_of(std::size_t max_rows, bool asking) const;
    void wait_for_resize();
    void take_size();

    // Input.

    bool input_waits() const;
    void wait_for_keys();
    void read_keys();
    void take(const std::vector<Key>& keys);
    void push(ConsoleInput::Kind kind, std::string text = {}, bool pasted = false);
    void press(const Key& key, bool more_follows);
    void press_in_question(const Key& key);

    /// The reason why the first question is not shown yet.
    enum class Hold : std::uint8_t {
        none,
        for_a_pause,   ///< the user types; the keys belong to that text
        new_question,  ///< keys are discarded: they were pressed before the question could be read
    };
    bool question_shows() const { return !questions.empty() && hold == Hold::none; }

    /// Starts the hold of the first question.
    void hold_question();
    void end_hold();
    /// Reads keys that the terminal has already sent while the program was busy. Ctrl-C and Esc count.
    void discard_keys();
    void interrupt();
    /// In cooked mode the terminal translates the Enter key to a line feed.
    void count_typed_ahead();
    void suspend();
    /// Takes control of the terminal again. A job that was continued in the background stops again until it is the
    /// foreground job.
    void resume();

    Executor executor;
    Clock& clock;
    ConsoleTerminal terminal;
    boost::asio::posix::stream_descriptor input;
    TerminalOutput output;
    boost::asio::signal_set resized;
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
    std::vector<TerminalText> live;
    TerminalText status;
    std::deque<std::shared_ptr<ConsoleQuestion>> questions;
    std::deque<ConsoleInput> inputs;
    AsyncEvent arrived;
    std::chrono::steady_clock::time_point last_frame = {};
    std::chrono::steady_clock::time_point typed_last = {};
    int ended_by = 0;
    int typed_ahead = 0;
    Hold hold = Hold::none;
    bool suspended = false;
    bool was_in_background = false;
    bool busy = false;
    bool scheduled = false;
    bool closed = false;
};

}  // namespace cubepi::app
