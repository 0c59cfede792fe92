#include "event_text.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

constexpr std::size_t saved_text = 64 * 1024;

}  // namespace

std::string count_text(std::int64_t count) {
    std::string digits = std::to_string(count);
    for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
    return digits;
}

std::string short_count_text(std::int64_t count) {
    if (count < 10'000) return count_text(count);
    std::ostringstream text;
    text << std::fixed << std::setprecision(count < 100'000 ? 1 : 0)
         << static_cast<double>(count) / 1000 << "k";
    return text.str();
}

std::string age_text(std::chrono::seconds age) {
    struct Unit {
        std::int64_t seconds;
        const char* name;
    };
    static constexpr Unit units[] = {{std::int64_t{365} * 86400, "year"},
                                     {std::int64_t{30} * 86400, "month"},
                                     {std::int64_t{7} * 86400, "week"},
                                     {86400, "day"},
                                     {3600, "hour"},
                                     {60, "minute"}};
    for (const Unit& unit : units) {
        const std::int64_t count = age.count() / unit.seconds;
        if (count < 1) continue;
        return std::to_string(count) + " " + unit.name + (count == 1 ? " ago" : "s ago");
    }
    return "just now";
}

std::string arguments_text(const JsonObject& args) {
    std::string text;
    for (const auto& [key, value] : args) {
        if (!text.empty()) text += ", ";
        text += std::string(key) + ": " +
                (value.is_string() ? std::string(value.get_string()) : json_text(value));
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

std::string long_arguments_text(const JsonObject& args) {
    std::string text;
    for (const auto& [key, value] : args) {
        if (!value.is_string()) continue;
        const std::string_view shown = value.get_string();
        if (shown.find('\n') == std::string_view::npos && shown.size() < 60) continue;
        text += std::string(key) + ":\n" + std::string(shown.substr(0, saved_text));
        if (!text.ends_with('\n')) text += "\n";
    }
    return text;
}

bool shows_notice(const Notice& notice) noexcept { return notice.code != "hitl_request_ended"; }

}  // namespace cubepi::app
