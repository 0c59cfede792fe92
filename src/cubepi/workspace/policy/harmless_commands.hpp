#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cubepi::detail {

/// A command whose words are all on the list of harmless commands.
struct ListedCommand {
    std::size_t words =
        0;  ///< of the program and its subcommand; the other words are options and operands
    bool needs_directory = false;  ///< its effect depends on files of its working directory
};

/// Returns the list entry for `words`, or nothing if a word is not on the list.
std::optional<ListedCommand> find_listed(const std::vector<std::string>& words);

}  // namespace cubepi::detail
