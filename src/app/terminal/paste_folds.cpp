#include "paste_folds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "event_text.hpp"

namespace cubepi::app {

namespace {

// Longer pastes are folded.
constexpr std::int64_t unfolded_lines = 10;
constexpr std::size_t unfolded_bytes = 4000;

}  // namespace

std::string PasteFolds::fold(const std::string& pasted) {
    const auto feeds = std::count(pasted.begin(), pasted.end(), '\n');
    const auto lines = feeds + (pasted.ends_with('\n') ? 0 : 1);
    if (lines <= unfolded_lines && pasted.size() <= unfolded_bytes) return pasted;
    const std::string size = lines > 1
                                 ? count_text(lines) + " lines"
                                 : count_text(static_cast<std::int64_t>(pasted.size())) + " bytes";
    std::string mark = "[pasted " + size + "]";
    for (int number = 2; texts_.contains(mark) && texts_[mark] != pasted; ++number)
        mark = "[pasted " + size + ", " + std::to_string(number) + "]";
    texts_[mark] = pasted;
    return mark;
}

std::string PasteFolds::unfold(const std::string& text) const {
    std::string whole;
    for (std::size_t at = 0; at < text.size();) {
        const auto here = std::find_if(texts_.begin(), texts_.end(), [&](const auto& fold) {
            return text.compare(at, fold.first.size(), fold.first) == 0;
        });
        whole += here == texts_.end() ? text.substr(at, 1) : here->second;
        at += here == texts_.end() ? 1 : here->first.size();
    }
    return whole;
}

}  // namespace cubepi::app
