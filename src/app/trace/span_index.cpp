#include "span_index.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace cubepi::app {

namespace {

constexpr std::size_t least_slots = 16;

}  // namespace

SpanIndex::SpanIndex(const std::vector<TraceSpan>& spans) {
    grow(std::bit_ceil(2 * spans.size() + least_slots));
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const std::size_t hash = std::hash<std::string_view>()(spans[i].span_id);
        Slot& slot = slots_[slot_of(spans, spans[i].span_id, hash)];
        if (slot.place == 0) slot = Slot{hash, i + 1};
    }
    used_ = spans.size();
}

std::size_t SpanIndex::find(const std::vector<TraceSpan>& spans, std::string_view id) const {
    if (slots_.empty()) return spans.size();
    const Slot& slot = slots_[slot_of(spans, id, std::hash<std::string_view>()(id))];
    return slot.place == 0 ? spans.size() : slot.place - 1;
}

std::size_t SpanIndex::add(const std::vector<TraceSpan>& spans, std::string_view id) {
    if (2 * (used_ + 1) > slots_.size()) grow(std::max(least_slots, 2 * slots_.size()));
    const std::size_t hash = std::hash<std::string_view>()(id);
    Slot& slot = slots_[slot_of(spans, id, hash)];
    if (slot.place != 0) return slot.place - 1;
    slot = Slot{hash, spans.size() + 1};
    ++used_;
    return spans.size();
}

/// The slot of this id, or the free slot where it belongs.
std::size_t SpanIndex::slot_of(const std::vector<TraceSpan>& spans, std::string_view id,
                               std::size_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].place != 0 &&
           (slots_[at].hash != hash || spans[slots_[at].place - 1].span_id != id))
        at = (at + 1) & mask;
    return at;
}

void SpanIndex::grow(std::size_t slots) {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
    const std::size_t mask = slots - 1;
    for (const Slot& slot : old) {
        if (slot.place == 0) continue;
        std::size_t at = slot.hash & mask;
        while (slots_[at].place != 0) at = (at + 1) & mask;
        slots_[at] = slot;
    }
}

}  // namespace cubepi::app
