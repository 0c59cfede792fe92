#include "demo_scratch.hpp"

#include <fstream>
#include <sstream>
#include <string_view>

#include <cubepi/core/error.hpp>

namespace cubepi::app {

namespace {

constexpr std::string_view notes =
    "# Lighthouse, week 12\n\n"
    "The lamp turns again since Tuesday. Grease: two tins left.\n"
    "The inspector comes on Friday at nine; the log book must be complete.\n";
constexpr std::string_view todo = "order grease\npaint the door\ncopy the log book\n";
constexpr std::string_view costs = "item,price\ngrease,18.50\npaint,41.00\n";

void put(const std::filesystem::path& path, std::string_view text) {
    std::ofstream file(path, std::ios::binary);
    file << text << std::flush;
    if (!file)
        throw Error(ErrorCode::io,
                    "cannot write " + path.string() + "; is the disk full? Check: df -h");
}

}  // namespace

ScratchDirectory::ScratchDirectory() : root_("demo") {
    std::filesystem::create_directories(workspace());
    put(workspace() / "notes.md", notes);
    put(workspace() / "todo.txt", todo);
    put(workspace() / "costs.csv", costs);
}

std::string file_text(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace cubepi::app
