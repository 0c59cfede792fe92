#include <bub/builtin/plugin/project_file.hpp>

#include <algorithm>
#include <array>

#include <cubepi/net/utf8.hpp>

namespace bub::detail {

std::string ProjectFile::cut_note(std::string_view name) const {
    return "[" + std::string(name) + " has " + size_text(size) +
           ". Only its first 64 KiB are above; read the file for the rest.]";
}

ProjectFile read_project_file(cubepi::Workspace& place, const std::string& path) {
    const auto file = place.open(path);
    std::string bytes(max_project_file + 1, '\0');
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const std::size_t got = file->read(bytes.data() + filled, bytes.size() - filled);
        if (got == 0) break;
        filled += got;
    }
    ProjectFile read;
    read.size =
        filled > max_project_file ? std::max<std::uint64_t>(file->info().size, filled) : filled;
    bytes.resize(std::min(filled, max_project_file));
    if (read.is_cut()) bytes.resize(cubepi::complete_utf8_prefix(bytes));
    read.text = cubepi::replace_broken_utf8(bytes);
    read.text.erase(read.text.find_last_not_of(" \n") + 1);
    return read;
}

std::string size_text(std::uint64_t bytes) {
    if (bytes < 1000) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
    constexpr std::array units = {" KB", " MB", " GB", " TB", " PB", " EB"};
    std::uint64_t tenths = bytes / 100;
    std::size_t unit = 0;
    for (; tenths >= 10'000 && unit + 1 < units.size(); ++unit) tenths /= 1000;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + units[unit];
}

}  // namespace bub::detail
