#include <cubepi/workspace/policy/protected_path.hpp>

#include <string>

namespace cubepi::detail {

namespace {

/// Normalizes a component as the most lenient file systems compare it: HFS+ ignores some characters beyond ASCII, NTFS blanks
/// and dots at the end and everything after a colon, and both ignore case.
std::string folded(std::string_view component) {
    std::string name;
    for (const char c : component.substr(0, component.find(':'))) {
        if (c >= 'A' && c <= 'Z')
            name += static_cast<char>(c - 'A' + 'a');
        else if (c >= ' ')
            name += c;
    }
    while (name.ends_with('.') || name.ends_with(' ')) name.pop_back();
    return name;
}

std::string_view reason_of(const std::string& name) {
    if (name.ends_with(".git") || name == "git~1")
        return "git runs programs named in this directory";
    if (name == ".agents" || name == ".agent") return "skills become instructions of later turns";
    if (name == "agents.md") return "it becomes instructions of later turns";
    return {};
}

}  // namespace

std::string_view protected_because(std::string_view path) {
    std::string name;
    while (!path.empty()) {
        const auto end = path.find_first_of("/\\");
        const std::string_view component = path.substr(0, end);
        if (!component.empty()) name = folded(component);
        if (const std::string_view reason = reason_of(name); !reason.empty()) return reason;
        path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
    }
    // With a file HEAD a directory can be taken for a bare repository, whose configuration git reads.
    if (name == "head") return "git treats a directory with that file as a repository";
    return {};
}

}  // namespace cubepi::detail
