#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "trace_span.hpp"

namespace cubepi::app {

/// Finds the spans of a vector by their ids. A hash table of positions with open addressing: it has no copies of the ids, and
/// compares an id only if its hash is equal. The caller passes the vector, which may grow and move.
class SpanIndex {
public:
    SpanIndex() = default;
    /// An index of all spans; of equal ids the first counts.
    explicit SpanIndex(const std::vector<TraceSpan>& spans);

    /// Returns the position of the span with this id; `spans.size()` if there is none.
    std::size_t find(const std::vector<TraceSpan>& spans, std::string_view id) const;

    /// The same, and if there is none, the caller appends the span with this id to `spans`.
    std::size_t add(const std::vector<TraceSpan>& spans, std::string_view id);

private:
    struct Slot {
        std::size_t hash = 0;
        std::size_t place = 0;  // position + 1; 0: free
    };

    std::size_t slot_of(const std::vector<TraceSpan>& spans, std::string_view id,
                        std::size_t hash) const;
    void grow(std::size_t slots);

    std::vector<Slot> slots_;  // none, or a power of two, at most half of which are used
    std::size_t used_ = 0;
};

}  // namespace cubepi::app
