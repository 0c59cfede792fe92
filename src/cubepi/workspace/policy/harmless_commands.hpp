#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cubepi::detail {

/// A command that the positive list takes with all of its words.
struct ListedCommand {
    std::size_t words =
        0;  ///< of the program and its subcommand: the rest are options and operands
    bool needs_directory =
        false;  ///< what it does depends on files of the directory that it runs in
};

/// The list entry that `words` is made of; none when any word is not on the list.
std::optional<ListedCommand> find_listed(const std::vector<std::string>& words);

}  // namespace cubepi::detail
