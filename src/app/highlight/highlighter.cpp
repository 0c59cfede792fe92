#include "highlighter.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tree_sitter/api.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/regular_expression.hpp>

namespace cubepi::app {

namespace {

struct Grammar {
    std::string_view name;
    const TSLanguage* (*language)();
    std::string_view query;
};

#include "grammars.inc"

// The patterns of the queries are about names. A regular expression calls itself for each character.
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

struct TreeSitterDeleter {
    void operator()(TSParser* parser) const noexcept { ts_parser_delete(parser); }
    void operator()(TSTree* tree) const noexcept { ts_tree_delete(tree); }
    void operator()(TSQuery* query) const noexcept { ts_query_delete(query); }
    void operator()(TSQueryCursor* cursor) const noexcept { ts_query_cursor_delete(cursor); }
};
using ParserPtr = std::unique_ptr<TSParser, TreeSitterDeleter>;
using TreePtr = std::unique_ptr<TSTree, TreeSitterDeleter>;
using QueryPtr = std::unique_ptr<TSQuery, TreeSitterDeleter>;
using CursorPtr = std::unique_ptr<TSQueryCursor, TreeSitterDeleter>;

/// A condition of a pattern on the text of a capture: #eq? or #match?.
struct CaptureTest {
    std::uint32_t capture = 0;
    std::string equal = {};
    std::optional<detail::RegularExpression> matching = {};
};

/// The grammar of a language with its compiled query. Immutable, used by all highlighters of the process.
class CodeGrammar {
public:
    /// Returns null for a grammar that does not exist or does not fit the library. Compiles the query at the first call for
    /// this name. Thread-safe.
    static const CodeGrammar* find(std::string_view name);

    const TSLanguage* language() const noexcept { return language_; }
    const TSQuery* query() const noexcept { return query_.get(); }
    /// Absent for a capture without a color.
    std::optional<CodeRole> role_of(std::uint32_t capture) const { return roles_[capture]; }
    bool accepts(const TSQueryMatch& match, std::string_view code) const;

private:
    CodeGrammar(const TSLanguage* language, QueryPtr query);
    void read_tests(std::uint32_t pattern);

    const TSLanguage* language_;
    QueryPtr query_;
    std::vector<std::optional<CodeRole>> roles_;   // by capture
    std::vector<std::vector<CaptureTest>> tests_;  // by pattern
};

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
            if (name == "match?") test.matching.emplace(string_of(steps[i + 2]));
            if (test.matching || !test.equal.empty()) tests_[pattern].push_back(std::move(test));
        }
        while (i < count && steps[i].type != TSQueryPredicateStepTypeDone) ++i;
    }
}

/// Returns false for a text on which the expression takes too many steps.
bool occurs(const detail::RegularExpression& expression, std::string_view text) {
    try {
        return expression.occurs_in(text);
    } catch (const Error&) {
        return false;
    }
}

bool CodeGrammar::accepts(const TSQueryMatch& match, std::string_view code) const {
    for (const CaptureTest& test : tests_[match.pattern_index]) {
        for (std::uint16_t i = 0; i < match.capture_count; ++i) {
            if (match.captures[i].index != test.capture) continue;
            const std::string_view text = text_of(match.captures[i].node, code);
            if (text.size() > longest_tested) return false;
            if (!test.matching && text != test.equal) return false;
            if (test.matching && !occurs(*test.matching, text)) return false;
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

// Patterns that are in progress at the same time; a hostile text could begin thousands.
constexpr std::uint32_t max_matches = 64;
constexpr std::uint32_t part_bytes = 256;

struct Part {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
};

struct Capture {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t pattern = 0;
    CodeRole role = CodeRole::plain;
};

/// True if `b` covers `a`: an inner piece covers an outer one, a key a string, and a later pattern an earlier one.
bool is_covered(const Capture& a, const Capture& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.end != b.end) return a.end > b.end;
    const bool a_is_key = a.role == CodeRole::key;
    const bool b_is_key = b.role == CodeRole::key;
    if (a_is_key != b_is_key) return b_is_key;
    return a.pattern != b.pattern ? a.pattern < b.pattern : a.role < b.role;
}

std::uint32_t size_of(std::string_view text) { return static_cast<std::uint32_t>(text.size()); }

/// The text with its tree, in which further text can be appended.
struct ParsedText {
    TreePtr tree = {};
    std::uint32_t bytes = 0;
    TSPoint end = {0, 0};

    void append(std::string_view more) {
        TSPoint to = end;
        const auto lines = static_cast<std::uint32_t>(std::count(more.begin(), more.end(), '\n'));
        to.row += lines;
        const std::size_t last = more.rfind('\n');
        to.column = last == std::string_view::npos ? to.column + size_of(more)
                                                   : size_of(more.substr(last + 1));
        if (tree) {
            TSInputEdit edit;
            edit.start_byte = edit.old_end_byte = bytes;
            edit.new_end_byte = bytes + size_of(more);
            edit.start_point = edit.old_end_point = end;
            edit.new_end_point = to;
            ts_tree_edit(tree.get(), &edit);
        }
        bytes += size_of(more);
        end = to;
    }
};

/// True if the byte `at` of the text belongs to a comment or string that begins before it and ends at `end`.
bool is_in_block(TSTree* tree, std::uint32_t at, std::uint32_t end) {
    TSNode node = ts_node_descendant_for_byte_range(ts_tree_root_node(tree), at, end);
    while (!ts_node_is_null(node)) {
        const std::string_view type = ts_node_type(node);
        const bool is_block = type.find("comment") != std::string_view::npos ||
                              type.find("string") != std::string_view::npos;
        if (is_block && ts_node_start_byte(node) < at && ts_node_end_byte(node) >= end) return true;
        node = ts_node_parent(node);
    }
    return false;
}

std::vector<CodeSpan> spans_of(const std::vector<CodeRole>& roles) {
    std::vector<CodeSpan> spans;
    for (std::size_t at = 0; at < roles.size();) {
        const auto from = roles.begin() + static_cast<std::ptrdiff_t>(at);
        const auto to =
            std::find_if(from, roles.end(), [&](CodeRole role) { return role != *from; });
        const auto end = static_cast<std::size_t>(to - roles.begin());
        if (*from != CodeRole::plain) spans.push_back(CodeSpan{at, end, *from});
        at = end;
    }
    return spans;
}

}  // namespace

struct Highlighter::State {
    State(const CodeLanguage& language_, const CodeGrammar& grammar_, HighlightLimits limits_)
        : language(language_), grammar(grammar_), limits(limits_), parser(ts_parser_new()) {}

    std::vector<CodeSpan> add(std::string_view lines);
    TreePtr parse(const ParsedText& from, std::string_view code);
    TreePtr closed_tree();
    void capture(TSTree* tree, Part part, std::vector<Capture>& captures);
    std::vector<CodeSpan> colors(TSTree* tree, std::uint32_t begin);
    bool is_late() const {
        return limits.time.count() > 0 && std::chrono::steady_clock::now() >= deadline;
    }

    const CodeLanguage& language;
    const CodeGrammar& grammar;
    const HighlightLimits limits;
    ParserPtr parser;
    CursorPtr cursor = {};
    std::string text = {};
    ParsedText parsed = {};
    std::array<bool, 2> has_block = {};  // the text has the mark that opens it
    std::chrono::steady_clock::time_point deadline = {};
    std::chrono::steady_clock::duration spent = {};
    bool failed = false;
};

TreePtr Highlighter::State::parse(const ParsedText& from, std::string_view code) {
    if (limits.time.count() > 0) {
        const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
            deadline - std::chrono::steady_clock::now());
        // 0 would be no limit.
        const std::int64_t most = std::max<std::int64_t>(left.count(), 1);
        ts_parser_set_timeout_micros(parser.get(), static_cast<std::uint64_t>(most));
    }
    TreePtr tree(ts_parser_parse_string(parser.get(), from.tree.get(), code.data(), size_of(code)));
    if (!tree) ts_parser_reset(parser.get());
    return tree;
}

/// A comment or string that is still open is an error to the parser. Tries to close those that the language has; returns the tree
/// of the text with the one that fits.
TreePtr Highlighter::State::closed_tree() {
    for (std::size_t i = 0; i < has_block.size(); ++i) {
        const std::string_view close = language.blocks[i].close;
        if (!has_block[i] || close.empty()) continue;
        ParsedText closed{TreePtr(ts_tree_copy(parsed.tree.get())), parsed.bytes, parsed.end};
        closed.append(close);
        text += close;
        TreePtr tree = parse(closed, text);
        text.resize(parsed.bytes);
        if (tree && is_in_block(tree.get(), parsed.bytes, closed.bytes)) return tree;
    }
    return nullptr;
}

/// Adds the captures of a part of the text. The query takes time in proportion to the square of the number of nodes in text
/// that is not code, and cannot be stopped; hence the parts are small.
void Highlighter::State::capture(TSTree* tree, Part part, std::vector<Capture>& captures) {
    ts_query_cursor_set_byte_range(cursor.get(), part.begin, part.end);
    ts_query_cursor_exec(cursor.get(), grammar.query(), ts_tree_root_node(tree));
    TSQueryMatch match;
    std::uint32_t index = 0;
    while (ts_query_cursor_next_capture(cursor.get(), &match, &index)) {
        const TSQueryCapture& found = match.captures[index];
        const std::optional<CodeRole> role = grammar.role_of(found.index);
        if (!role || (*role == CodeRole::key && !language.keys)) continue;
        const std::uint32_t begin = std::max(ts_node_start_byte(found.node), part.begin);
        const std::uint32_t end = std::min(ts_node_end_byte(found.node), part.end);
        if (begin < end && grammar.accepts(match, text))
            captures.push_back(Capture{begin, end, match.pattern_index, *role});
    }
}

std::vector<CodeSpan> Highlighter::State::colors(TSTree* tree, std::uint32_t begin) {
    if (!cursor) {
        cursor.reset(ts_query_cursor_new());
        ts_query_cursor_set_match_limit(cursor.get(), max_matches);
    }
    const std::uint32_t end = size_of(text);
    std::vector<CodeRole> roles(end - begin, CodeRole::plain);
    std::vector<Capture> captures;
    for (std::uint32_t at = begin; at < end && !is_late(); at += part_bytes) {
        captures.clear();
        capture(tree, Part{at, std::min(at + part_bytes, end)}, captures);
        std::sort(captures.begin(), captures.end(), is_covered);
        for (const Capture& one : captures) {
            std::fill(roles.begin() + (one.begin - begin), roles.begin() + (one.end - begin),
                      one.role);
        }
    }
    return spans_of(roles);
}

std::vector<CodeSpan> Highlighter::State::add(std::string_view lines) {
    if (failed || lines.empty()) return {};
    failed = lines.size() > limits.bytes - std::min(limits.bytes, text.size());
    if (!failed) {
        const auto begun = std::chrono::steady_clock::now();
        deadline = begun + limits.time;
        const std::uint32_t begin = size_of(text);
        text += lines;
        parsed.append(lines);
        parsed.tree = parse(parsed, text);
        if (parsed.tree) {
            for (std::size_t i = 0; i < has_block.size(); ++i) {
                const std::string_view open = language.blocks[i].open;
                if (!open.empty() && lines.find(open) != std::string_view::npos)
                    has_block[i] = true;
            }
            const bool has_error = ts_node_has_error(ts_tree_root_node(parsed.tree.get()));
            const TreePtr closed = has_error ? closed_tree() : nullptr;
            std::vector<CodeSpan> spans = colors(closed ? closed.get() : parsed.tree.get(), begin);
            spent += std::chrono::steady_clock::now() - begun;
            const bool is_dear = limits.total.count() > 0 && spent > limits.total;
            if (!is_late() && !is_dear) return spans;
        }
        failed = true;
    }
    // The rest of the text is plain.
    parsed.tree.reset();
    parser.reset();
    cursor.reset();
    text = std::string();
    return {};
}

bool can_highlight() noexcept { return true; }

Highlighter::Highlighter(const CodeLanguage& language, HighlightLimits limits) {
    const CodeGrammar* grammar = CodeGrammar::find(language.grammar);
    if (!grammar) return;
    state_ = std::make_unique<State>(language, *grammar, limits);
    if (!ts_parser_set_language(state_->parser.get(), grammar->language())) state_.reset();
}

Highlighter::~Highlighter() = default;
Highlighter::Highlighter(Highlighter&&) noexcept = default;
Highlighter& Highlighter::operator=(Highlighter&&) noexcept = default;

std::vector<CodeSpan> Highlighter::add(std::string_view lines) {
    return state_ ? state_->add(lines) : std::vector<CodeSpan>();
}

}  // namespace cubepi::app
