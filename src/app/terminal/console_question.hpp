#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/event_signal.hpp>

#include "full_screen.hpp"
#include "input_field.hpp"
#include "keys.hpp"
#include "paste_folds.hpp"
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

}  // namespace cubepi::app
