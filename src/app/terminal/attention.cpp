#include "attention.hpp"

#include <array>
#include <optional>
#include <utility>

#include <cubepi/core/support/parsed_number.hpp>

#include "job_control.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_title = 80;

/// Reads "11;rgb:RRRR/GGGG/BBBB", in one to four hex digits each. Returns the brightness, 0 to 1.
std::optional<double> background_of(std::string_view report) {
    constexpr std::string_view beginning = "11;rgb:";
    constexpr std::array<double, 3> weights = {0.299, 0.587, 0.114};
    if (!report.starts_with(beginning)) return std::nullopt;
    report.remove_prefix(beginning.size());
    double brightness = 0;
    for (const double weight : weights) {
        const std::string_view digits = report.substr(0, report.find('/'));
        const std::optional<unsigned> value = detail::parsed_number<unsigned>(digits, 16);
        if (!value || digits.size() > 4) return std::nullopt;
        const double most = static_cast<double>((1U << (4 * digits.size())) - 1);
        brightness += weight * *value / most;
        report.remove_prefix(std::min(digits.size() + 1, report.size()));
    }
    return brightness;
}

}  // namespace

void Attention::begin(TerminalSettings settings) {
    if (begun_ && settings == settings_) return;
    settings_ = settings;
    RawMode::set_focus_reports(settings.notifications != NotificationKind::off);
    if (begun_) return set_theme(settings.theme);
    begun_ = true;
    if (settings.title) write_("\x1b[22;2t");
    set_theme(settings.theme);
}

void Attention::set_theme(ThemeKind theme) {
    settings_.theme = theme;
    if (theme == ThemeKind::automatic) {
        if (begun_) write_("\x1b]11;?\x1b\\");
    } else {
        Style::set_light(theme == ThemeKind::light);
    }
}

void Attention::end() {
    if (!begun_) return;
    begun_ = false;
    if (settings_.title) write_("\x1b[23;2t");
    RawMode::set_focus_reports(false);
}

void Attention::set_title(std::string_view title) {
    title_ = title;
    write_title();
}

void Attention::set_working(bool working) {
    if (std::exchange(working_, working) != working) write_title();
}

void Attention::set_asking(bool asking) {
    if (std::exchange(asking_, asking) != asking) write_title();
}

void Attention::write_title() {
    if (!begun_ || !settings_.title) return;
    TerminalText text("\x1b]2;");
    text += asking_ ? TerminalView("? ") : working_ ? TerminalView("* ") : TerminalView();
    text += "cubepi";
    if (!title_.empty()) text += " · " + line_for_terminal(visible(title_), longest_title);
    write_(text + "\x07");
}

void Attention::take_report(std::string_view report, ThemeKind theme) {
    if (theme != ThemeKind::automatic) return;
    constexpr double middle = 0.5;
    if (const std::optional<double> brightness = background_of(report))
        Style::set_light(*brightness > middle);
}

void Attention::notify(TerminalView text) {
    if (!begun_ || in_front_) return;
    switch (settings_.notifications) {
        case NotificationKind::off: return;
        case NotificationKind::bell: return write_("\x07");
        case NotificationKind::osc9: return write_("\x1b]9;" + TerminalText(text) + "\x07");
    }
}

}  // namespace cubepi::app
