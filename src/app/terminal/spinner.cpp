#include "spinner.hpp"

#include <array>
#include <chrono>
#include <iostream>
#include <utility>

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
    std::cerr << "\r" << style_.dim() << frames[frame_++ % frames.size()] << ' ' << what_
              << style_.off() << std::flush;
    timer_->expires_after(interval, [this] { tick(); });
}

void Spinner::stop() {
    if (!running_) return;
    running_ = false;
    timer_->cancel();
    std::cerr << "\r\x1b[K" << std::flush;
}

}  // namespace cubepi::app
