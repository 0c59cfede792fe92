#pragma once

namespace cubepi::app {

/// Keys one by one instead of lines, for a terminal, while it exists. One at a time.
class RawMode {
public:
    RawMode(int input, int output);
    ~RawMode();
    RawMode(const RawMode&) = delete;
    RawMode& operator=(const RawMode&) = delete;

    /// Gives the terminal back as it was, from wherever: before the process stops, or ends without destructors.
    static void leave() noexcept;
    /// Takes it again.
    static void enter() noexcept;
};

}  // namespace cubepi::app
