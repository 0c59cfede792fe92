#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "full_screen.hpp"
#include "prompter.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

/// A list on the whole screen: arrows mark a row, typed text filters the rows, Enter picks, Esc clears the filter or closes. Derived
/// classes have the rows. Without I/O. Used on one executor.
class FilteredList : public FullScreen {
public:
    bool press(const Key& key) override;

protected:
    /// Marks another row, as many rows further on; ends at the first and the last one.
    virtual void move(std::ptrdiff_t rows) = 0;
    virtual void change_filter(std::string filter) = 0;
    /// Picks the marked row. Returns false if that closes the list.
    virtual bool pick() = 0;

    /// Returns a text after an editing key; nothing if the key does not edit it, or if the text would be too long.
    static std::optional<std::string> edited(const std::string& text, const Key& key);

    std::string filter_;
    std::size_t page_ = 1;  // rows on the screen
};

/// A list whose rows are known when it opens, with fuzzy_matches() as its filter.
class ListPicker final : public FilteredList {
public:
    ListPicker(PickList list, Style style);

    std::vector<TerminalText> screen(std::size_t columns, std::size_t rows,
                                     TerminalView note) override;

    /// The index of the row that the user has picked.
    const std::optional<std::size_t>& picked() const noexcept { return picked_; }

private:
    void move(std::ptrdiff_t rows) override;
    void change_filter(std::string filter) override;
    bool pick() override;

    PickList list_;
    Style style_;
    std::vector<std::string> texts_;
    std::vector<std::size_t> shown_;  // indexes of the rows that match
    std::size_t marked_ = 0;          // an index of shown_
    std::size_t top_ = 0;             // the same, of the first row on the screen
    std::optional<std::size_t> picked_;
};

}  // namespace cubepi::app
