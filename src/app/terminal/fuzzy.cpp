#include "fuzzy.hpp"

#include <algorithm>
#include <tuple>

#include <cubepi/core/support/lower_case.hpp>

namespace cubepi::app {

namespace {

bool begins_word(std::string_view text, std::size_t at) {
    return at == 0 || std::string_view("/-_. ").find(text[at - 1]) != std::string_view::npos;
}

}  // namespace

std::optional<int> fuzzy_score(std::string_view pattern, std::string_view text) {
    constexpr int whole = 1000;
    constexpr int beginning = 800;
    constexpr int part = 500;
    constexpr int at_word = 8;
    if (pattern.empty()) return 0;
    const std::string wanted = cubepi::detail::lower_case(pattern);
    const std::string lower = cubepi::detail::lower_case(text);
    const std::size_t slash = lower.rfind('/');
    const std::size_t last = slash == std::string::npos ? 0 : slash + 1;
    if (lower == wanted) return whole;
    if (lower.compare(0, wanted.size(), wanted) == 0 ||
        lower.compare(last, wanted.size(), wanted) == 0)
        return beginning;
    if (const std::size_t at = lower.find(wanted); at != std::string::npos)
        return part + (begins_word(lower, at) ? at_word : 0);
    int score = 0;
    std::size_t from = 0;
    for (const char c : wanted) {
        const std::size_t at = lower.find(c, from);
        if (at == std::string::npos) return std::nullopt;
        if (begins_word(lower, at)) score += at_word;
        if (at == from && from > 0) ++score;
        from = at + 1;
    }
    return score;
}

std::vector<std::size_t> fuzzy_matches(std::string_view pattern,
                                       const std::vector<std::string>& texts, std::size_t most,
                                       bool shorter_first) {
    struct Match {
        int score = 0;
        std::size_t length = 0;
        std::size_t index = 0;
    };
    std::vector<Match> found;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::optional<int> score = fuzzy_score(pattern, texts[i]);
        const std::size_t length = shorter_first && !pattern.empty() ? texts[i].size() : 0;
        if (score) found.push_back({*score, length, i});
    }
    const auto last = found.begin() + static_cast<std::ptrdiff_t>(std::min(most, found.size()));
    std::partial_sort(found.begin(), last, found.end(), [](const Match& a, const Match& b) {
        if (a.score != b.score) return a.score > b.score;
        return std::tie(a.length, a.index) < std::tie(b.length, b.index);
    });
    std::vector<std::size_t> indexes;
    for (auto match = found.begin(); match != last; ++match) indexes.push_back(match->index);
    return indexes;
}

}  // namespace cubepi::app
