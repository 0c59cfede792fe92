#pragma once

#include <functional>
#include <string>
#include <vector>

#include <bub/hooks.hpp>

namespace cubepi::app {

struct Candidate {
    std::string value = {};
    std::string description = {};
};

/// The possible words at the cursor of a command line.
struct Candidates {
    enum class Files { none, any, directories };
    Files files = Files::none;  ///< names that the shell completes itself
    std::vector<Candidate> list = {};
};

/// Returns the values of a type of command_tree.hpp.
using ListValues = std::function<std::vector<Candidate>(const std::string& type)>;

/// `before` are the words between the program's name and the cursor, `word` the start of the one at the cursor. The list is
/// not filtered by `word`, which only decides between options and other arguments.
Candidates candidates_for(const std::vector<std::string>& before, const std::string& word,
                          const std::vector<bub::CliCommand>& more, const ListValues& values);

}  // namespace cubepi::app
