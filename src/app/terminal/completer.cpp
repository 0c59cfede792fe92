#include "completer.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace cubepi::app {

namespace {

constexpr std::size_t max_entries = 2000;

std::vector<std::string> file_names(const std::string& word) {
    const std::size_t slash = word.rfind('/');
    const std::string directory =
        slash == std::string::npos ? std::string() : word.substr(0, slash + 1);
    const std::string start = slash == std::string::npos ? word : word.substr(slash + 1);
    std::vector<std::string> names;
    std::error_code failed;
    std::filesystem::directory_iterator entry(directory.empty() ? "." : directory, failed);
    for (std::size_t seen = 0;
         !failed && entry != std::filesystem::directory_iterator() && seen < max_entries;
         entry.increment(failed), ++seen) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(start) || (start.empty() && name.starts_with('.'))) continue;
        std::error_code ignored;
        names.push_back(directory + name + (entry->is_directory(ignored) ? "/" : ""));
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string common_start(const std::vector<std::string>& words) {
    std::string start = words.front();
    for (const std::string& word : words) {
        const auto ends = std::mismatch(start.begin(), start.end(), word.begin(), word.end());
        start.erase(ends.first, start.end());
    }
    return start;
}

}  // namespace

Completion complete_line(const std::string& line, std::size_t cursor,
                         const std::vector<std::string>& commands) {
    Completion completion;
    const std::size_t blank =
        cursor == 0 ? std::string::npos : line.find_last_of(" \n", cursor - 1);
    completion.from = blank == std::string::npos ? 0 : blank + 1;
    const std::string word = line.substr(completion.from, cursor - completion.from);
    completion.word = word;
    const bool command = completion.from == 0 && (word.starts_with('/') || word.starts_with(','));
    std::vector<std::string> found;
    if (command) {
        for (const std::string& name : commands) {
            if (name.starts_with(word)) found.push_back(name);
        }
    }
    if (!command || (found.empty() && word.starts_with('/'))) {
        if (word.empty()) return completion;
        const bool marked = word.starts_with('@');
        found = file_names(marked ? word.substr(1) : word);
        for (std::string& name : found) {
            if (marked) name.insert(0, 1, '@');
        }
    }
    if (found.empty()) return completion;
    completion.word = common_start(found);
    if (found.size() > 1) {
        completion.choices = std::move(found);
    } else if (!completion.word.ends_with('/')) {
        completion.word += ' ';
    }
    return completion;
}

}  // namespace cubepi::app
