#include <cubepi/workspace/environment.hpp>

#include <algorithm>
#include <array>

#include <unistd.h>

namespace cubepi {

bool is_secret_variable(std::string_view name) {
    std::string upper(name);
    for (char& c : upper) {
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
    constexpr std::array<std::string_view, 4> words = {"KEY", "TOKEN", "SECRET", "PASSWORD"};
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
        return upper == word || (upper.size() > word.size() && upper.ends_with(word) &&
                                 upper[upper.size() - word.size() - 1] == '_');
    });
}

std::vector<std::string> secret_free_environment(const std::vector<std::string>& also_hidden) {
    std::vector<std::string> kept;
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view line(*entry);
        const auto name = line.substr(0, line.find('='));
        if (is_secret_variable(name)) continue;
        if (std::find(also_hidden.begin(), also_hidden.end(), name) != also_hidden.end()) continue;
        kept.emplace_back(line);
    }
    return kept;
}

}  // namespace cubepi
