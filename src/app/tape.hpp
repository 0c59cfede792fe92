#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace cubepi::app {

/// The arguments of `cubepi tape`.
struct TapeArguments {
    enum class What { list, show, search, anchors, export_lines, copy };
    What what = What::list;
    std::string tape = {};       ///< its name or a prefix of it; empty: by session or the newest
    std::string session = {};    ///< a session id of this directory
    std::string directory = {};  ///< of the tapes; empty: those of configured_tapes()
    std::string text = {};       ///< to search for
    std::vector<std::string> kinds = {};
    std::string from = {};  ///< a local date or time
    std::string to = {};
    std::size_t limit = 20;  ///< 0: all
    bool json = false;
    bool messages = false;    ///< export: the messages for a model, instead of the entries
    std::string output = {};  ///< export: a file; empty: standard output
    std::string target =
        {};              ///< copy: a directory, a database, or "files" for the default directory
    bool all = false;    ///< copy: all tapes
    bool force = false;  ///< export, copy: replace the existing file or tape
};

/// Shows the contents of tapes; never changes them. Returns the exit status.
int show_tapes(const TapeArguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace cubepi::app
