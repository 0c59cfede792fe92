// Traces that are larger than what the viewer may hold in memory.

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/sanitizer_test_support.hpp>

#include "exit_code.hpp"
#include "trace_test_support.hpp"

namespace cubepi::app {
namespace {

constexpr bool reuses_memory = !under_sanitizer;  // sanitizers do not reuse freed memory at once

/// A size in KiB in /proc/self/status, in bytes.
std::size_t memory(const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(key + ":")) return std::stoul(line.substr(key.size() + 1)) * 1024;
    }
    return 0;
}

using LargeTrace = TraceCommandTest;

TEST_F(LargeTrace, ATraceOf100MegabytesNeedsMemoryForItsLargestLineOnly) {
    constexpr std::size_t spans = 50;
    constexpr std::size_t line_bytes = std::size_t{2} << 20U;
    {
        std::ofstream file(temporary_.path() / "t.jsonl", std::ios::binary);
        const std::string text(line_bytes, 'x');
        for (std::size_t i = 0; i < spans; ++i) {
            TestSpan chat = chat_span(std::to_string(10 + i), "01", "m");
            chat.attributes["gen_ai.input.messages"] = text;
            file << chat.line();
        }
        const std::string root = agent_span("01").line();
        file << root << root.substr(0, root.size() / 2);
    }
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak is now the current size
    const std::size_t before = memory("VmRSS");
    arguments_.run = (temporary_.path() / "t.jsonl").string();
    EXPECT_EQ(show(TraceArguments::What::view), exit_ok) << err();
    EXPECT_EQ(occurrences(out(), "- chat m"), spans);
    EXPECT_EQ(err(), "cubepi: skipped 1 incomplete line at the end\n");
    const std::size_t peak = memory("VmHWM");
    EXPECT_GT(peak, 0u);
    if (reuses_memory) {
        EXPECT_LT(peak, before + 10 * line_bytes);
    }
}

TEST(LineBuffer, SkipsLinesOverItsLimitWhereverTheyAreCut) {
    const std::string text = "one\n" + std::string(11, 'x') + "\ntwo\n" + std::string(10, 'y') +
                             "\n" + std::string(30, 'z');
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        LineBuffer buffer(10);
        std::string lines;
        const LineBuffer::Line take = [&](std::string_view line, std::uint64_t offset) {
            EXPECT_EQ(text.substr(offset, line.size()), line);
            lines += std::string(line) + ";";
        };
        buffer.push(std::string_view(text).substr(0, cut), take);
        buffer.push(std::string_view(text).substr(cut), take);
        EXPECT_EQ(lines, "one;two;yyyyyyyyyy;") << cut;
        EXPECT_EQ(buffer.too_long(), 2u) << cut;
        EXPECT_EQ(buffer.rest(), "") << cut;
    }
}

}  // namespace
}  // namespace cubepi::app
