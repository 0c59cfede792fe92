#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "keys.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

/// How a chat tells the user that something waits while its window is not in front.
enum class NotificationKind : std::uint8_t {
    off,
    bell,
    osc9,  ///< a message of the desktop, which several terminals show
};

/// The colors of a chat.
enum class ThemeKind : std::uint8_t {
    automatic,  ///< by the background that the terminal reports
    dark,
    light,
};

/// The names of the themes in the configuration.
constexpr std::array<std::pair<std::string_view, ThemeKind>, 3> theme_names{
    {{"auto", ThemeKind::automatic}, {"dark", ThemeKind::dark}, {"light", ThemeKind::light}}};

/// Settings of the terminal of a chat.
struct TerminalSettings {
    NotificationKind notifications = NotificationKind::bell;
    ThemeKind theme = ThemeKind::automatic;
    bool title = true;     ///< the window's title names the session
    bool vi_keys = false;  ///< of the prompt
    KeyBindings keys = {};

    friend bool operator==(const TerminalSettings&, const TerminalSettings&) = default;
};

/// The window of a chat: its title, and notifications while it is not in front, as far as the terminal reports that. Used on one
/// executor.
class Attention {
public:
    /// `write` writes escape sequences to the terminal.
    explicit Attention(std::function<void(TerminalView sequence)> write)
        : write_(std::move(write)) {}

    /// Begins with these settings. Asks the terminal for its background; nothing waits for the answer.
    void begin(TerminalSettings settings);
    /// Restores the title.
    void end();
    void set_title(std::string_view title);
    /// The title begins with a sign while the chat works (`*`), and while a question waits (`?`).
    void set_working(bool working);
    void set_asking(bool asking);
    ThemeKind theme() const noexcept { return settings_.theme; }
    /// Changes the theme for what is printed from now on.
    void set_theme(ThemeKind theme);
    void set_focus(bool in_front) noexcept { in_front_ = in_front; }
    /// Handles a report of the terminal, of which only that of the background is known.
    static void take_report(std::string_view report, ThemeKind theme);
    void take_report(std::string_view report) const { take_report(report, settings_.theme); }
    /// Notifies the user, unless the window is in front or the terminal does not tell.
    void notify(TerminalView text);

private:
    void write_title();

    std::function<void(TerminalView sequence)> write_;
    TerminalSettings settings_;
    std::string title_;
    bool working_ = false;
    bool asking_ = false;
    bool begun_ = false;
    bool in_front_ = true;
};

}  // namespace cubepi::app
