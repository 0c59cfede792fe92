#include <cubepi/core/log.hpp>

#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

/// Collects text lines.
struct Lines {
    explicit Lines(LogLevel lowest = LogLevel::debug, LogFormat format = LogFormat::journal)
        : log(std::make_shared<StreamLogSink>(out, format), lowest) {}

    std::ostringstream out;
    Logger log;
};

TEST(Log, B29_DefaultLog_WritesNothing) {
    const Logger off;
    EXPECT_FALSE(off.is_on(LogLevel::error));
    off.write(LogLevel::error, "event");
    EXPECT_FALSE(Runtime().log.is_on(LogLevel::error));
}

TEST(Log, LogLevel_OmitsLowerLevels) {
    Lines lines(LogLevel::warning);
    for (const LogLevel level :
         {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error})
        lines.log.write(level, to_string(level));
    EXPECT_EQ(lines.out.str(), "<4>warning\n<3>error\n");
    Lines off(LogLevel::off);
    off.log.write(LogLevel::error, "event");
    EXPECT_EQ(off.out.str(), "");
}

TEST(Log, LevelNames_AreRead) {
    EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
    EXPECT_EQ(parse_log_level("Warning"), LogLevel::warning);
    EXPECT_EQ(parse_log_level("WARN"), LogLevel::warning);
    EXPECT_EQ(parse_log_level("off"), LogLevel::off);
    EXPECT_EQ(parse_log_level(""), std::nullopt);
    EXPECT_EQ(parse_log_level("loud"), std::nullopt);
}

TEST(Log, B29_Lines_HaveTextJsonOrJournalFormat) {
    const std::string path = "a b=\"c\"";
    const std::vector<LogField> fields = {{"store", "sqlite"}, {"path", path},  {"waited_ms", 5000},
                                          {"ratio", 0.25},     {"again", true}, {"empty", ""}};
    const LogRecord record{LogLevel::warning, "store.busy", fields};
    const auto time = std::chrono::sys_days(std::chrono::year(2026) / 11 / 24) +
                      std::chrono::hours(1) + std::chrono::milliseconds(62003);
    EXPECT_EQ(log_line(record, LogFormat::text, time),
              "2026-11-24T01:01:02.003Z warning store.busy store=sqlite path=\"a b=\\\"c\\\"\" "
              "waited_ms=5000 ratio=0.25 again=true empty=\"\"\n");
    EXPECT_EQ(log_line(record, LogFormat::journal, time),
              "<4>store.busy store=sqlite path=\"a b=\\\"c\\\"\" waited_ms=5000 ratio=0.25 "
              "again=true empty=\"\"\n");
    const std::string line = log_line(record, LogFormat::json, time);
    EXPECT_EQ(
        line,
        "{\"time\":\"2026-11-24T01:01:02.003Z\",\"level\":\"warning\",\"event\":\"store.busy\","
        "\"store\":\"sqlite\",\"path\":\"a b=\\\"c\\\"\",\"waited_ms\":5000,\"ratio\":0.25,"
        "\"again\":true,\"empty\":\"\"}\n");
    EXPECT_EQ(boost::json::parse(line).at("path").as_string(), "a b=\"c\"");
}

TEST(Log, Values_CannotForgeLinesOrControlTerminals) {
    const std::vector<LogField> fields = {{"a", "x\n<0>forged"},
                                          {"b", "\x1b[31m\xc2\x9b\xff"},
                                          {"c", std::numeric_limits<double>::infinity()},
                                          {"bad name", 1}};
    const LogRecord record{LogLevel::info, "e v", fields};
    EXPECT_EQ(log_line(record, LogFormat::journal, {}),
              "<6>\"e v\" a=\"x\\u000a<0>forged\" b=\"\\u001b[31m???\" c=inf \"bad name\"=1\n");
    const std::string json = log_line(record, LogFormat::json, {});
    EXPECT_EQ(boost::json::parse(json).at("a").as_string(), "x\n<0>forged");
    EXPECT_EQ(boost::json::parse(json).at("c").as_string(), "inf");
    const std::string text(300, 'x');
    const std::vector<LogField> large = {{"t", text}};
    EXPECT_EQ(log_line(LogRecord{LogLevel::info, "e", large}, LogFormat::journal, {}),
              "<6>e t=\"" + std::string(256, 'x') + "...\"\n");
}

TEST(Log, DisabledLevel_FormatsNoFields) {
    struct Counting final : LogSink {
        void write(const LogRecord&) override { ++records; }
        int records = 0;
    };
    const auto sink = std::make_shared<Counting>();
    const Logger log(sink, LogLevel::error);
    log.write(LogLevel::debug, "e", {{"a", 1}});
    log_notice(log, Notice());
    EXPECT_EQ(sink->records, 0);
}

TEST(Log, ExceptionsOfSink_AreDiscarded) {
    struct Failing final : LogSink {
        void write(const LogRecord&) override { throw std::runtime_error("disk"); }
    };
    const Logger log(std::make_shared<Failing>(), LogLevel::debug);
    log.write(LogLevel::error, "event");
}

TEST(Log, LinesOfSeveralThreads_StaySeparate) {
    Lines lines;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            for (int i = 0; i < 200; ++i) lines.log.write(LogLevel::info, "event", {{"n", 1}});
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::istringstream all(lines.out.str());
    int count = 0;
    for (std::string line; std::getline(all, line); ++count) ASSERT_EQ(line, "<6>event n=1");
    EXPECT_EQ(count, 800);
}

TEST(Log, Lines_AreDatedByTheClock) {
    std::ostringstream out;
    const auto clock = std::make_shared<testing::ManualClock>();
    StreamLogSink sink(out, LogFormat::text, clock);
    sink.write(LogRecord{LogLevel::info, "event", {}});
    EXPECT_EQ(out.str(),
              log_line(LogRecord{LogLevel::info, "event", {}}, LogFormat::text, clock->wall()));
}

TEST(Log, WriteError_DoesNotEndTheLog) {
    Lines lines;
    lines.out.setstate(std::ios::badbit);
    lines.log.write(LogLevel::info, "lost");
    lines.log.write(LogLevel::info, "written");
    EXPECT_EQ(lines.out.str(), "<6>written\n");
}

TEST(Log, B29_Notices_AreWrittenWithoutTheirTexts) {
    Notice notice;
    notice.code = "retry";
    notice.text = "HTTP 500: hunter2";
    notice.details["attempt"] = 1;
    notice.details["status_code"] = 500;
    notice.details["error_type"] = "server_error";
    notice.details["reason"] = "hunter2";
    notice.details["cause"] = "quotes hunter2 of the user";
    notice.details["usage"] = JsonObject{{"input", 1}};
    notice.details["run_id"] = "r-2";
    Lines lines;
    log_notice(lines.log, notice, "r-1");
    notice.code = "repair";
    log_notice(lines.log, notice);
    EXPECT_EQ(lines.out.str(),
              "<4>retry run_id=r-1 attempt=1 status_code=500 error_type=server_error\n"
              "<6>repair attempt=1 status_code=500 error_type=server_error run_id=r-2\n");
}

TEST(Log, ExporterWithLosses_IsAWarning) {
    Lines lines;
    Notice notice;
    notice.code = "export_ended";
    notice.details["exported"] = 3;
    notice.details["dropped"] = 0;
    notice.details["failed"] = std::uint64_t{0};
    log_notice(lines.log, notice);
    notice.details["dropped"] = std::uint64_t{2};
    log_notice(lines.log, notice);
    EXPECT_EQ(lines.out.str(),
              "<6>export_ended exported=3 dropped=0 failed=0\n"
              "<4>export_ended exported=3 dropped=2 failed=0\n");
}

TEST(Log, Errors_AreNamedByTheirCodes) {
    EXPECT_EQ(logged_error(std::make_exception_ptr(Error(ErrorCode::tls, "secret"))), "tls");
    EXPECT_EQ(logged_error(std::make_exception_ptr(std::runtime_error("secret"))), "unknown");
    EXPECT_EQ(logged_error(nullptr), "unknown");
}

TEST(Log, LogOfStandardRuntime_CanBeSet) {
    Lines lines;
    Runtime::set_standard_log(lines.log);
    Runtime::standard()->log.write(LogLevel::info, "event");
    Runtime::set_standard_log(Logger());
    Runtime::standard()->log.write(LogLevel::info, "event");
    EXPECT_EQ(lines.out.str(), "<6>event\n");
}

}  // namespace
}  // namespace cubepi
