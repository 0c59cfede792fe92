#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// Returns the smallest number for which `content` does not contain "</KIND-NUMBER". Its time is proportional to the size of `content`.
inline std::size_t free_tag_number(std::string_view kind, std::string_view content) {
    const std::string begin = "</" + std::string(kind) + "-";
    // The content is too short to name all numbers up to its size.
    std::vector<bool> taken(content.size() + 2);
    taken[0] = true;
    for (std::size_t at = content.find(begin); at != content.npos; at = content.find(begin, at)) {
        at += begin.size();
        // "</file-12" begins with "</file-1", too.
        std::size_t number = 0;
        for (std::size_t i = at; i < content.size() && content[i] >= '0' && content[i] <= '9';
             ++i) {
            number = number * 10 + static_cast<std::size_t>(content[i] - '0');
            if (number >= taken.size()) break;
            taken[number] = true;
        }
    }
    return static_cast<std::size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
}

/// Returns the content between the lines <KIND-1 ATTRIBUTES> and </KIND-1>, with a number that the content does not have: it cannot end
/// before its end. `attributes` are on one line.
inline std::string enclosed(std::string_view kind, std::string_view attributes,
                            std::string_view content) {
    const std::string tag =
        std::string(kind) + "-" + std::to_string(free_tag_number(kind, content));
    std::string text = "<" + tag + " ";
    text += attributes;
    text += ">\n";
    text += content;
    if (!content.ends_with('\n')) text += '\n';
    return text + "</" + tag + ">";
}

}  // namespace cubepi::detail
