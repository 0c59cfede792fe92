#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel/telegram_text.hpp>

namespace bub::telegram {

/// The formats of one piece of text. `code` and `pre` exclude the others.
struct TextStyle {
    bool bold = false;
    bool italic = false;
    bool strike = false;
    bool code = false;
    std::size_t link = 0;   ///< index + 1 of the link; 0: none
    std::size_t quote = 0;  ///< number of the quote; 0: none
    std::size_t pre = 0;    ///< index + 1 of the code block; 0: none
};

/// A text that is built piece by piece, each with its formats.
class StyledText {
public:
    void add(std::string_view text, const TextStyle& style);
    std::size_t add_link(std::string url);
    std::size_t add_pre(std::string language);
    /// Derives the entities from the styles.
    FormattedText finish() &&;

private:
    struct Piece {
        std::size_t offset;
        std::size_t length;
        TextStyle style;
    };
    template <class Key>
    void collect(std::vector<Entity>& all, const char* type, Key key) const;

    std::string text_;
    std::size_t units_ = 0;
    std::vector<Piece> pieces_;
    std::vector<std::string> links_;
    std::vector<std::string> languages_;
};

/// Makes entities valid: removes white space at their ends and empty ones, divides those that overlap partially, and sorts
/// them.
std::vector<Entity> valid_entities(std::string_view text, std::vector<Entity> entities);

}  // namespace bub::telegram
