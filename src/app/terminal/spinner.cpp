#include "spinner.hpp"

#include <array>
#include <chrono>
#include <iostream>
#include <utility>

#include <unistd.h>

#include "job_control.hpp"

namespace cubepi::app {

namespace {
constexpr std::array<const char*, 10> frames{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
constexpr std::chrono::milliseconds interval(100);
}  // namespace

Spinner::Spinner(Style style, Clock& clock, Executor executor)
    : style_(style), timer_(clock.timer(std::move(executor))) {}

Spinner::~Spinner() { stop(); }

void Spinner::start(std::string what) {
    if (!style_.terminal || !style_.color || running_) return;
    what_ = std::move(what);
    running_ = true;
    tick();
}

void Spinner::tick() {
    // In the background it would write over the lines of the foreground job.
    if (in_foreground(STDERR_FILENO)) {
        std::cerr << "\r" << style_.dim() << frames[frame_++ % frames.size()] << ' ' << what_
                  << style_.off() << std::flush;
        drawn_ = true;
    }
    timer_->expires_after(interval, [this] { tick(); });
}

void Spinner::stop() {
    if (!running_) return;
    running_ = false;
    timer_->cancel();
    if (!std::exchange(drawn_, false) || !in_foreground(STDERR_FILENO)) return;
    std::cerr << "\r\x1b[K" << std::flush;
}

}  // namespace cubepi::app
