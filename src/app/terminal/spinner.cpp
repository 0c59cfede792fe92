#include "spinner.hpp"

#include <array>
#include <chrono>
#include <utility>

#include <unistd.h>

#include "job_control.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

namespace {
constexpr std::array<TerminalView, 10> frames{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
constexpr std::chrono::milliseconds interval(100);
}  // namespace

Spinner::Spinner(Style style, Clock& clock, Executor executor)
    : style_(style), timer_(clock.timer(std::move(executor))) {}

Spinner::~Spinner() { stop(); }

void Spinner::start(TerminalText what) {
    if (!style_.terminal || !style_.color || running_) return;
    what_ = std::move(what);
    running_ = true;
    tick();
}

void Spinner::tick() {
    // In the background it would overwrite the lines of the foreground job.
    if (in_foreground(STDERR_FILENO)) {
        err() << "\r" << style_.dim() << frames[frame_++ % frames.size()] << " " << what_
              << style_.off() << flush_now;
        drawn_ = true;
    }
    timer_->expires_after(interval, [this] { tick(); });
}

void Spinner::stop() {
    if (!running_) return;
    running_ = false;
    timer_->cancel();
    if (!std::exchange(drawn_, false) || !in_foreground(STDERR_FILENO)) return;
    err() << "\r\x1b[K" << flush_now;
}

}  // namespace cubepi::app
