#include "log_setup.hpp"

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

namespace cubepi::app {
namespace {

std::string settings(const LogFlags& flags, std::string_view variable) {
    try {
        const LogSettings found = log_settings(flags, variable);
        std::string text(to_string(found.level));
        if (found.format) text += found.format == LogFormat::json ? " json" : " text";
        return text;
    } catch (const Error& error) {
        return error.what();
    }
}

LogFlags flags(std::string level, std::string format = {}) {
    LogFlags made;
    made.level = std::move(level);
    made.format = std::move(format);
    return made;
}

TEST(LogSetup, B29_IsOffByDefault) { EXPECT_EQ(settings({}, ""), "off"); }

TEST(LogSetup, ReadsTheVariable) {
    EXPECT_EQ(settings({}, "info"), "info");
    EXPECT_EQ(settings({}, "warn:json"), "warning json");
    EXPECT_EQ(settings({}, "debug:text"), "debug text");
    EXPECT_EQ(settings({}, "off"), "off");
}

TEST(LogSetup, PrefersTheFlags) {
    EXPECT_EQ(settings(flags("error"), "info:json"), "error json");
    EXPECT_EQ(settings(flags("error", "text"), "info:json"), "error text");
    EXPECT_EQ(settings(flags("", "json"), ""), "info json");
    EXPECT_EQ(settings(flags("off", "json"), "info"), "off json");
}

TEST(LogSetup, RefusesOtherWords) {
    EXPECT_EQ(settings({}, "loud"),
              "CUBEPI_LOG: 'loud' is not a log level; use debug, info, warning, error or off");
    EXPECT_EQ(settings({}, "info:xml"), "CUBEPI_LOG: 'xml' is not a log format; use text or json");
    EXPECT_EQ(settings({}, ":json"),
              "CUBEPI_LOG: '' is not a log level; use debug, info, warning, error or off");
    EXPECT_EQ(settings(flags("3"), ""),
              "--log-level: '3' is not a log level; use debug, info, warning, error or off");
    EXPECT_EQ(settings(flags("info", "xml"), ""),
              "--log-format: 'xml' is not a log format; use text or json");
}

}  // namespace
}  // namespace cubepi::app
