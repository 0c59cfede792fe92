#include "grammar.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

namespace cubepi::app {

namespace {

struct Grammar {
    std::string_view name;
    const TSLanguage* (*language)();
    std::string_view query;
};

#include "grammars.inc"

// The patterns of the queries are about names. std::regex calls itself for each character.
constexpr std::uint32_t longest_tested = 200;

struct NamedRole {
    std::string_view capture;
    CodeRole role;
};
/// By the first part of a capture's name. Variables, operators and punctuation have no color.
constexpr NamedRole named_roles[] = {
    {"attribute", CodeRole::tag},    {"boolean", CodeRole::number},
    {"comment", CodeRole::comment},  {"constant", CodeRole::number},
    {"constructor", CodeRole::type}, {"embedded", CodeRole::plain},
    {"escape", CodeRole::number},    {"function", CodeRole::function},
    {"keyword", CodeRole::keyword},  {"label", CodeRole::tag},
    {"namespace", CodeRole::type},   {"number", CodeRole::number},
    {"property", CodeRole::key},     {"string", CodeRole::string},
    {"tag", CodeRole::tag},          {"type", CodeRole::type},
};

std::optional<CodeRole> role_of_name(std::string_view capture) {
    if (capture == "string.special.key") return CodeRole::key;
    if (capture == "variable.builtin") return CodeRole::number;
    const std::string_view first = capture.substr(0, capture.find('.'));
    for (const NamedRole& row : named_roles) {
        if (row.capture == first) return row.role;
    }
    return std::nullopt;
}

std::string_view text_of(TSNode node, std::string_view code) {
    const std::uint32_t begin = ts_node_start_byte(node);
    const std::uint32_t end = ts_node_end_byte(node);
    return end <= code.size() ? code.substr(begin, end - begin) : std::string_view();
}

}  // namespace

CodeGrammar::CodeGrammar(const TSLanguage* language, QueryPtr query)
    : language_(language), query_(std::move(query)) {
    const std::uint32_t captures = ts_query_capture_count(query_.get());
    for (std::uint32_t i = 0; i < captures; ++i) {
        std::uint32_t length = 0;
        const char* const name = ts_query_capture_name_for_id(query_.get(), i, &length);
        roles_.push_back(role_of_name(std::string_view(name, length)));
    }
    const std::uint32_t patterns = ts_query_pattern_count(query_.get());
    tests_.resize(patterns);
    for (std::uint32_t i = 0; i < patterns; ++i) read_tests(i);
}

/// Other conditions than those about text (#is-not? local) hold.
void CodeGrammar::read_tests(std::uint32_t pattern) {
    std::uint32_t count = 0;
    const TSQueryPredicateStep* const steps =
        ts_query_predicates_for_pattern(query_.get(), pattern, &count);
    const auto string_of = [this](const TSQueryPredicateStep& step) {
        std::uint32_t length = 0;
        const char* const text = ts_query_string_value_for_id(query_.get(), step.value_id, &length);
        return std::string(text, length);
    };
    for (std::uint32_t i = 0; i + 2 < count; ++i) {
        const bool is_test = steps[i].type == TSQueryPredicateStepTypeString &&
                             steps[i + 1].type == TSQueryPredicateStepTypeCapture &&
                             steps[i + 2].type == TSQueryPredicateStepTypeString;
        if (is_test) {
            CaptureTest test;
            test.capture = steps[i + 1].value_id;
            const std::string name = string_of(steps[i]);
            if (name == "eq?") test.equal = string_of(steps[i + 2]);
            if (name == "match?")
                test.matching.emplace(string_of(steps[i + 2]), std::regex::ECMAScript);
            if (test.matching || !test.equal.empty()) tests_[pattern].push_back(std::move(test));
        }
        while (i < count && steps[i].type != TSQueryPredicateStepTypeDone) ++i;
    }
}

bool CodeGrammar::accepts(const TSQueryMatch& match, std::string_view code) const {
    for (const CaptureTest& test : tests_[match.pattern_index]) {
        for (std::uint16_t i = 0; i < match.capture_count; ++i) {
            if (match.captures[i].index != test.capture) continue;
            const std::string_view text = text_of(match.captures[i].node, code);
            if (text.size() > longest_tested) return false;
            if (!test.matching && text != test.equal) return false;
            if (test.matching && !std::regex_search(text.begin(), text.end(), *test.matching))
                return false;
        }
    }
    return true;
}

const CodeGrammar* CodeGrammar::find(std::string_view name) {
    struct Cached {
        bool tried = false;
        std::unique_ptr<const CodeGrammar> grammar = {};
    };
    static std::mutex mutex;
    static std::array<Cached, std::size(grammars)> cache;
    const auto* const row =
        std::find_if(std::begin(grammars), std::end(grammars),
                     [name](const Grammar& grammar) { return grammar.name == name; });
    if (row == std::end(grammars)) return nullptr;
    const std::lock_guard lock(mutex);
    Cached& cached = cache[static_cast<std::size_t>(row - std::begin(grammars))];
    if (!std::exchange(cached.tried, true)) {
        std::uint32_t offset = 0;
        TSQueryError error = TSQueryErrorNone;
        QueryPtr query(ts_query_new(row->language(), row->query.data(),
                                    static_cast<std::uint32_t>(row->query.size()), &offset,
                                    &error));
        if (query) cached.grammar.reset(new CodeGrammar(row->language(), std::move(query)));
    }
    return cached.grammar.get();
}

}  // namespace cubepi::app
