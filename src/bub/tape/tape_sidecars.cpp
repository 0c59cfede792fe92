#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>

// Archives and empties a tape and its sidecars.

namespace bub {

namespace {

constexpr std::string_view sidecar_mark = "__sidecar__";

/// An operation on a sidecar, as recorded in its event.
struct SidecarOutcome {
    std::string what = {};  ///< archive, reset
    std::string sidecar = {};
    std::string archive = {};
    std::exception_ptr failure = {};

    TapeEntry entry() const {
        JsonObject data;
        data["sidecar"] = sidecar;
        data["status"] = failure ? "error" : "ok";
        data["reason"] = "tape.reset";
        if (!archive.empty()) data["archive"] = archive;
        if (failure) data["error"] = cubepi::exception_text(failure);
        return event_entry("sidecar." + what, std::move(data), hidden_from_context());
    }
};

Task<SidecarOutcome> try_archive(Tape sidecar, std::string name, std::string directory) {
    cubepi::Outcome<std::string> archive =
        co_await cubepi::outcome_of(sidecar.archive(std::move(directory)));
    if (archive.cancelled()) archive.rethrow();
    SidecarOutcome outcome;
    outcome.what = "archive";
    outcome.sidecar = std::move(name);
    outcome.failure = archive.failure();
    if (archive.ok()) outcome.archive = std::move(archive).value();
    co_return outcome;
}

Task<SidecarOutcome> try_reset(Tape sidecar, std::string name) {
    const cubepi::Outcome<> done =
        co_await cubepi::outcome_of(sidecar.store()->reset(sidecar.name()));
    if (done.cancelled()) done.rethrow();
    SidecarOutcome outcome;
    outcome.what = "reset";
    outcome.sidecar = std::move(name);
    outcome.failure = done.failure();
    co_return outcome;
}

/// Creates a new file: an archive of the same second is not overwritten.
std::filesystem::path write_new(const std::filesystem::path& stem,
                                const std::vector<TapeEntry>& entries) {
    std::error_code unknown;
    if (!std::filesystem::is_directory(stem.parent_path(), unknown))
        detail::make_private_directory(stem.parent_path());
    for (int number = 1;; ++number) {
        std::filesystem::path path = stem;
        if (number > 1) path += "-" + std::to_string(number);
        path += ".bak";
        if (std::filesystem::exists(path)) continue;
        const detail::Descriptor file = detail::Descriptor::open(path, O_WRONLY | O_CREAT | O_EXCL);
        for (const TapeEntry& entry : entries) file.write(tape_line(entry));
        return path;
    }
}

}  // namespace

std::string sidecar_tape_name(std::string_view owner, std::string_view sidecar) {
    return std::string(owner) + std::string(sidecar_mark) + std::string(sidecar);
}

bool is_sidecar_name(std::string_view tape) { return tape.find(sidecar_mark) != tape.npos; }

Tape Tape::sidecar(std::string_view name) const {
    if (std::find(sidecars_.begin(), sidecars_.end(), name) == sidecars_.end()) {
        throw cubepi::Error(cubepi::ErrorCode::not_found,
                            "tape '" + name_ + "' has no sidecar '" + std::string(name) +
                                "'; a plugin's provide_tape_sidecar must return it");
    }
    return Tape(store_, sidecar_tape_name(name_, name));
}

Task<std::string> Tape::archive(std::string directory) const {
    const Tape tape = *this;
    const std::shared_ptr<const cubepi::Runtime> runtime = cubepi::Runtime::standard();
    std::string stamp = tape_date(runtime->clock->wall()).substr(0, 19);
    std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
    std::filesystem::path stem =
        std::filesystem::path(std::move(directory)) / (tape.name_ + ".jsonl." + stamp + "Z");
    TapeQuery all;
    std::vector<TapeEntry> entries = co_await tape.store_->fetch(tape.name_, std::move(all));
    if (entries.empty()) co_return std::string();
    auto write = [stem = std::move(stem), entries = std::move(entries)] {
        return write_new(stem, entries);
    };
    const std::filesystem::path path =
        co_await cubepi::offload(*runtime->workers, std::move(write));
    co_return path.string();
}

Task<std::string> Tape::reset(TapeReset options) const {
    const Tape tape = *this;
    const bool archives = !options.archive_directory.empty();
    std::string archived;
    if (archives) archived = co_await tape.archive(options.archive_directory);
    std::vector<SidecarOutcome> archives_made;
    for (const std::string& name : tape.sidecars_) {
        SidecarOutcome outcome;
        if (archives) {
            outcome = co_await try_archive(tape.sidecar(name), name, options.archive_directory);
        }
        archives_made.push_back(std::move(outcome));
    }
    co_await tape.restart(archived);
    for (std::size_t i = 0; i < tape.sidecars_.size(); ++i) {
        const SidecarOutcome& made = archives_made[i];
        std::vector<TapeEntry> events;
        if (made.failure || !made.archive.empty()) events.push_back(made.entry());
        if (!made.failure) {
            const std::string& name = tape.sidecars_[i];
            const SidecarOutcome outcome = co_await try_reset(tape.sidecar(name), name);
            events.push_back(outcome.entry());
        }
        co_await tape.append(std::move(events));
    }
    co_return archived;
}

}  // namespace bub
