#include <bub/tape/tape_store.hpp>

#include <utility>

namespace bub {

Task<void> TapeStore::visit(std::string tape, TapeQuery query,
                            std::function<bool(const TapeEntry&)> visit) {
    const std::vector<TapeEntry> entries = co_await fetch(std::move(tape), std::move(query));
    for (const TapeEntry& entry : entries) {
        if (!visit(entry)) co_return;
    }
}

}  // namespace bub
