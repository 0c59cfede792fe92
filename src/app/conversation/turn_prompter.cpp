#include "turn_prompter.hpp"

#include <exception>
#include <utility>

namespace cubepi::app {

namespace {

// A plugin may leave events out of the stream, so that they are never shown.
constexpr std::chrono::seconds display_timeout(1);

}  // namespace

TurnPrompter::TurnPrompter(std::shared_ptr<Prompter> prompter, Clock& clock, Executor executor,
                           std::function<void()> before_question)
    : prompter_(std::move(prompter)),
      clock_(clock),
      executor_(std::move(executor)),
      before_question_(std::move(before_question)) {}

TurnPrompter::~TurnPrompter() = default;

void TurnPrompter::emitted(const AgentEvent& event) { emitted_ = {event.run, event.seq}; }

void TurnPrompter::shown(const AgentEvent& event) {
    shown_ = {event.run, event.seq};
    progress_.pulse();
}

bool TurnPrompter::has_shown(const Position& position) const {
    return shown_.run == position.run && shown_.seq >= position.seq;
}

Task<> TurnPrompter::prepare() {
    const Position wanted = emitted_;
    bool expired = false;
    const std::unique_ptr<ClockTimer> timer = clock_.timer(executor_);
    timer->expires_after(display_timeout, [this, &expired] {
        expired = true;
        progress_.pulse();
    });
    std::exception_ptr failure;
    try {
        while (!expired && !has_shown(wanted)) co_await progress_.wait();
    } catch (...) {
        failure = std::current_exception();
    }
    timer->cancel();
    if (failure) std::rethrow_exception(failure);
    before_question_();
}

std::chrono::steady_clock::duration TurnPrompter::waited() const {
    return open_ == 0 ? waited_ : waited_ + (clock_.now() - open_since_);
}

Task<std::optional<std::string>> TurnPrompter::read(TerminalText prompt, std::string prefill) {
    if (open_++ == 0) open_since_ = clock_.now();
    std::exception_ptr failure;
    std::optional<std::string> answer;
    try {
        answer = co_await prompter_->read(std::move(prompt), std::move(prefill));
    } catch (...) {
        failure = std::current_exception();
    }
    if (--open_ == 0) waited_ += clock_.now() - open_since_;
    if (failure) std::rethrow_exception(failure);
    co_return answer;
}

}  // namespace cubepi::app
