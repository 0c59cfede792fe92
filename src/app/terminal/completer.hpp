#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cubepi::app {

/// A command that can be completed.
struct Command {
    std::string name = {};  ///< as typed; ends with a space if an argument follows
    std::string help = {};
};

/// The result of Tab for a line.
struct Completion {
    std::size_t from = 0;                   ///< where the word begins
    std::string word = {};                  ///< its replacement
    std::vector<std::string> choices = {};  ///< shown if there are several
};

/// Completes a command (a first word that begins with '/' or ',') or the name of a file below the current directory.
Completion complete_line(const std::string& line, std::size_t cursor,
                         const std::vector<std::string>& commands);

}  // namespace cubepi::app
