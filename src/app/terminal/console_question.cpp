#include "console_question.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::milliseconds word_timeout(1500);

}  // namespace

TerminalText ConsoleQuestion::row() const { return choices ? choices->prompt(marked) : prompt; }

ConsoleQuestion::Outcome ConsoleQuestion::press(const Key& key) {
    if (choices) return press_choice(key);
    switch (key.code) {
        case KeyCode::enter: answer = folds.unfold(buffer.text()); return Outcome::ended;
        case KeyCode::end_of_input:
            if (buffer.empty()) return Outcome::ended;
            (void)buffer.apply(Key{KeyCode::erase, {}});
            return Outcome::open;
        case KeyCode::escape: return ends_at_escape ? Outcome::ended : Outcome::interrupted;
        case KeyCode::paste: {
            Key shown = key;
            shown.text = folds.fold(key.text);
            (void)buffer.apply(shown);
            return Outcome::open;
        }
        default: (void)buffer.apply(key); return Outcome::open;
    }
}

ConsoleQuestion::Outcome ConsoleQuestion::press_choice(const Key& key) {
    const std::size_t count = choices->all.size();
    switch (key.code) {
        case KeyCode::left:
        case KeyCode::up: marked = marked <= 1 ? count : marked - 1; return Outcome::open;
        case KeyCode::right:
        case KeyCode::down:
        case KeyCode::tab: marked = marked % count + 1; return Outcome::open;
        case KeyCode::enter:
            choose(marked == 0 ? '\0' : choices->all[marked - 1].key);
            return Outcome::ended;
        case KeyCode::escape:
            if (choices->on_escape == 0) return Outcome::interrupted;
            choose(choices->on_escape);
            return Outcome::ended;
        case KeyCode::end_of_input: return Outcome::ended;
        case KeyCode::text: choose(choices->read(key.text).key); return Outcome::ended;
        case KeyCode::paste: choose(0); return Outcome::ended;
        default: return Outcome::open;
    }
}

void ConsoleQuestion::choose(char key) {
    chosen.emplace().key = key;
    if (choices->number_of(key) > 0) buffer.set(std::string(1, key));
    marked = 0;
}

bool ConsoleQuestion::are_answer(const std::vector<Key>& keys) const {
    std::string typed;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const bool last = i + 1 == keys.size();
        if (keys[i].code == KeyCode::enter && last) continue;
        if (keys[i].code != KeyCode::text) return false;
        typed += keys[i].text;
    }
    const Chosen read = choices->read(typed);
    return !typed.empty() && read.key != 0 && read.text.empty();
}

void AnswerTail::begin(const ConsoleQuestion& question, std::chrono::steady_clock::time_point now) {
    const char key = question.chosen ? question.chosen->key : '\0';
    const std::size_t number = question.choices ? question.choices->number_of(key) : 0;
    if (number == 0) return;
    rest_ = question.choices->all[number - 1].word();
    // A key that is not the first letter of its word does not begin the word.
    rest_ = rest_.front() == key ? rest_.substr(1) : std::string();
    begun_ = now;
}

bool AnswerTail::takes(const Key& key, std::chrono::steady_clock::time_point now) {
    if (begun_ == std::chrono::steady_clock::time_point()) return false;
    const bool late = now - begun_ > word_timeout;
    const bool enter = key.code == KeyCode::enter;
    const bool letter =
        key.code == KeyCode::text && !rest_.empty() && key.text == rest_.substr(0, 1);
    if (letter) rest_.erase(0, 1);
    if (late || !letter) begun_ = {};
    return !late && (letter || enter);
}

}  // namespace cubepi::app
