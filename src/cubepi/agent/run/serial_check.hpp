#pragma once

#include <atomic>
#include <cstdint>

namespace cubepi::detail {

/// Records which thread is inside an agent. The layout is the same with and without NDEBUG; only a library that was
/// built without NDEBUG checks.
class SerialCheck {
public:
    /// Returns false if this thread is already inside. Terminates the program if another thread is: the agent's memory
    /// would be corrupted next.
    bool enter() noexcept;
    void leave() noexcept { thread_.store(0, std::memory_order_release); }

private:
    std::atomic<std::uint32_t> thread_{0};  // 0: none
};

/// A section of an agent's code that runs without suspending. Sections of one thread may nest.
class [[maybe_unused]] SerialSection {
public:
#ifdef NDEBUG
    explicit SerialSection(SerialCheck&) noexcept {}
    ~SerialSection() {}
#else
    explicit SerialSection(SerialCheck& check) noexcept
        : entered_(check.enter() ? &check : nullptr) {}
    ~SerialSection() {
        if (entered_) entered_->leave();
    }
#endif
    SerialSection(const SerialSection&) = delete;
    SerialSection& operator=(const SerialSection&) = delete;

private:
    [[maybe_unused]] SerialCheck* entered_ = nullptr;
};

}  // namespace cubepi::detail
