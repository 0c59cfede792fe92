#include <bub/close_matches.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/support/lower_case.hpp>

namespace bub {

namespace {

using cubepi::detail::lower_case;

/// Returns 1 for equal texts, 0 for texts without a common character: the length of their longest common subsequence
/// relative to the length of both.
double similarity(std::string_view a, std::string_view b) {
    if (a.empty() || b.empty()) return 0;
    std::vector<std::size_t> row(b.size() + 1, 0);
    for (const char c : a) {
        std::size_t diagonal = 0;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t above = row[j + 1];
            row[j + 1] = c == b[j] ? diagonal + 1 : std::max(above, row[j]);
            diagonal = above;
        }
    }
    return 2.0 * static_cast<double>(row.back()) / static_cast<double>(a.size() + b.size());
}

}  // namespace

std::vector<std::string> close_matches(std::string_view name,
                                       const std::vector<std::string>& names) {
    constexpr double similar_enough = 0.6;
    constexpr std::size_t most = 3;
    // A name from a model or a user may have any length.
    const std::string wanted = lower_case(name.substr(0, 200));
    std::vector<std::pair<double, std::string>> found;
    for (const std::string& known : names) {
        const double like = similarity(wanted, lower_case(known));
        if (like >= similar_enough) found.emplace_back(like, known);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    if (found.size() > most) found.resize(most);
    std::vector<std::string> close;
    for (auto& [like, known] : found) close.push_back(std::move(known));
    return close;
}

}  // namespace bub
