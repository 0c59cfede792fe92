#pragma once

namespace cubepi::app {

/// Keys one by one instead of lines, for the process's terminal (standard input), while it exists. One at a time.
class RawMode {
public:
    RawMode();
    ~RawMode();
    RawMode(const RawMode&) = delete;
    RawMode& operator=(const RawMode&) = delete;

    /// Gives the terminal back as it was, from wherever: before the process stops, or ends without destructors.
    static void leave() noexcept;
    /// Takes it again.
    static void enter() noexcept;
};

}  // namespace cubepi::app
