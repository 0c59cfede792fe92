#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/event_signal.hpp>

#include "full_screen.hpp"
#include "prompter.hpp"
#include "terminal_stream.hpp"

namespace cubepi::app {

/// Returns the filter of a list after an editing key; nothing if the key does not edit it, or if the filter would be too long.
std::optional<std::string> edited_filter(const std::string& filter, const Key& key);

/// A list on the whole screen: arrows mark a row, typed text filters the rows (fuzzy_matches()), Enter picks, Esc closes. Without I/O.
/// Used on one executor.
class ListPicker final : public FullScreen {
public:
    ListPicker(PickList list, Style style);

    bool press(const Key& key) override;
    std::vector<TerminalText> screen(std::size_t columns, std::size_t rows,
                                     TerminalView note) override;
    void closed() override { over_.set(); }

    /// Waits until the list is closed.
    Task<> over() { return over_.wait(); }
    /// The index of the row that the user has picked.
    const std::optional<std::size_t>& picked() const noexcept { return picked_; }

private:
    void change_filter(std::string filter);

    PickList list_;
    Style style_;
    std::vector<std::string> texts_;
    std::string filter_;
    std::vector<std::size_t> shown_;  // indexes of the rows that match
    std::size_t marked_ = 0;          // an index of shown_
    std::size_t top_ = 0;             // the same, of the first row on the screen
    std::size_t page_ = 1;
    std::optional<std::size_t> picked_;
    AsyncEvent over_;
};

}  // namespace cubepi::app
