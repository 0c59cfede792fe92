#include <unistd.h>

#include <bub/tape/entry/json_text.hpp>
#include <bub/tape/file/digest.hpp>
#include <bub/tape/file/side_state.hpp>
#include <bub/tape/file/tape_errors.hpp>
#include <bub/tape/file/tape_writing.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The files next to the tapes: the side state of each, and media.

namespace bub::detail {

namespace fs = std::filesystem;

Json TapeDirectory::edit_state(const std::string& name,
                               const std::function<Json(JsonObject&)>& edit) {
    const Writing writing = write_lock(name);
    const JsonObject before = read_state(name);
    JsonObject state = before;
    const std::size_t late = make_late_edits(*writing.known, state);
    Json result = edit(state);
    write_state(writing, before, state);
    const std::lock_guard lock(writing.known->late_mutex);
    auto& edits = writing.known->late;
    edits.erase(edits.begin(), edits.begin() + static_cast<std::ptrdiff_t>(late));
    return result;
}

void TapeDirectory::edit_state_later(const std::string& name,
                                     std::function<void(JsonObject&)> edit) {
    const std::shared_ptr<CachedTape> tape = known(name);
    const std::lock_guard lock(tape->late_mutex);
    tape->late.push_back(std::move(edit));
}

std::size_t TapeDirectory::make_late_edits(CachedTape& tape, JsonObject& state) {
    const std::lock_guard lock(tape.late_mutex);
    for (const auto& edit : tape.late) edit(state);
    return tape.late.size();
}

void TapeDirectory::write_state(const Writing& writing, const JsonObject& before,
                                const JsonObject& state) const {
    if (state == before) return;
    check_depth(writing.name, state);
    RequestMarkSet old_marks;
    RequestMarkSet marks;
    if (SideState(before).list("pending") != SideState(state).list("pending")) {
        old_marks = marks_of(writing.name, before);
        marks = marks_of(writing.name, state);
    }
    marks_.add(marks, old_marks);
    if (state.empty()) {
        remove_file(writing.paths.state);
    } else {
        std::string text;
        append_json_text(text, state);
        text += '\n';
        replace_file(writing.paths.state, text, options_.sync == TapeSync::append);
    }
    marks_.remove(old_marks, marks);
}

JsonObject TapeDirectory::read_state(const std::string& name) {
    const std::optional<std::string> text = read_file(TapePaths(options_.directory, name).state);
    if (!text) return {};
    try {
        Json state = cubepi::parse_lenient(*text);
        if (JsonObject* object = state.if_object()) return std::move(*object);
    } catch (const cubepi::Error&) {
        // The store always replaces this file as a whole, so another program has written it.
    }
    const std::string file = TapePaths(options_.directory, name).state.string();
    throw cubepi::CheckpointCorruptionError("the side state of tape '" + name +
                                                "' cannot be read; delete " + file +
                                                " to continue without claims and pending requests",
                                            name, "tape", name + ".jsonl.state", file);
}

std::string TapeDirectory::put_media(const std::string& bytes) {
    make_directory();
    std::string name = sha256_hex(bytes);
    const fs::path directory = options_.directory / "media";
    make_private_directory(directory);
    const fs::path file = directory / name;
    if (::access(file.c_str(), F_OK) != 0) replace_file(file, bytes, false);
    return name;
}

std::optional<std::string> TapeDirectory::get_media(const std::string& sha256) {
    check_tape_name(sha256);
    return read_file(options_.directory / "media" / sha256);
}

}  // namespace bub::detail
