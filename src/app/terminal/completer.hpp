#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cubepi::app {

/// Something that can be entered by its name.
struct Command {
    std::string name = {};  ///< as it is typed; ends with a blank when something follows
    std::string help = {};
};

/// What Tab makes of a line.
struct Completion {
    std::size_t from = 0;                   ///< where the word begins
    std::string word = {};                  ///< what stands there afterwards
    std::vector<std::string> choices = {};  ///< shown when there are several
};

/// Completes a command (a first word that begins with '/' or ',') or the name of a file below the current directory.
Completion complete_line(const std::string& line, std::size_t cursor,
                         const std::vector<std::string>& commands);

}  // namespace cubepi::app
