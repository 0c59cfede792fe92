#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace cubepi::app {

/// What `cubepi tape` is asked for.
struct TapeArguments {
    enum class What { list, show, search, anchors, export_lines };
    What what = What::list;
    std::string tape = {};       ///< its name, or how it begins; empty: by session or the newest
    std::string session = {};    ///< a session id of this directory
    std::string directory = {};  ///< where the tapes are; empty: ~/.bub/tapes
    std::string text = {};       ///< to search for
    std::vector<std::string> kinds = {};
    std::string from = {};  ///< a local date or time
    std::string to = {};
    std::size_t limit = 20;  ///< 0: all
    bool json = false;
    bool messages = false;    ///< export: what a model would get, instead of the entries
    std::string output = {};  ///< export: a file; empty: standard output
    bool force = false;       ///< export: replace an existing file
};

/// Shows what is on tapes; changes nothing on them. Gives the exit status.
int show_tapes(const TapeArguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace cubepi::app
