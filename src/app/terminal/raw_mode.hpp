#pragma once

namespace cubepi::app {

/// Switches a terminal from lines to single keys during its lifetime. One at a time.
class RawMode {
public:
    RawMode(int input, int output);
    ~RawMode();
    RawMode(const RawMode&) = delete;
    RawMode& operator=(const RawMode&) = delete;

    /// Restores the terminal's settings. Called before the process stops or exits without destructors. Does nothing in a
    /// background job, as enter() does.
    static void leave() noexcept;
    /// Changes the settings again.
    static void enter() noexcept;
};

}  // namespace cubepi::app
