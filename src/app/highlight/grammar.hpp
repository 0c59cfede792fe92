#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <tree_sitter/api.h>

#include "highlighter.hpp"

namespace cubepi::app {

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
    std::optional<std::regex> matching = {};
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

}  // namespace cubepi::app
