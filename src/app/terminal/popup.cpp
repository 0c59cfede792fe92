#include "popup.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include <cubepi/core/support/lower_case.hpp>

#include "text_layout.hpp"

namespace cubepi::app {

namespace {

bool begins_word(std::string_view text, std::size_t at) {
    return at == 0 || std::string_view("/-_. ").find(text[at - 1]) != std::string_view::npos;
}

constexpr std::size_t most_entries = 50;

/// A name with blanks is quoted, as attach_files() reads it.
std::string file_word(const std::string& name) {
    const bool plain = name.find_first_of(" \t\"'") == std::string::npos;
    return plain ? "@" + name : "@\"" + name + "\"";
}

std::vector<Command> matching(const std::vector<Command>& all, const std::string& word) {
    std::vector<std::string> names;
    for (const Command& one : all) names.push_back(one.name);
    std::vector<Command> found;
    for (const std::size_t index : fuzzy_matches(word, names, most_entries, false))
        found.push_back(all[index]);
    return found;
}

/// Commands whose first character is that of the word; with a bare one, in their order.
std::vector<Command> commands_for(const std::vector<Command>& all, const std::string& word) {
    std::vector<Command> same;
    for (const Command& one : all) {
        if (one.name.front() == word.front()) same.push_back(one);
    }
    return word.size() == 1 ? same : matching(same, word);
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

void Popup::update(const std::string& text, std::size_t cursor) {
    const std::size_t blank =
        cursor == 0 ? std::string::npos : text.find_last_of(" \t\n", cursor - 1);
    const std::size_t begin = blank == std::string::npos ? 0 : blank + 1;
    const std::string word = text.substr(begin, cursor - begin);
    const char sign = word.empty() ? '\0' : word.front();
    const bool is_command = (sign == '/' || sign == ',') && begin == 0;
    const bool ends_here = cursor == text.size() || text[cursor] == ' ' || text[cursor] == '\n';
    if (!ends_here || !(is_command || sign == '@' || sign == '$')) {
        return reset();
    }
    if (begin != begin_ || word_.empty()) dismissed_ = asked_ = false;
    begin_ = begin;
    word_ = word;
    if (dismissed_) return;
    if (sign == '@' && !asked_ && sources_.want_files) {
        asked_ = true;
        sources_.want_files();
    }
    if (sign == '@' && sources_.want_resources && word.find(':') != std::string::npos)
        sources_.want_resources(word);
    find(word);
}

void Popup::find(const std::string& word) {
    marked_ = 0;
    entries_.clear();
    switch (word.front()) {
        case '/':
        case ',': entries_ = commands_for(sources_.commands, word); return;
        case '$': entries_ = matching(sources_.skills, word); return;
        default: break;
    }
    find_files(word);
}

/// Files and resources, the best matches first. Resources do not hide all files, nor files all resources.
void Popup::find_files(const std::string& word) {
    constexpr std::size_t most_resources = most_entries / 2;
    std::string wanted = word.substr(1);
    if (wanted.starts_with('"')) wanted.erase(0, 1);
    // Sorted by score, equal ones in their order.
    std::multimap<int, Command, std::greater<>> found;
    const auto add = [&](Command entry, const std::string& matched) {
        found.emplace(fuzzy_score(wanted, matched).value_or(0), std::move(entry));
    };
    std::vector<std::string> names;
    for (const Command& resource : sources_.resources)
        names.push_back(resource.name.substr(1) + " " + resource.help);
    const std::vector<std::size_t> resources = fuzzy_matches(wanted, names, most_resources, false);
    if (sources_.files) {
        const std::vector<std::string>& files = *sources_.files;
        for (const std::size_t index :
             fuzzy_matches(wanted, files, most_entries - resources.size(), true)) {
            Command entry;
            entry.name = file_word(files[index]);
            add(std::move(entry), files[index]);
        }
    }
    for (const std::size_t index : resources) add(sources_.resources[index], names[index]);
    for (auto& [score, entry] : found) entries_.push_back(std::move(entry));
}

void Popup::refresh() {
    if (!dismissed_ && word_.starts_with('@')) find(word_);
}

void Popup::close(bool until_next) {
    entries_.clear();
    dismissed_ = dismissed_ || until_next;
}

void Popup::reset() {
    entries_.clear();
    word_.clear();
    dismissed_ = asked_ = false;
}

Popup::Outcome Popup::press(const Key& key) {
    if (entries_.empty()) return Outcome::unused;
    const std::size_t count = entries_.size();
    switch (key.code) {
        case KeyCode::up: marked_ = (marked_ + count - 1) % count; return Outcome::used;
        case KeyCode::down: marked_ = (marked_ + 1) % count; return Outcome::used;
        case KeyCode::escape: close(true); return Outcome::used;
        case KeyCode::tab: return Outcome::chosen;
        case KeyCode::enter: break;
        default: return Outcome::unused;
    }
    const Command& entry = entries_[marked_];
    std::string name = entry.name;
    while (name.ends_with(' ')) name.pop_back();
    // A word that was typed in full is sent.
    if (name == word_) return Outcome::unused;
    const bool is_command = entry.name.front() == '/' || entry.name.front() == ',';
    return is_command && !entry.needs_argument ? Outcome::entered : Outcome::chosen;
}

std::string Popup::chosen_word() const {
    std::string word = entries_[marked_].name;
    // The rest of an entry that needs an argument is typed next to it, unless it ends with a blank.
    const bool is_begun = entries_[marked_].needs_argument && word.starts_with('@');
    if (!word.ends_with(' ') && !word.ends_with('=') && !is_begun) word += ' ';
    return word;
}

std::vector<TerminalText> Popup::rows(std::size_t columns, std::size_t max_rows) const {
    std::vector<TerminalText> rows;
    if (max_rows == 0 || entries_.empty()) return rows;
    const std::size_t count = entries_.size();
    const std::size_t shown = std::min(count, max_rows);
    const std::size_t first =
        marked_ < shown / 2 ? 0 : std::min(marked_ - shown / 2, count - shown);
    std::size_t widest = 0;
    for (std::size_t i = first; i < first + shown; ++i)
        widest = std::max(widest, display_width(spelled_out(entries_[i].name)));
    for (std::size_t i = first; i < first + shown; ++i) {
        const Command& entry = entries_[i];
        const TerminalText name = spelled_out(entry.name);
        TerminalText row =
            i == marked_ ? style_.cyan() + "❯ " + style_.bold() + name : "  " + style_.dim() + name;
        row += style_.off();
        if (!entry.help.empty())
            row += TerminalText::blanks(widest - display_width(name) + 2) + spelled_out(entry.help);
        rows.push_back(shortened(row, columns > 1 ? columns - 1 : 1));
    }
    if (shown < count && shown > 1 && first + shown < count)
        rows.back() = "  " + style_.dim() + "… and " +
                      TerminalText::number(count - first - shown + 1) + " more" + style_.off();
    return rows;
}

}  // namespace cubepi::app
