#pragma once

#include <cstddef>
#include <cstdint>

#include "trace_text.hpp"

namespace cubepi::app {

/// The part of a view in which each span is a bar at its time.
class Waterfall {
public:
    /// Times are in microseconds. `columns` is the width, at least 1.
    Waterfall(std::int64_t start, std::int64_t end, std::size_t columns, const TraceScreen& screen);

    /// The bar of a span, at least one sign wide, with blanks before it and none after it.
    TerminalText bar(const TraceSpan& span) const;
    /// The times above the bars: the start, the middle if it fits, and the end.
    TerminalText axis() const;

private:
    std::int64_t start_;
    std::int64_t total_;
    std::size_t columns_;
    const TraceScreen& screen_;
};

}  // namespace cubepi::app
