#pragma once

#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string_view>

// The limit of the states of one match. Boost.Regex applies it as it is to iterators without random access only: otherwise the limit is
// the square of the expression's length times the length of the text, which takes hours.
#define BOOST_REGEX_MAX_STATE_COUNT 8000000
#include <boost/regex.hpp>

namespace cubepi::detail {

/// An iterator that counts its steps, and throws std::runtime_error after too many: a state may compare a whole text.
template <class Character>
class CountedCharacter {
public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = Character;
    using difference_type = std::ptrdiff_t;
    using pointer = const Character*;
    using reference = const Character&;

    CountedCharacter() = default;
    CountedCharacter(const Character* at, std::size_t& left) : at_(at), left_(&left) {}

    reference operator*() const { return *at_; }
    pointer operator->() const { return at_; }
    CountedCharacter& operator++() { return step(1); }
    CountedCharacter& operator--() { return step(-1); }
    CountedCharacter operator++(int) { return stepped(1); }
    CountedCharacter operator--(int) { return stepped(-1); }
    friend bool operator==(const CountedCharacter& a, const CountedCharacter& b) {
        return a.at_ == b.at_;
    }

private:
    CountedCharacter& step(std::ptrdiff_t by) {
        // Boost.Regex releases its states after the exception, for which it may step once more.
        if ((*left_)-- == 0) throw std::runtime_error("too many steps");
        at_ += by;
        return *this;
    }
    CountedCharacter stepped(std::ptrdiff_t by) {
        CountedCharacter before = *this;
        step(by);
        return before;
    }

    const Character* at_ = nullptr;
    std::size_t* left_ = nullptr;
};

/// An expression of Boost.Regex whose compilation and matches have limits of time, memory and stack, whatever the expression and the
/// text are. Only this header includes Boost.Regex: the limit above belongs to the types below.
template <class Character>
class BoundedRegex {
public:
    /// Throws std::runtime_error with the reason.
    explicit BoundedRegex(std::basic_string_view<Character> text,
                          boost::regex::flag_type flags = boost::regex::perl) {
        if (text.size() > longest) throw std::runtime_error("it is longer than 10000 characters");
        expression_.assign(text.begin(), text.end(), flags);
    }

    /// Throws std::runtime_error if the match takes too many steps.
    bool matches(std::basic_string_view<Character> text,
                 boost::match_flag_type flags = boost::match_default) const {
        std::size_t left = steps(text);
        return boost::regex_match(CountedCharacter<Character>(text.data(), left),
                                  CountedCharacter<Character>(text.data() + text.size(), left),
                                  expression_, flags);
    }
    bool occurs_in(std::basic_string_view<Character> text,
                   boost::match_flag_type flags = boost::match_default) const {
        std::size_t left = steps(text);
        return boost::regex_search(CountedCharacter<Character>(text.data(), left),
                                   CountedCharacter<Character>(text.data() + text.size(), left),
                                   expression_, flags);
    }

private:
    static constexpr std::size_t longest = 10'000;
    struct Traits : boost::regex_traits<Character> {};

    static std::size_t steps(std::basic_string_view<Character> text) {
        return 10'000'000 + 20 * text.size();
    }

    boost::basic_regex<Character, Traits> expression_;
};

}  // namespace cubepi::detail
